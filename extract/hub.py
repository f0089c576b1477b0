"""Source `hub`: the models of a Hugging Face Hub and their config.json, never weights, never code.

    config = HubConfig(task="fill-mask", limit=2000)
    with Session(policy=config.policy, budget=Budget()) as session:
        for row in collect_hub(folder=Path("cache"), config=config, session=session):
            ...                                         # HubModel or Failure, one a listed model, in listing order

A listing is pages of JSON and a state with the cursor in `folder/listing-*`, so that it resumes after a kill in the
middle; a finished one is not asked for again (`refresh=True` lists anew). Every entry names its commit; config.json is
fetched at that commit into `folder/files`. What can never succeed at a commit is remembered in
`folder/verdicts.jsonl`: a rebuild asks the resolver only for revisions it has not seen.

Reads the Hub at `endpoint` (else HF_ENDPOINT, as huggingface_hub reads it) with its token; writes below `folder`.
"""

import json
import os
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from extract.catalog import OTHER, load_catalog, place
from extract.failures import first_line
from extract.hub_session import (
    GivenUpError,
    Policy,
    Session,
    TooLargeError,
    hub_failure_kind,
    hub_message,
    meter,
    root_error,
)
from schemas.rows import Failure, FailureKind, ModelRef, Text, content_id, row_key

FILE = "config.json"
BATCH = 1000
"""Entries of a listing that are in memory at a time."""
EXPAND = (
    "config", "disabled", "downloads", "gated", "lastModified", "library_name", "pipeline_tag", "private", "sha",
    "siblings", "tags",
)  # fmt: skip
"""What a listing tells of every model, so that no model is asked for alone."""
LASTING = frozenset({
    FailureKind.GATED, FailureKind.DISABLED, FailureKind.REMOVED, FailureKind.MISSING_CONFIG, FailureKind.TOO_LARGE,
})  # fmt: skip
"""Answers of the resolver that stay true at a commit and with the same access."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubConfig:
    """Which models of a Hub, and how it is asked."""

    endpoint: str = ""
    """Address of the Hub; empty takes HF_ENDPOINT, else the public one."""
    task: str = ""
    """Only models of this pipeline tag."""
    license: str = ""
    """Only models under this licence."""
    library: str = "transformers"
    """Only models of this library; empty takes all."""
    parameters: str = ""
    """Only models of this size, as the Hub writes it: "min:100M,max:7B"."""
    since: str = ""
    """Only models changed at this date or later ("2026-11-01"), the newest first; empty takes all, most used first."""
    limit: int = 0
    """How many models at most; 0 takes all."""
    page_size: int = 1000
    """Entries a listing request."""
    threads: int = 16
    """Downloads at a time."""
    policy: Policy = field(default_factory=Policy)
    """Patience and limits."""

    def __post_init__(self) -> None:
        if self.limit < 0 or self.page_size < 1 or self.threads < 1:
            raise ValueError("limit must not be negative; page_size and threads must be at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class HubModel:
    """A model and the text of its configuration."""

    ref: ModelRef
    config: Text
    """config.json at the commit, as the repository holds it: a JSON object."""


def collect_hub(
    *, folder: Path, config: HubConfig, session: Session, refresh: bool = False,
    known_types: frozenset[str] | None = None,
) -> Iterator[HubModel | Failure]:  # fmt: skip
    """Yield a HubModel or a Failure for every listed model, in listing order.

    `known_types` are the model types that can be built; those of the installed transformers if not given. Raises
    ValueError if the listing fails: run it again to go on from where it stopped.
    """
    listing = update_listing(folder=folder, config=config, session=session, refresh=refresh)
    known = transformers_types() if known_types is None else known_types
    fetcher = Fetcher(folder=folder, config=config, session=session, known_types=known)
    entries = read_listing(listing, config)
    with ThreadPoolExecutor(config.threads) as pool:
        while batch := list(islice(entries, BATCH)):
            yield from pool.map(fetcher.fetch, batch)


def cache_folder() -> Path:
    """Where listings and configurations are kept: PASSNET_HUB_CACHE, else passnet/hub in the user's cache folder."""
    given = os.environ.get("PASSNET_HUB_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(given or f"{base}/passnet/hub").expanduser()


def stored_settings(ref: ModelRef, folder: Path) -> Mapping[str, Any]:
    """The configuration that was fetched for a model, read from the cache; raises ValueError if it is not there."""
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(ref.name, FILE, cache_dir=folder / "files", revision=ref.revision)
    if not isinstance(path, str):
        raise ValueError(f"{FILE} of {ref.name} is no longer in {folder}: run the stage models again with --fresh")
    return _object(Path(path).read_text(encoding="utf-8", errors="replace"))


def transformers_types() -> frozenset[str]:
    """The model types that the installed transformers builds without code from a repository."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return frozenset(CONFIG_MAPPING_NAMES)


# --- the listing ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """How far a listing has come."""

    next: str
    """Path and query of the next page; empty if there is none."""
    pages: int = 0
    """Pages written."""
    models: int = 0
    """Entries on them that the configuration wants."""


def listing_path(config: HubConfig) -> str:
    """Path and query of a listing's first page."""
    labels = [config.library, f"license:{config.license}" if config.license else ""]
    query = {
        "limit": str(config.page_size), "expand": EXPAND, "filter": [label for label in labels if label],
        "pipeline_tag": config.task, "num_parameters": config.parameters,
        "sort": "lastModified" if config.since else "downloads",
    }  # fmt: skip
    return f"/api/models?{urlencode({key: value for key, value in query.items() if value}, doseq=True)}"


def update_listing(*, folder: Path, config: HubConfig, session: Session, refresh: bool = False) -> Path:
    """Ask for the pages that are not there yet; the folder of the pages.

    A page is written before the cursor moves past it, both by renaming, so that a kill costs at most one page.
    """
    first = listing_path(config)
    home = folder / f"listing-{content_id(_endpoint(config), first, config.since)[:16]}"
    home.mkdir(parents=True, exist_ok=True)
    cursor = Cursor(next=first) if refresh else _read_cursor(home, first)
    while cursor.next and not (config.limit and cursor.models >= config.limit):
        entries, following = _ask_page(cursor.next, config, session)
        wanted = [_slim(entry) for entry in entries if str(entry.get("lastModified", "")) >= config.since]
        if config.since and len(wanted) < len(entries):
            following = ""
        _write(home / f"page-{cursor.pages:06d}.json", wanted)
        cursor = Cursor(next=following, pages=cursor.pages + 1, models=cursor.models + len(wanted))
        _write(home / "cursor.json", {"next": cursor.next, "pages": cursor.pages, "models": cursor.models})
    return home


def read_listing(home: Path, config: HubConfig) -> Iterator[Mapping[str, Any]]:
    """The entries of a listing in its order, each name once, at most `limit`."""
    seen: set[str] = set()
    for number in range(_read_cursor(home, "").pages):
        for entry in json.loads((home / f"page-{number:06d}.json").read_text(encoding="utf-8")):
            if config.limit and len(seen) >= config.limit:
                return
            if entry["id"] not in seen:
                seen.add(entry["id"])
                yield entry


def _ask_page(path: str, config: HubConfig, session: Session) -> tuple[list[Mapping[str, Any]], str]:
    """The entries of one page, and the path and query of the next one; the address in a link is not followed."""
    from huggingface_hub import get_session
    from huggingface_hub.utils._headers import build_hf_headers
    from huggingface_hub.utils._http import hf_raise_for_status

    def ask() -> tuple[list[Mapping[str, Any]], str]:
        answer = get_session().get(_endpoint(config) + path, headers=build_hf_headers())
        hf_raise_for_status(answer)
        entries = answer.json()
        if not isinstance(entries, list) or not all(isinstance(entry, dict) and entry.get("id") for entry in entries):
            raise ValueError("a page of a listing is no list of models")
        link = urlsplit(answer.links.get("next", {}).get("url", ""))
        return entries, f"{link.path}?{link.query}" if link.query else ""

    try:
        return session.call(ask)
    except (GivenUpError, OSError) as error:
        advice = "the same command goes on from this page"
        raise ValueError(f"listing {_endpoint(config)} failed: {first_line(error)}; {advice}") from error


def _slim(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """The entry with the one file that is of interest, if the repository has it; repositories may hold thousands."""
    files = entry.get("siblings")
    if not isinstance(files, list):
        return entry
    return {**entry, "siblings": [f for f in files if isinstance(f, dict) and f.get("rfilename") == FILE]}


def _endpoint(config: HubConfig) -> str:
    from huggingface_hub import constants

    return (config.endpoint or constants.ENDPOINT).rstrip("/")


def _read_cursor(home: Path, first: str) -> Cursor:
    """The stored cursor; one at the first page if there is none."""
    path = home / "cursor.json"
    return Cursor(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else Cursor(next=first)


def _write(path: Path, value: object) -> None:
    """Write JSON under another name, flush it to disk, then rename."""
    draft = path.with_suffix(".draft")
    with draft.open("w", encoding="utf-8") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


# --- one model ------------------------------------------------------------------------------------------------------
def ref_of(entry: Mapping[str, Any]) -> ModelRef:
    """A listing's entry as a row, its fields as the Hub says them."""
    name, revision = str(entry["id"]), str(entry.get("sha") or "")
    tags = tuple(str(tag) for tag in entry.get("tags") or ())
    family = str(_settings(entry).get("model_type") or "")
    return ModelRef(
        model=content_id("hub", name, revision), source="hub", name=name, revision=revision,
        library=str(entry.get("library_name") or ""), family=family,
        modality=place(family, load_catalog().families) or OTHER, pipeline_tag=str(entry.get("pipeline_tag") or ""),
        license=next((tag.removeprefix("license:") for tag in tags if tag.startswith("license:")), ""),
        gated=bool(entry.get("gated")), downloads=int(entry.get("downloads") or 0), tags=tags,
    )  # fmt: skip


def _settings(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    found = entry.get("config")
    return found if isinstance(found, dict) else {}


class Verdict(ValueError):
    """Why a model gives no configuration: kind, one line, and the type of the error behind it, if any."""

    def __init__(self, kind: FailureKind, message: str, exception: str = "") -> None:
        super().__init__(message)
        self.kind, self.exception = kind, exception


class Verdicts:
    """What the resolver said for good, by model, commit and access: one JSON line each, appended as it happens."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        self._known: dict[str, Verdict] = {}
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for line in lines:
            parsed = _parse(line)
            if isinstance(parsed, dict):
                verdict = Verdict(FailureKind(parsed["kind"]), parsed["message"], parsed["exception"])
                self._known[parsed["key"]] = verdict

    def get(self, key: str) -> Verdict | None:
        """The verdict on a key, or None."""
        return self._known.get(key)

    def add(self, key: str, verdict: Verdict) -> None:
        """Remember a verdict; a line that a kill has cut is closed first."""
        fields = {"key": key, "kind": verdict.kind.value, "message": str(verdict), "exception": verdict.exception}
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(f"\n{json.dumps(fields)}\n")
            self._known[key] = verdict


def _parse(text: str) -> object:
    """A JSON value, or None for a text that is none."""
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return None


class Fetcher:
    """Turns entries of a listing into configurations; `fetch` may be called from many threads."""

    def __init__(self, *, folder: Path, config: HubConfig, session: Session, known_types: frozenset[str]) -> None:
        from huggingface_hub import get_token

        self._config, self._session, self._known_types = config, session, known_types
        self._files = folder / "files"
        self._verdicts = Verdicts(folder / "verdicts.jsonl")
        token = get_token()
        self._access = content_id("token", token)[:8] if token else "anonymous"
        self._meter = meter(config.policy.max_bytes)

    def fetch(self, entry: Mapping[str, Any]) -> HubModel | Failure:
        """The configuration of a listed model, or why there is none."""
        ref = ref_of(entry)
        try:
            self._check_entry(entry)
            text = self._text(ref)
            self._check_settings(_object(text))
        except Verdict as verdict:
            return Failure(
                stage="models", item=row_key(ref), name=ref.name, kind=verdict.kind, exception=verdict.exception,
                message=first_line(verdict), detail=Text(""),
            )  # fmt: skip
        return HubModel(ref=ref, config=Text(text))

    def _check_entry(self, entry: Mapping[str, Any]) -> None:
        """Raise a Verdict if the listing itself rules a download out; costs no request."""
        files = entry.get("siblings")
        if entry.get("disabled"):
            raise Verdict(FailureKind.DISABLED, "the listing says: disabled")
        if entry.get("gated") and self._access == "anonymous":
            raise Verdict(FailureKind.GATED, "the listing says: gated, and there is no token")
        if not entry.get("sha"):
            raise Verdict(FailureKind.REMOVED, "the listing names no commit")
        if files == []:
            raise Verdict(FailureKind.MISSING_CONFIG, f"the listing has no {FILE}")
        if _settings(entry).get("auto_map"):
            self._check_settings(_settings(entry))

    def _check_settings(self, settings: Mapping[str, Any]) -> None:
        family = settings.get("model_type")
        if isinstance(family, str) and family in self._known_types:
            return
        if settings.get("auto_map"):
            raise Verdict(FailureKind.REMOTE_CODE, f"model type {family!r} is defined by code of the repository")
        raise Verdict(FailureKind.CONFIG_UNSUPPORTED, f"the installed transformers has no model type {family!r}")

    def _text(self, ref: ModelRef) -> str:
        """config.json at its commit: from the folder if it is there, else by one HEAD and one GET."""
        key = f"{ref.name}@{ref.revision}/{self._access}"
        known = self._verdicts.get(key)
        if known is not None:
            raise Verdict(known.kind, str(known), known.exception)
        try:
            path = self._session.call(lambda: self._download(ref))
        except (GivenUpError, TooLargeError, OSError, ValueError) as error:
            kind = hub_failure_kind(error)
            if kind is FailureKind.UNKNOWN:
                raise
            verdict = Verdict(kind, hub_message(error), type(root_error(error)).__name__)
            if kind in LASTING:
                self._verdicts.add(key, verdict)
            raise verdict from error
        if path.stat().st_size > self._config.policy.max_bytes:
            raise Verdict(FailureKind.TOO_LARGE, f"{FILE} has {path.stat().st_size} bytes")
        return path.read_text(encoding="utf-8", errors="replace")

    def _download(self, ref: ModelRef) -> Path:
        from huggingface_hub import hf_hub_download

        return Path(
            hf_hub_download(
                ref.name, FILE, revision=ref.revision, cache_dir=self._files, endpoint=_endpoint(self._config),
                tqdm_class=self._meter,
            )
        )  # fmt: skip


def _object(text: str) -> Mapping[str, Any]:
    found = _parse(text)
    if not isinstance(found, dict):
        raise Verdict(FailureKind.MALFORMED_CONFIG, f"{FILE} is no JSON object but {_what(text, found)}")
    return found


def _what(text: str, found: object) -> str:
    """What a file is that is no configuration."""
    start = text.lstrip("\ufeff \t\r\n")
    if not start:
        return "empty"
    if start.startswith("version https://git-lfs"):
        return "a pointer to a file in Git LFS"
    if start.lower().startswith(("<!doctype", "<html")):
        return "a page of HTML"
    if found is not None:
        return f"a JSON {'array' if isinstance(found, list) else type(found).__name__}"
    return f"a text that begins with {start[:30]!r}"
