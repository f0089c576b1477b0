"""What is raised where a wrapper does at run time what its language has not: no `except` of a wrapper can take it.

    raise Refused("tensor-operator", "computes with a tensor")
    rejected(error, files)                       # the same as Rejected, with the line of the wrapper

Reads and writes nothing.
"""

from collections.abc import Collection

from passbench.submission import Rejected

SENTENCES = {
    "tensor-operator": "computes with numbers; tensors are for kernels",
    "state": "keeps nothing between calls but settings that are looked up by a key",
    "tensor-method": "computes in kernels, not through tensor methods",
    "wrapper-call": "calls its own functions and those that the grader knows",
    "launch": "launches kernels on a grid of whole numbers, with tensors, numbers and settings",
    "kept-output": "returns memory of its own, not what it keeps for later calls",
}
"""Rule -> what a wrapper does."""


class Refused(BaseException):
    """A wrapper did what its language has not."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(text)
        self.rule = rule


def rejected(error: Refused, files: Collection[str]) -> Rejected:
    """A refusal as Rejected, with the innermost line of the submission."""
    where, trace = "", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name in files:
            where = f"{name[1:-1]}:{trace.tb_lineno}: "
        trace = trace.tb_next
    return Rejected(error.rule, f"{where}{error}: a wrapper {SENTENCES[error.rule]}")
