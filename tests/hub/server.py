"""A stand-in Hub on loopback: real HTTP, the paths, headers and error codes of the Hub's API, faults by seed.

    with HubServer(population(size=100, seed=0, faults=0.0)) as hub:
        list(HfApi(endpoint=hub.endpoint).list_models())
    hub.counts["list"], hub.resolved["org0/model-000000"]

Serves listings (Link cursors, `expand`, filters), model info, tree, and resolve by HEAD and GET (ETag, X-Repo-Commit,
redirects of renamed repositories, X-Error-Code); every answer carries RateLimit headers. Weights do not exist.
"""

import contextlib
import json
import math
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.hub.population import PASSING, Model

HUGE_BYTES = 300_000_000
FILE = "config.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a server behaves."""

    page_size: int = 1000
    """Entries a page at most, as the Hub."""
    quotas: Mapping[str, int] | None = None
    """Requests a window by resource ("api", "resolvers"); none without."""
    window_s: float = 300.0
    retry_after_s: int = 1
    stall_s: float = 3.0
    """How long a stalled answer takes; longer than the client's patience."""
    page_delay_s: float = 0.0
    spoil_pages: int = 0
    """How many of the first listing requests fail: 429, 500, half a body and no JSON, in turn."""


class HubServer:
    """A server in threads of this process; a context manager. Counters may be read at any time."""

    def __init__(self, models: Sequence[Model], settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.models = list(models)
        self.by_name = {model.name: model for model in models}
        self.counts: Counter[str] = Counter()
        """Requests by kind: list, info, tree, head, get, redirect, limited."""
        self.resolved: Counter[str] = Counter()
        """Requests to the resolver by model, redirects included."""
        self.wasted: Counter[str] = Counter()
        """Those of them that were answered by an injected fault that passes, or by a redirect."""
        self.spoiled: Counter[str] = Counter()
        self.windows: dict[str, tuple[float, int]] = {}
        self.link_base = ""
        """Host that Link headers name; this one if empty."""
        self.lock = threading.Lock()
        self.http = _Server(("127.0.0.1", 0), _Handler)
        self.http.hub = self

    @property
    def endpoint(self) -> str:
        """What HF_ENDPOINT would hold."""
        return f"http://127.0.0.1:{self.http.server_address[1]}"

    def __enter__(self) -> "HubServer":
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        self.http.shutdown()
        self.http.server_close()

    def spend(self, resource: str) -> tuple[int, float]:
        """Count a request against its window: what is left (below 0: over it) and the seconds until the next."""
        quota = (self.settings.quotas or {}).get(resource, 10**9)
        with self.lock:
            began, used = self.windows.get(resource, (time.monotonic(), 0))
            if time.monotonic() - began >= self.settings.window_s:
                began, used = time.monotonic(), 0
            self.windows[resource] = (began, used + 1)
            return quota - used - 1, began + self.settings.window_s - time.monotonic()

    def spoil(self, key: str, times: int) -> bool:
        """Whether this request is one of the first `times` under a key."""
        with self.lock:
            self.spoiled[key] += 1
            return self.spoiled[key] <= times

    def count(self, kind: str, model: str = "") -> int:
        """Count a request; the number so far of its kind."""
        with self.lock:
            self.counts[kind] += 1
            if model:
                self.resolved[model] += 1
            return self.counts[kind]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    hub: HubServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, *_: object) -> None:
        return None

    def do_HEAD(self) -> None:
        self._route()

    def do_GET(self) -> None:
        self._route()

    def handle(self) -> None:
        """Serve a connection; a client that hangs up ends it."""
        with contextlib.suppress(ConnectionError):
            super().handle()

    def _route(self) -> None:
        parts = urlsplit(self.path)
        resource = "api" if parts.path.startswith("/api/") else "resolvers"
        left, wait = self.server.hub.spend(resource)
        self.limit = f'"{resource}";r={max(left, 0)};t={math.ceil(wait)}'
        if left < 0:
            self.server.hub.count("limited")
            self._answer(429, b"", {"Retry-After": str(math.ceil(wait))})
        elif parts.path == "/_counts":
            self._json(dict(self.server.hub.counts))
        elif parts.path == "/api/models":
            self._list(parse_qs(parts.query))
        elif parts.path.startswith("/api/models/"):
            self._api(parts.path.removeprefix("/api/models/").split("/"))
        else:
            self._resolve(parts.path.strip("/").split("/"))

    # --- answers ---
    def _answer(self, status: int, body: bytes, headers: Mapping[str, str], sent: bytes | None = None) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(key, value)
        self.send_header("RateLimit", self.limit)
        self.send_header("RateLimit-Policy", '"fixed window";"any";q=1000;w=300')
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body if sent is None else sent)
        if sent is not None:
            self._hang_up()

    def _hang_up(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def _json(self, value: Any, headers: Mapping[str, str] | None = None) -> None:
        self._answer(200, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})

    def _error(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        named = {"X-Error-Code": code} if code else {}
        self._answer(status, b"", {**named, "X-Error-Message": message, **(headers or {})})

    # --- listings ---
    def _list(self, query: dict[str, list[str]]) -> None:
        hub, settings = self.server.hub, self.server.hub.settings
        number = hub.count("list")
        time.sleep(settings.page_delay_s)
        if number <= settings.spoil_pages:
            self._spoiled_page(number % 4)
            return
        wanted = [model for model in hub.models if _fits(model.listed, query)]
        if "lastModified" in query.get("sort", []):
            wanted.sort(key=lambda model: model.listed["lastModified"], reverse=True)
        start = int(query.get("cursor", ["0"])[0])
        stop = start + min(int(query.get("limit", ["1000"])[0]), settings.page_size)
        fields = {"_id", "id", "modelId", *query.get("expand", [])}
        rows = [{key: value for key, value in model.listed.items() if key in fields} for model in wanted[start:stop]]
        link = urlencode({**query, "cursor": [str(stop)]}, doseq=True)
        more = (
            {"Link": f'<{hub.link_base or hub.endpoint}/api/models?{link}>; rel="next"'} if stop < len(wanted) else {}
        )
        self._json(rows, more)

    def _spoiled_page(self, how: int) -> None:
        if how == 1:
            self._error(429, "", "slow down", {"Retry-After": str(self.server.hub.settings.retry_after_s)})
        elif how == 2:
            self._error(500, "", "oops")
        else:
            self._answer(200, b"[" * 100, {}, sent=b"[" * 50 if how == 3 else None)

    def _api(self, parts: list[str]) -> None:
        model = self.server.hub.by_name.get("/".join(parts[:2]))
        if model is None or model.fault == "private":
            self._error(401, "RepoNotFound", "Repository not found")
        elif parts[2:3] == ["tree"]:
            self.server.hub.count("tree")
            self._json([{"type": "file", "path": FILE, "size": len(model.config), "oid": _etag(model)}])
        else:
            self.server.hub.count("info")
            self._json(model.listed)

    # --- files ---
    def _resolve(self, parts: list[str]) -> None:
        hub, now_named = self.server.hub, parts[0] == "renamed"
        name = "/".join(parts[int(now_named) : int(now_named) + 2])
        model, rest = hub.by_name.get(name), parts[int(now_named) + 2 :]
        hub.count(self.command.lower(), name)
        if model is None or model.fault == "private":
            self._error(401, "RepoNotFound", "Repository not found")
        elif model.fault == "disabled":
            self._error(403, "", "Access to this resource is disabled.")
        elif model.fault == "gated":
            self._error(403, "GatedRepo", f"Access to model {name} is restricted")
        elif rest[:1] != ["resolve"] or rest[1] not in (model.sha, "main"):
            self._error(404, "RevisionNotFound", "Invalid rev id")
        elif rest[2:] != [FILE] or model.fault == "missing_config":
            self._error(404, "EntryNotFound", "Entry not found", {"X-Repo-Commit": model.sha})
        elif model.fault == "renamed" and not now_named:
            hub.count("redirect")
            hub.wasted[name] += 1
            self._answer(307, b"", {"Location": f"/renamed/{'/'.join(parts)}"})
        elif model.fault in PASSING and hub.spoil(self._spoil_key(model), model.bad_answers):
            self._spoiled_file(model)
        else:
            self._file(model, {})

    def _spoil_key(self, model: Model) -> str:
        """Bodies are spoiled in GET; the rest in whatever request comes first."""
        body = model.fault in ("cut_body", "wrong_length")
        return f"{model.name}/{self.command if body else ''}"

    def _spoiled_file(self, model: Model) -> None:
        half = model.config[: len(model.config) // 2]
        if self.command == "HEAD" and model.fault in ("cut_body", "wrong_length"):
            self._file(model, {})
            return
        self.server.hub.wasted[model.name] += 1
        if model.fault == "rate_limited":
            self._error(429, "", "slow down", {"Retry-After": str(self.server.hub.settings.retry_after_s)})
        elif model.fault == "timeout":
            time.sleep(self.server.hub.settings.stall_s)
            self._hang_up()
        elif model.fault.startswith("error_"):
            self._error(int(model.fault.removeprefix("error_")), "", "oops")
        elif model.fault == "cut_body":
            self._file(model, {}, sent=half)
        else:
            self._file(model, {"Content-Length": str(len(half))}, sent=half)

    def _file(self, model: Model, headers: Mapping[str, str], sent: bytes | None = None) -> None:
        base = {"ETag": f'"{_etag(model)}"', "X-Repo-Commit": model.sha, "Content-Type": "text/plain"}
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if asked and sent is None:
            start, whole = int(asked[1]), len(model.config)
            part = model.config[start:]
            self._answer(206, part, {**base, "Content-Range": f"bytes {start}-{whole - 1}/{whole}"})
            return
        if model.fault == "huge":
            base["Content-Length"] = str(HUGE_BYTES)
            sent = b"x" * 5_000_000
        self._answer(200, model.config, {**base, **headers}, sent)


def _etag(model: Model) -> str:
    """git's name of the file's content."""
    return sha1(b"blob %d\0" % len(model.config) + model.config).hexdigest()


def _fits(listed: Mapping[str, Any], query: Mapping[str, list[str]]) -> bool:
    labels = {*listed["tags"], listed["library_name"]}
    task = query.get("pipeline_tag")
    author = query.get("author")
    return (
        labels.issuperset(query.get("filter", []))
        and (not task or listed["pipeline_tag"] in task)
        and (not author or listed["id"].split("/")[0] in author)
    )
