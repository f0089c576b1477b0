"""Items that gave no row: why, and for each kind of failure its cause, whether to try again, and what to do.

    EXPLANATIONS[FailureKind.GATED].advice

Is: `Failure`, `Skipped` and the closed list `FailureKind`; import them from `schemas.rows`, where all row types are.
Reads and writes nothing; `passnet failures` prints the table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from schemas.text import Text


class FailureKind(StrEnum):
    """Why an item stopped: one closed list."""

    GATED = "gated"
    """The source wants an agreement before it hands out files."""
    DISABLED = "disabled"
    """The source has switched the repository off."""
    REMOVED = "removed"
    """The repository or its revision is gone, private or cannot be addressed."""
    MISSING_CONFIG = "missing_config"
    """The repository holds no config.json."""
    MALFORMED_CONFIG = "malformed_config"
    """config.json is no JSON object."""
    TOO_LARGE = "too_large"
    """config.json exceeds the size limit; it was not downloaded."""
    REMOTE_CODE = "remote_code"
    """The model needs code of its repository, which is never run."""
    NETWORK = "network"
    """The source did not answer, or not in full, in any attempt."""
    CONFIG_UNSUPPORTED = "config_unsupported"
    """The library cannot build this configuration."""
    BUILD_ERROR = "build_error"
    """The constructor raised."""
    INPUT_MISMATCH = "input_mismatch"
    """The synthesised inputs do not fit the model."""
    DATA_DEPENDENT = "data_dependent"
    """Forward code needs the value of a tensor that has none."""
    MALFORMED_SAMPLE = "malformed_sample"
    """A published sample lacks a file, or a file of it is not in the form."""
    SAMPLE_VALUES = "sample_values"
    """The code of a published sample needs numbers that its files do not hold."""
    DYNAMO_ERROR = "dynamo_error"
    """Dynamo itself raised."""
    GRAPH_BREAK = "graph_break"
    """The call fell apart into pieces; none is admitted as a whole graph."""
    NOT_REPRESENTABLE = "not_representable"
    """A value, dtype or target that the IR does not hold."""
    ROUNDTRIP = "roundtrip"
    """IR -> FX -> IR is not the identity, or shapes differ after rebuilding."""
    NUMERIC = "numeric"
    """The graph does not compute what its module computes."""
    NONDETERMINISTIC = "nondeterministic"
    """The forward takes numbers of a clock, a generator or an earlier call, which no graph holds."""
    COMPILE_ERROR = "compile_error"
    """Inductor raised."""
    RUNTIME_ERROR = "runtime_error"
    """The graph raised when run."""
    NOT_ADMITTED = "not_admitted"
    """A task on which a trivial solver passes, or with too few variants."""
    TIMEOUT = "timeout"
    """The child process exceeded its time."""
    OOM = "oom"
    """The child process exceeded its memory."""
    CRASH = "crash"
    """The child process died."""
    UNKNOWN = "unknown"
    """Anything else: a defect of the pipeline until classified."""


class Retry(StrEnum):
    """Whether the same item may pass another time."""

    NEVER = "never"
    """The same input fails in the same way."""
    AGAIN = "again"
    """It may pass as it is: the network, the time or the memory was short."""
    CHANGED = "changed"
    """It may pass once a setting, a table or a library has changed; the advice says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What there is to say about one kind."""

    retry: Retry
    """Whether to try again."""
    cause: str
    """What happened."""
    advice: str
    """What a person can do about it."""


EXPLANATIONS: Mapping[FailureKind, Explanation] = {
    FailureKind.GATED: Explanation(
        retry=Retry.CHANGED,
        cause="the source wants an agreement before it hands out files",
        advice="accept the repository's terms on its page and build with a token",
    ),
    FailureKind.DISABLED: Explanation(
        retry=Retry.NEVER,
        cause="the source has switched the repository off",
        advice="nothing to do: the source does not serve it",
    ),
    FailureKind.REMOVED: Explanation(
        retry=Retry.CHANGED,
        cause="the repository or its revision is gone, private or cannot be addressed",
        advice="list again; a private repository needs a token that may read it",
    ),
    FailureKind.MISSING_CONFIG: Explanation(
        retry=Retry.NEVER,
        cause="the repository holds no config.json",
        advice="nothing to do: without config.json there is nothing to build",
    ),
    FailureKind.MALFORMED_CONFIG: Explanation(
        retry=Retry.NEVER,
        cause="config.json is no JSON object",
        advice="nothing to do: the repository's config.json is broken at this revision",
    ),
    FailureKind.TOO_LARGE: Explanation(
        retry=Retry.CHANGED,
        cause="config.json exceeds the size limit; it was not downloaded",
        advice="raise max_bytes if the file is a configuration at all",
    ),
    FailureKind.REMOTE_CODE: Explanation(
        retry=Retry.NEVER,
        cause="the model needs code of its repository, which is never run",
        advice="nothing to do: code of repositories is never run",
    ),
    FailureKind.NETWORK: Explanation(
        retry=Retry.AGAIN,
        cause="the source did not answer, or not in full, in any attempt",
        advice="run the same command again: only what is missing is fetched",
    ),
    FailureKind.CONFIG_UNSUPPORTED: Explanation(
        retry=Retry.CHANGED,
        cause="the library cannot build this configuration",
        advice="pick another configuration or add an adjustment to the table in extract",
    ),
    FailureKind.BUILD_ERROR: Explanation(
        retry=Retry.CHANGED,
        cause="the constructor raised",
        advice="read the detail: the constructor's own message says what the configuration lacks",
    ),
    FailureKind.INPUT_MISMATCH: Explanation(
        retry=Retry.CHANGED,
        cause="the synthesised inputs do not fit the model",
        advice="add an input rule for this family to the table in extract.inputs",
    ),
    FailureKind.DATA_DEPENDENT: Explanation(
        retry=Retry.CHANGED,
        cause="forward code needs the value of a tensor that has none",
        advice="needs a real-valued capture; raise the size limit of the real rung",
    ),
    FailureKind.MALFORMED_SAMPLE: Explanation(
        retry=Retry.CHANGED,
        cause="a published sample lacks a file, or a file of it is not in the form",
        advice="put the file back or correct the line that the message names; nothing of a sample is run",
    ),
    FailureKind.SAMPLE_VALUES: Explanation(
        retry=Retry.CHANGED,
        cause="the code of a published sample needs numbers that its files do not hold",
        advice="give the tensor that the line reads its numbers (`data` in weight_meta.py), or leave the sample out",
    ),
    FailureKind.DYNAMO_ERROR: Explanation(
        retry=Retry.CHANGED,
        cause="Dynamo itself raised",
        advice="read the detail; often fixed by a newer torch",
    ),
    FailureKind.GRAPH_BREAK: Explanation(
        retry=Retry.CHANGED,
        cause="the call fell apart into pieces; none is admitted as a whole graph",
        advice="the reason is in the detail; pieces are kept only on request",
    ),
    FailureKind.NOT_REPRESENTABLE: Explanation(
        retry=Retry.CHANGED,
        cause="a value, dtype or target that the IR does not hold",
        advice="extend the attribute grammar or the dtype table",
    ),
    FailureKind.ROUNDTRIP: Explanation(
        retry=Retry.CHANGED,
        cause="IR -> FX -> IR is not the identity, or shapes differ after rebuilding",
        advice="a defect of schemas.fx: report it with the detail",
    ),
    FailureKind.NUMERIC: Explanation(
        retry=Retry.CHANGED,
        cause="the graph does not compute what its module computes",
        advice="a defect of the capture: report it with the module and the detail; nothing wrong was kept",
    ),
    FailureKind.NONDETERMINISTIC: Explanation(
        retry=Retry.CHANGED,
        cause="the forward takes numbers of a clock, a generator or an earlier call, which no graph holds",
        advice="give such numbers as inputs, keep counters in buffers, draw with torch and leave its seed alone",
    ),
    FailureKind.COMPILE_ERROR: Explanation(
        retry=Retry.CHANGED,
        cause="Inductor raised",
        advice="read the detail; the piece stays in the dataset without a profile",
    ),
    FailureKind.RUNTIME_ERROR: Explanation(
        retry=Retry.CHANGED,
        cause="the graph raised when run",
        advice="read the detail; the synthetic inputs may violate the op's contract",
    ),
    FailureKind.NOT_ADMITTED: Explanation(
        retry=Retry.NEVER,
        cause="a task on which a trivial solver passes, or with too few variants",
        advice="nothing to do: the family stays in PassNet-Dataset, it only is no task",
    ),
    FailureKind.TIMEOUT: Explanation(
        retry=Retry.AGAIN,
        cause="the child process exceeded its time",
        advice="raise the stage's timeout",
    ),
    FailureKind.OOM: Explanation(
        retry=Retry.AGAIN,
        cause="the child process exceeded its memory",
        advice="raise the stage's memory limit or lower the number of workers",
    ),
    FailureKind.CRASH: Explanation(
        retry=Retry.AGAIN,
        cause="the child process died",
        advice="read the detail: it holds the end of the child's standard error",
    ),
    FailureKind.UNKNOWN: Explanation(
        retry=Retry.CHANGED,
        cause="anything else: a defect of the pipeline until classified",
        advice="report it with the detail",
    ),
}
"""One line a kind; every kind has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """An input row that a stage left out on purpose; counted by reason in the manifest, never stored."""

    KEY: ClassVar[tuple[str, ...]] = ("item",)
    item: str
    """`row_key` of the input row."""
    reason: str
    """Short fixed phrase: "over the budget of 40"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why one item of one stage produced no row."""

    KEY: ClassVar[tuple[str, ...]] = ("stage", "item")
    stage: str
    """Stage name."""
    item: str
    """`row_key` of the input row."""
    name: str
    """The item's readable name."""
    kind: FailureKind
    """Why, from the closed list."""
    exception: str
    """Exception type, empty if none."""
    message: str
    """One line."""
    detail: Text
    """Traceback or standard error, cut to 4,000 characters, machine paths removed."""
