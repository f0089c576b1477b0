"""Requests to a Hub: one budget of requests for all threads, one policy of retries, limits on size and time.

    with Session(policy=Policy(), budget=Budget()) as session:
        text = session.call(lambda: get_session().get(url).text)

Is: hooks on the HTTP client of huggingface_hub, so that what the library requests itself passes them too. Of the
library's own retries only the resumed download of a body is let through; any other request that it repeats within one
attempt ends the attempt.
Reads and writes nothing on disk. `extract.hub` is the user.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from extract.failures import first_line
from schemas.rows import FailureKind

T = TypeVar("T")
API, RESOLVER = "api", "resolver"
"""What the Hub counts apart: listings, and files."""
ASKED = "/api/models"
"""The one part of the API that is asked; the library's own notices and registries are not, whatever their host."""
RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
"""HTTP statuses that may pass."""
SAME_WINDOW_S = 2.0
"""Two resets that are this near belong to one window: headers round to seconds."""


class TransientError(RuntimeError):
    """A request failed in a way that may pass."""


class GivenUpError(RuntimeError):
    """Every attempt at a request failed."""


class TooLargeError(RuntimeError):
    """A file is larger than the policy admits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How patiently a Hub is asked."""

    attempts: int = 6
    """Attempts a call before it is given up."""
    backoff_s: float = 1.0
    """Wait after the first failed attempt; doubles with each."""
    timeout_s: float = 10.0
    """Longest silence of the server in one request."""
    longest_wait_s: float = 900.0
    """Longest wait that a server may ask for; what it asks beyond is cut."""
    max_bytes: int = 1 << 20
    """Largest file that is fetched."""


@dataclass(slots=True, kw_only=True)
class Window:
    """What is left of a budget until a moment of the clock."""

    left: int
    reset: float


class Budget:
    """Requests left a resource in the server's current window, shared by all threads.

    Nothing is known before the first answer; a window that has passed is forgotten.
    """

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._windows: dict[str, Window] = {}
        self._lock = threading.Lock()

    def take(self, resource: str) -> None:
        """Wait until a request may be made, and count it."""
        while (wait := self._reserve(resource)) > 0:
            self._sleep(wait)

    def _reserve(self, resource: str) -> float:
        """Take one request and return 0, or the seconds until the next window."""
        with self._lock:
            window, now = self._windows.get(resource), self._clock()
            if window is not None and now >= window.reset:
                del self._windows[resource]
                window = None
            if window is None:
                return 0.0
            if window.left < 1:
                return window.reset - now
            window.left -= 1
            return 0.0

    def note(self, resource: str, *, left: int, reset_s: float) -> None:
        """Learn from an answer: so many requests are left for so many seconds."""
        with self._lock:
            reset = self._clock() + reset_s
            known = self._windows.get(resource)
            if known is not None and abs(known.reset - reset) < SAME_WINDOW_S:
                left, reset = min(left, known.left), max(reset, known.reset)
            self._windows[resource] = Window(left=left, reset=reset)


def retry_after_s(value: str, now: datetime) -> float | None:
    """Seconds that a Retry-After header asks for, given as a number or as a date (RFC 9110, 10.2.3)."""
    if value.strip().isdigit():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (moment - now).total_seconds()) if moment.tzinfo else None


class Session:
    """The policy at work: a context in which every request of huggingface_hub passes budget, limits and counters.

    `counts` holds the requests by resource, "redirect" for those of them answered by a redirect, "retry" for attempts
    after the first. One session at a time: the library has one client a process.
    """

    def __init__(self, *, policy: Policy, budget: Budget, sleep: Callable[[float], None] = time.sleep) -> None:
        self.policy, self.budget = policy, budget
        self.counts: Counter[str] = Counter()
        self._sleep = sleep
        self._lock = threading.Lock()
        self._attempt = threading.local()

    def __enter__(self) -> "Session":
        from huggingface_hub import set_client_factory

        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
        set_client_factory(self._client)
        return self

    def __exit__(self, *_: object) -> None:
        from huggingface_hub import set_client_factory
        from huggingface_hub.utils._http import default_client_factory

        set_client_factory(default_client_factory)

    def call(self, action: Callable[[], T]) -> T:
        """The action's value, from the first attempt that gives one.

        Raises GivenUpError after the last one; what cannot pass (4xx, a file too large) is raised at once.
        """
        for attempt in range(self.policy.attempts):
            if attempt:
                self._count("retry")
                self._sleep(self.policy.backoff_s * 2 ** (attempt - 1))
            self._attempt.seen = Counter()
            try:
                return action()
            except (RuntimeError, OSError, ValueError, _http_error()) as error:
                if not may_pass(error):
                    raise
                last = error
            finally:
                self._attempt.seen = None
        raise GivenUpError(f"{self.policy.attempts} attempts failed; the last: {last or type(last).__name__}") from last

    def _client(self) -> Any:
        from huggingface_hub.utils._http import default_client_factory

        client = default_client_factory()
        hooks = client.event_hooks
        client.event_hooks = {
            "request": [*hooks["request"], self._before], "response": [*hooks["response"], self._after],
        }  # fmt: skip
        return client

    def _before(self, request: Any) -> None:
        resource = resource_of(request.url.path)
        if resource == API and not request.url.path.startswith(ASKED):
            raise TransientError(f"{request.url.path} is not asked: a session lists models and fetches files")
        self._refuse_repeat(request.method, request.url.path, resource)
        self.budget.take(resource)
        self._count(resource)
        limits = dict.fromkeys(("connect", "read", "write", "pool"), self.policy.timeout_s)
        request.extensions = {**request.extensions, "timeout": limits}

    def _refuse_repeat(self, method: str, path: str, resource: str) -> None:
        seen = getattr(self._attempt, "seen", None)
        if seen is None or resource == API:
            return
        allowed = self.policy.attempts if method == "GET" else 1
        if seen[method, path] >= allowed:
            raise TransientError(f"no whole answer to {method} {path}")
        if seen[method, path]:
            self._count("retry")
        seen[method, path] += 1

    def _after(self, response: Any) -> None:
        from huggingface_hub.utils._http import parse_ratelimit_headers

        path = response.request.url.path
        resource, headers = resource_of(path), response.headers
        limit = parse_ratelimit_headers(headers)
        if limit is not None:
            self._note(resource, left=limit.remaining, reset_s=limit.reset_in_seconds)
        if response.status_code in RETRIED:
            wait = retry_after_s(headers.get("Retry-After", ""), datetime.now(UTC))
            if wait is not None:
                self._note(resource, left=0, reset_s=wait)
            raise TransientError(f"HTTP {response.status_code} for {path}")
        if response.has_redirect_location:
            self._count("redirect")
        elif resource == RESOLVER and response.is_success:
            self._check_size(path, headers.get("X-Linked-Size") or headers.get("Content-Length") or "")

    def _check_size(self, path: str, length: str) -> None:
        if length.isdigit() and int(length) > self.policy.max_bytes:
            raise TooLargeError(f"{path} has {length} bytes, more than {self.policy.max_bytes}")

    def _note(self, resource: str, *, left: int, reset_s: float) -> None:
        self.budget.note(resource, left=left, reset_s=min(reset_s, self.policy.longest_wait_s))

    def _count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1


def resource_of(path: str) -> str:
    """Which budget a request is counted against."""
    return API if path.startswith("/api/") else RESOLVER


def meter(max_bytes: int) -> Any:
    """A class in the place of a progress bar that shows nothing and raises TooLargeError beyond a number of bytes."""

    class Meter:
        def __init__(self, *_: object, **__: object) -> None:
            self.read = 0

        def __enter__(self) -> "Meter":
            return self

        def __exit__(self, *_: object) -> None:
            return None

        def update(self, size: float | None = 1) -> None:
            self.read += int(size or 0)
            if self.read > max_bytes:
                raise TooLargeError(f"the file has more than {max_bytes} bytes")

    return Meter


# --- what an error means --------------------------------------------------------------------------------------------
def _http_error() -> type[Exception]:
    """The base of every error of the HTTP client, under the name that huggingface_hub imports it by."""
    from huggingface_hub import errors

    found: type[Exception] = vars(errors)["HTTPError"]
    return found


def root_error(error: BaseException) -> BaseException:
    """The Hub's own answer behind the library's "not in the cache either"."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    return error.__cause__ if isinstance(error, LocalEntryNotFoundError) and error.__cause__ else error


def may_pass(error: BaseException) -> bool:
    """Whether another attempt can help: not after an answer of the Hub, nor after an error of this machine."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OfflineModeIsEnabled

    error = root_error(error)
    if isinstance(error, HfHubHTTPError | HFValidationError | LocalEntryNotFoundError | OfflineModeIsEnabled):
        return False
    if isinstance(error, TooLargeError):
        return False
    local = isinstance(error, OSError) and not isinstance(error, ConnectionError | TimeoutError)
    return not (local and getattr(error, "errno", None) is not None)


def hub_message(error: BaseException) -> str:
    """One line that is the same at every attempt: status and code of an answer, without the request's number."""
    root = root_error(error)
    response = getattr(root, "response", None)
    if response is None:
        return first_line(root)
    told = response.headers.get("X-Error-Code") or response.headers.get("X-Error-Message") or "no reason given"
    return f"HTTP {response.status_code}: {told}"


def hub_failure_kind(error: BaseException) -> FailureKind:
    """The kind of what `Session.call` raises; UNKNOWN for what is no answer of a Hub."""
    from huggingface_hub import errors

    table: tuple[tuple[type[BaseException], FailureKind], ...] = (
        (TooLargeError, FailureKind.TOO_LARGE),
        (errors.GatedRepoError, FailureKind.GATED),
        (errors.DisabledRepoError, FailureKind.DISABLED),
        (errors.RepositoryNotFoundError, FailureKind.REMOVED),
        (errors.RevisionNotFoundError, FailureKind.REMOVED),
        (errors.HFValidationError, FailureKind.REMOVED),
        (errors.RemoteEntryNotFoundError, FailureKind.MISSING_CONFIG),
        (errors.LocalEntryNotFoundError, FailureKind.NETWORK),
        (errors.OfflineModeIsEnabled, FailureKind.NETWORK),
        (errors.HfHubHTTPError, FailureKind.NETWORK),
        (GivenUpError, FailureKind.NETWORK),
    )
    root = root_error(error)
    return next((kind for cls, kind in table if isinstance(root, cls)), FailureKind.UNKNOWN)
