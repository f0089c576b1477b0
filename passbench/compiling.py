"""What was interpreted must be what Triton compiles (layer D4b.compiled): asks a process that compiles it offline.

    with Compiler(limits, isolation) as compiler:
        compiler.check(described, case)          # settles the case where the compiler refuses a kernel

One template, in which Triton does not interpret, is started with the first kernel of a harness; what was compiled once
is not compiled again. A compilation that takes too long or memory that runs short says nothing of a kernel: the row
tells that it was left out. Reads and writes nothing.
"""

import hashlib
import json
import threading
from collections.abc import Mapping
from typing import Any

from passbench.grading import Case
from passbench.isolate import Child, Limits, Template, TemplateDied
from passbench.verdicts import describe_end
from passbench.wire import Header, WireClosed, WireError, WireTimeout
from schemas.rows import Verdict
from schemas.text import plain

SECONDS = 60.0
"""Processor seconds for the kernels of one variant."""
MAX_ANSWER = 2**16


class Compiler:
    """Compiles kernels for one harness; usable from several threads, a context manager."""

    def __init__(self, limits: Limits, isolation: str) -> None:
        self.limits, self.isolation = limits, isolation
        self.template: Template | None = None
        self.known: dict[str, str] = {}
        """Digest of a kernel's texts and one specialisation -> what is wrong with it, or ""."""
        self.turn = threading.Lock()

    def __enter__(self) -> "Compiler":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the template; the next kernel starts another."""
        if self.template is not None:
            self.template.__exit__(None, None, None)
            self.template = None

    def check(self, told: bytes, case: Case) -> None:
        """Settle a case if one of the kernels it ran is not compiled."""
        try:
            found = json.loads(told)
            kernels, wanted = dict(found["kernels"]), list(found["wanted"])
        except (ValueError, TypeError, KeyError, RecursionError):
            case.fail(Verdict.INTEGRITY, "an account of kernels without form", rule="protocol")
            return
        with self.turn:
            failed = self.failure_of(kernels, wanted, case)
        if failed:
            case.comparison = None
            case.fail(Verdict.COMPILE_ERROR, plain(failed, 500))

    def failure_of(self, kernels: Mapping[str, Any], wanted: list[Any], case: Case) -> str:
        """What is wrong with the first kernel that fails; empty if nothing is known to be."""
        texts = json.dumps(kernels, sort_keys=True)
        digests = {hashlib.sha256(f"{texts}{json.dumps(item)}".encode()).hexdigest(): item for item in wanted}
        failed = next((self.known[digest] for digest in digests if self.known.get(digest)), "")
        new = {digest: item for digest, item in digests.items() if digest not in self.known}
        if failed or not new:
            return failed
        try:
            answer = self.ask({"do": "compile", "kernels": kernels, "wanted": list(new.values())})
        except (TemplateDied, WireTimeout, MemoryError) as error:
            if isinstance(error, TemplateDied):
                self.close()
            case.checked.append(f"kernels were not compiled: {error or type(error).__name__}")
            return ""
        texts_of_failures = [str(text) for text in answer["failed"]]
        self.known.update(zip(new, texts_of_failures, strict=False))
        return texts_of_failures[-1]

    def ask(self, request: Header) -> Header:
        """The answer of a fresh process; raises TemplateDied, WireTimeout."""
        if self.template is None:
            self.template = Template(
                device="cpu", limits=self.limits, isolation=self.isolation, interpret=False
            ).__enter__()
        child = self.template.fork("compiler")
        try:
            answer, _ = child.ask(request, timeout_s=SECONDS, limit=MAX_ANSWER)
        except (WireClosed, WireError) as error:
            return {"failed": [_ended(child, error)]}
        finally:
            child.end()
        if "error" in answer:
            if answer["error"].get("verdict") == Verdict.OOM.value:
                raise MemoryError("memory ran short")
            return {"failed": [f"Triton's compiler: {answer['error'].get('detail')}"]}
        return answer


def _ended(child: Child, error: Exception) -> str:
    """What a compiler's process that gave no answer died of; raises MemoryError where it was killed from outside."""
    end = child.end()
    if end.signal == 9:
        raise MemoryError("the compiler's process was killed") from error
    return f"Triton's compiler ended on it: {describe_end(end)}"
