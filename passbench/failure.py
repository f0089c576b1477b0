"""What an exception in a worker means, decided by its type where it is raised.

    describe_error(error)                        # {"verdict": "OOM", "rule": "", "detail": "one line"}

Reads and writes nothing.
"""

from passbench.submission import Rejected
from schemas.rows import Verdict


class PassFailed(Exception):
    """A step of applying passes failed in a way whose verdict is known where it happened."""

    def __init__(self, verdict: Verdict, detail: str) -> None:
        super().__init__(detail)
        self.verdict = verdict


def describe_error(error: BaseException) -> dict[str, str]:
    """Verdict, rule and one line of an exception raised by a guest."""
    chain = [error, *_causes(error)]
    known = next((item for item in chain if isinstance(item, PassFailed | Rejected)), None)
    if isinstance(known, Rejected):
        return {"verdict": Verdict.REJECTED.value, "rule": known.rule, "detail": one_line(known)}
    if isinstance(known, PassFailed):
        return {"verdict": known.verdict.value, "rule": "", "detail": one_line(known)}
    return {"verdict": _verdict(chain).value, "rule": "", "detail": f"{type(error).__name__}: {one_line(error)}"}


def one_line(error: BaseException | str) -> str:
    """The first lines of a message as one line of at most 300 characters."""
    return " ".join(str(error).split())[:300]


def _causes(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    while True:
        cause = getattr(error, "inner_exception", None) or error.__cause__ or error.__context__
        if cause is None or cause in found or len(found) > 10:
            return found
        found.append(cause)
        error = cause


def _verdict(chain: list[BaseException]) -> Verdict:
    for error in chain:
        name, module = type(error).__name__, type(error).__module__
        if isinstance(error, MemoryError) or name == "OutOfMemoryError" or "can't allocate memory" in str(error):
            return Verdict.OOM
        if module.startswith("triton.compiler") or name in ("CompilationError", "PTXASError"):
            return Verdict.COMPILE_ERROR
    return Verdict.RUNTIME_ERROR
