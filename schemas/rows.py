"""Every row that is not a graph: frozen, slotted, keyword-only; field docs are the literals under the fields.

Is: the nouns of the funnel, in order: ModelRef, ConfigLink, ModelConfig, GraphRecord, CanonicalGraph, Member,
Relation, Occurrence, Subgraph, Pick, KernelMap, Kernel, Estimate, Environment, Profile, LongTail, TaskCandidate, Task,
TaskVariant, EvalResult; Failure beside all.
Each row type names its identity in `KEY`; ids are content hashes made by `content_id`, never random, never positions.
Reads and writes nothing. `schemas.arrow` derives the Arrow schema from the annotations, `data.card` the field docs.
The rows of identity stand in `schemas.class_rows`, those of compiled graphs in `schemas.kernel_rows`, that of the long
tail in `schemas.longtail_rows`, the kinds of failure in `schemas.failures`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Protocol

import xxhash

from schemas.class_rows import CanonicalGraph as CanonicalGraph
from schemas.class_rows import Member as Member
from schemas.class_rows import Relation as Relation
from schemas.failures import ADVICE as ADVICE
from schemas.failures import FailureKind as FailureKind
from schemas.graph import Graph
from schemas.kernel_rows import Estimate as Estimate
from schemas.kernel_rows import Kernel as Kernel
from schemas.kernel_rows import KernelMap as KernelMap
from schemas.kernel_rows import Launch as Launch
from schemas.kernel_rows import Unfused as Unfused
from schemas.longtail_rows import LongTail as LongTail
from schemas.text import Text as Text

SCHEMA_VERSION = "2"
"""Version of all row types together; a change of any field raises it."""


class Row(Protocol):
    """What the runner and the store need of a row type."""

    KEY: ClassVar[tuple[str, ...]]


def content_id(*parts: str | bytes) -> str:
    """xxh3-128 (32 hex digits) of length-prefixed parts, so that no two lists of parts share their bytes."""
    digest = xxhash.xxh3_128()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(raw).to_bytes(8, "little") + raw)
    return str(digest.hexdigest())


def row_key(row: Row) -> str:
    """The identity of a row as one text: its KEY fields joined by "/"."""
    return "/".join(str(getattr(row, name)) for name in row.KEY)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRef:
    """One model as its source describes it, verbatim."""

    KEY: ClassVar[tuple[str, ...]] = ("model",)
    model: str
    """Content id of (source, name, revision)."""
    source: str
    """Where the model was listed: installed, hub, graphs or files."""
    name: str
    """The source's name of the model: "bert/BertModel", "timm/resnet50" or a Hub repository id."""
    revision: str
    """Commit sha on the Hub; library and version ("transformers 5.24.0") for an installed architecture."""
    library: str
    """Library that builds the model: transformers, timm, torchvision."""
    family: str
    """Architecture family: the transformers model type or the timm module; siblings share it."""
    modality: str
    """Stratum of the architecture: text-encoder, text-decoder, seq2seq, moe, state-space, vision-conv,
    vision-transformer, detection, segmentation, audio, multimodal, other."""
    pipeline_tag: str
    """The Hub's task tag, empty if none."""
    license: str
    """Licence as declared by the source, empty if none."""
    gated: bool
    """Whether the source demands an agreement before download."""
    downloads: int
    """Popularity as the source counts it; 0 for installed architectures."""
    tags: tuple[str, ...]
    """The source's tags, verbatim, in its order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigLink:
    """Which architecture key a model has; many models share one."""

    KEY: ClassVar[tuple[str, ...]] = ("model", "architecture")
    model: str
    """ModelRef.model."""
    architecture: str
    """ModelConfig.architecture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Everything that decides the graph of an architecture: build this once."""

    KEY: ClassVar[tuple[str, ...]] = ("architecture",)
    architecture: str
    """Architecture key: content id of (library, version, class, canonical config)."""
    name: str
    """Name of the first model that has this key, for people."""
    library: str
    """Library that builds the model."""
    library_version: str
    """Its version."""
    class_name: str
    """Class to build ("BertModel") or, for timm, the entry point's name."""
    config: Text
    """Canonical configuration as JSON, keys that cannot shape the graph removed."""
    family: str
    """As in ModelRef."""
    modality: str
    """As in ModelRef."""
    license: str
    """As in ModelRef."""


class NumericCheck(StrEnum):
    """What is known about running a rebuilt graph against the traced one."""

    EQUAL = "equal"
    """Every output is equal bit for bit (nan equals nan)."""
    TOO_LARGE = "too_large"
    """Inputs, parameters and live values would exceed the memory limit; not run."""
    NOT_RUNNABLE = "not_runnable"
    """The traced graph itself does not run on synthetic data (the reason is in `numeric_detail`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRecord:
    """One traced graph, admitted: it survived IR -> FX -> IR, shape propagation and, where it fits, execution."""

    KEY: ClassVar[tuple[str, ...]] = ("graph_id",)
    graph_id: str
    """Content id of (architecture key, entry point, capture mode, break index, graph)."""
    architecture: str
    """ModelConfig.architecture."""
    name: str
    """ModelConfig.name, for people."""
    family: str
    """As in ModelRef."""
    modality: str
    """As in ModelRef."""
    license: str
    """As in ModelRef."""
    entry_point: str
    """What was called: "forward"; on request "batch" (four at a time) and "decode" (one token after a cache)."""
    capture: str
    """Capture mode: "dynamo-eval"; "record-eval" where the forward was recorded function by function instead;
    "record-specialised" where it read values of inputs or weights while recorded: the graph holds for
    these values; on request "aten-eval", "aot-forward" and "aot-backward", made from the torch-level graph."""
    rung: str
    """How weights were avoided: "fake" (fake parameters on CPU), "real" (small enough to hold) or "scaled" (real ones
    of the same architecture with fewer layers and experts)."""
    break_index: int
    """Position of this graph among the pieces of one call; 0 if the call gave one graph."""
    break_count: int
    """Number of pieces the call gave; 1 means the graph is whole."""
    break_reason: str
    """Dynamo's reason for the break before the next piece; empty for a whole graph."""
    num_nodes: int
    """Number of nodes, placeholders and output included."""
    num_ops: int
    """Number of call nodes."""
    num_parameters: int
    """Number of scalar parameters that the graph reads."""
    numeric: NumericCheck
    """Whether the rebuilt module's outputs equal the traced module's on synthetic data."""
    numeric_detail: str
    """Why it was not compared, empty if it was."""
    graph: Graph
    """The graph itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One place where a piece was found."""

    KEY: ClassVar[tuple[str, ...]] = ("parent", "nodes_id")
    parent: str
    """CanonicalGraph.key of the graph it was cut from."""
    nodes_id: str
    """Content id of the node indices."""
    nodes: tuple[int, ...]
    """Indices of the piece's call nodes in the parent's canonical graph, ascending."""
    subgraph: str
    """Subgraph.key of the piece."""
    kind: str
    """As in Subgraph, in this parent."""
    rule: str
    """As in Subgraph, at this place."""
    repeats: int
    """How many places of the parent hold this very piece; this row is the first of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subgraph:
    """One distinct convex piece, self-contained."""

    KEY: ClassVar[tuple[str, ...]] = ("key",)
    key: str
    """Exact canonical key of the piece."""
    shape_free: str
    """As in CanonicalGraph."""
    dtype_free: str
    """As in CanonicalGraph."""
    structure: str
    """As in CanonicalGraph."""
    topology: str
    """As in CanonicalGraph."""
    kind: str
    """fusible: one kernel could compute it. typical: a block that its graph repeats. sole_op: one op that computes. A
    piece found as several kinds is one row, of the first of these kinds."""
    rule: str
    """The rule that admitted it: fusible pieces are maximal, grown or anchored (around a
    contraction), typical ones repeated, sole ops single."""
    pattern: str
    """The piece's compute ops in order, for people: "add > layer_norm > gelu"."""
    num_ops: int
    """Number of call nodes."""
    num_compute_ops: int
    """Number of call nodes that compute (views and tuple reads are free)."""
    document_frequency: int
    """Number of graph classes that contain the piece."""
    occurrences: int
    """Number of places over all classes."""
    families: tuple[str, ...]
    """Architecture families of all graphs that contain it, sorted."""
    modalities: tuple[str, ...]
    """Modalities of all graphs that contain it, sorted."""
    licenses: tuple[str, ...]
    """Licences of all graphs that contain it, sorted."""
    graph: Graph
    """The piece as a graph of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """A piece chosen to be profiled, in the order in which it should be."""

    KEY: ClassVar[tuple[str, ...]] = ("subgraph",)
    subgraph: str
    """Subgraph.key."""
    rank: int
    """0 is profiled first."""
    pattern: str
    """Subgraph.pattern, for people."""
    graph: Graph
    """Subgraph.graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The machine and software a measurement was taken on."""

    KEY: ClassVar[tuple[str, ...]] = ("environment",)
    environment: str
    """Content id of all other fields."""
    device: str
    """Device kind timed: cpu or cuda."""
    processor: str
    """Model name of the processor or GPU that was timed."""
    cores: int
    """CPU cores usable."""
    threads: int
    """Threads that torch used."""
    python: str
    """Python version."""
    torch: str
    """torch version."""
    triton: str
    """triton version, empty if absent."""
    system: str
    """Operating system and kernel release."""


class ProfileStatus(StrEnum):
    """How a profile ended."""

    MEASURED = "measured"
    WRONG_VALUE = "wrong_value"
    """Inductor's output differs from eager's beyond tolerance: never timed."""


class TimingVerdict(StrEnum):
    """The clock's verdict on baseline against candidate."""

    FASTER = "FASTER"
    SLOWER = "SLOWER"
    SAME = "SAME"
    AMBIGUOUS = "AMBIGUOUS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Eager against Inductor on one piece in one environment."""

    KEY: ClassVar[tuple[str, ...]] = ("subgraph", "environment", "settings")
    subgraph: str
    """Subgraph.key."""
    environment: str
    """Environment.environment."""
    settings: str
    """Canonical JSON of the clock's plan."""
    status: ProfileStatus
    """How it ended."""
    verdict: TimingVerdict
    """Inductor against eager: SLOWER means that compilation slowed the piece down."""
    eager_us: float
    """Median eager time a call, microseconds, host end to end."""
    inductor_us: float
    """Median Inductor time a call, microseconds, host end to end."""
    speedup: float
    """eager / Inductor: exp of the median of per-pair log ratios."""
    ci_low: float
    """Lower end of the 95% bootstrap interval of the speed-up."""
    ci_high: float
    """Upper end of it."""
    pairs: int
    """Number of pairs."""
    recompiles: int
    """Recompilations during timing; more than 0 invalidates the profile."""
    compile_s: float
    """Seconds of the first compiled call."""
    eager_samples_us: tuple[float, ...]
    """Raw eager time of every pair."""
    inductor_samples_us: tuple[float, ...]
    """Raw Inductor time of every pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One benchmark task: a family of subgraph variants that one submission must handle."""

    KEY: ClassVar[tuple[str, ...]] = ("task_id", "version")
    task_id: str
    """Content id of the variants' keys."""
    version: int
    """Raised when anything of a published task changes."""
    title: str
    """The compute ops of the family, for people."""
    split: str
    """train or test; no structure and no topology crosses."""
    structure: str
    """The family: Subgraph.structure of all variants."""
    num_variants: int
    """N of the score."""
    max_patterns: int
    """Most passes a submission may list."""
    max_functions: int
    """Most distinct replacement functions a submission may have."""
    document_frequency: int
    """A lower bound on the number of graph classes that contain a piece of the family: that of its commonest member."""
    families: tuple[str, ...]
    """Architecture families the pieces come from, sorted."""
    modalities: tuple[str, ...]
    """Modalities they come from, sorted."""
    licenses: tuple[str, ...]
    """Licences they come under, sorted."""
    rejected_solvers: tuple[str, ...]
    """Trivial solvers that were run against every variant and failed: zeros, constant, identity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskVariant:
    """One subgraph of a task in one dtype and one set of shapes."""

    KEY: ClassVar[tuple[str, ...]] = ("task_id", "index")
    task_id: str
    """Task.task_id."""
    index: int
    """Position in the task, from 0."""
    subgraph: str
    """Exact canonical key of this variant's graph."""
    origin: str
    """Subgraph.key of the mined piece it was made from (itself, unless dtype or shape was varied)."""
    dtype: str
    """Floating-point dtype of the variant."""
    shapes: str
    """Input shapes, for people: "1x128x768, 768"."""
    graph: Graph
    """The graph to be sped up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCandidate:
    """A family of pieces proposed as a task, with all its variants, before admission."""

    KEY: ClassVar[tuple[str, ...]] = ("structure",)
    structure: str
    """Subgraph.structure that all variants' origins share."""
    title: str
    """As in Task."""
    split: str
    """As in Task."""
    document_frequency: int
    """As in Task."""
    families: tuple[str, ...]
    """As in Task."""
    modalities: tuple[str, ...]
    """As in Task."""
    licenses: tuple[str, ...]
    """As in Task."""
    variants: tuple[TaskVariant, ...]
    """Proposed variants; their task_id is empty until admission fixes N."""


class Verdict(StrEnum):
    """What happened to one subgraph of a submission: one closed list."""

    PASSED = "PASSED"
    NO_MATCH = "NO_MATCH"
    """No pass fired on any variant of the task."""
    PARTIAL_MATCH = "PARTIAL_MATCH"
    """No pass fired on this variant, though one did on another variant of the task: the task demands them all."""
    GRAPH_INVALID = "GRAPH_INVALID"
    REJECTED = "REJECTED"
    COMPILE_ERROR = "COMPILE_ERROR"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    TIMEOUT = "TIMEOUT"
    OOM = "OOM"
    WRONG_SHAPE = "WRONG_SHAPE"
    WRONG_DTYPE = "WRONG_DTYPE"
    NON_FINITE = "NON_FINITE"
    WRONG_VALUE = "WRONG_VALUE"
    NONDETERMINISTIC = "NONDETERMINISTIC"
    INTEGRITY = "INTEGRITY"
    AMBIGUOUS_TIMING = "AMBIGUOUS_TIMING"
    HARNESS_ERROR = "HARNESS_ERROR"


RAN_VERDICTS = frozenset({Verdict.PASSED, Verdict.WRONG_VALUE, Verdict.AMBIGUOUS_TIMING, Verdict.NONDETERMINISTIC})
"""Verdicts that come with error numbers: the candidate ran and gave outputs of the right form."""
CORRECT_VERDICTS = frozenset({Verdict.PASSED, Verdict.AMBIGUOUS_TIMING})
"""Verdicts that may come with a speed-up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalResult:
    """What happened to one subgraph of a task under one submission; illegal combinations cannot be constructed."""

    KEY: ClassVar[tuple[str, ...]] = ("task_id", "index", "submission", "environment")
    task_id: str
    """Task.task_id."""
    index: int
    """TaskVariant.index."""
    submission: str
    """Content hash of the submission folder."""
    environment: str
    """Environment.environment."""
    verdict: Verdict
    """What happened."""
    rule: str
    """Which rule or integrity code decided REJECTED or INTEGRITY; empty otherwise."""
    detail: str
    """One line for people: what was expected, what was found."""
    matches: int
    """How many places the passes rewrote."""
    correct_from: int | None
    """Smallest tolerance level t (-10..5) from which outputs agree; None if they never do or did not run."""
    max_abs_error: float | None
    """Largest absolute error against the reference over all outputs and input draws; None if it did not run."""
    max_rel_error: float | None
    """Largest error relative to the reference's own largest magnitude; None if it did not run."""
    speed_measured: bool
    """Whether the candidate's speed is real: false where kernels ran in an interpreter."""
    speedup: float | None
    """eager / candidate time; None unless correct and measured."""
    ci_low: float | None
    """Lower end of its 95% interval."""
    ci_high: float | None
    """Upper end of it."""
    inductor_speedup: float | None
    """eager / default Inductor time in the same session; None if not timed."""
    isolation: str
    """Isolation level reached by the candidate's process."""

    def __post_init__(self) -> None:
        ran, correct = self.verdict in RAN_VERDICTS, self.verdict in CORRECT_VERDICTS
        if not ran and not (self.correct_from is self.max_abs_error is self.max_rel_error is None):
            raise ValueError(f"a result with verdict {self.verdict} did not run, so it carries no error numbers")
        if self.speedup is not None and not (correct and self.speed_measured):
            raise ValueError(f"a result with verdict {self.verdict} and unmeasured or wrong output has no speed-up")
        if correct and self.correct_from is None:
            raise ValueError(f"a result with verdict {self.verdict} needs the tolerance level it is correct from")
        if self.speedup is not None and not self.speedup > 0:
            raise ValueError(f"a speed-up is positive, not {self.speedup}")


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


ROW_TYPES: tuple[type, ...] = (
    ModelRef, ConfigLink, ModelConfig, GraphRecord, CanonicalGraph, Member, Relation, Occurrence, Subgraph, Pick,
    KernelMap, Kernel, Estimate, Environment, Profile, LongTail, TaskCandidate, Task, TaskVariant, EvalResult, Failure,
)  # fmt: skip
"""All row types, in funnel order."""
