"""Every row that is not a graph: frozen, slotted, keyword-only; field docs are the literals under the fields.

Is: the nouns of the funnel, in order: ModelRef, ConfigLink, ModelConfig, GraphRecord, CanonicalGraph, Member,
Relation, Occurrence, Subgraph, Pick, KernelMap, Kernel, Estimate, Environment, Profile, LongTail, TaskCandidate, Task,
TaskVariant, EvalResult; Failure beside all.
Each row type names its identity in `KEY`; ids are content hashes made by `content_id`, never random, never positions.
Reads and writes nothing. `schemas.arrow` derives the Arrow schema from the annotations, `data.card` the field docs.
The rows of identity stand in `schemas.class_rows`, those of compiled graphs in `schemas.kernel_rows`, that of the long
tail in `schemas.longtail_rows`, those of the benchmark in `schemas.task_rows`, failures in `schemas.failures`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Protocol

import xxhash

from schemas.class_rows import CanonicalGraph as CanonicalGraph
from schemas.class_rows import Member as Member
from schemas.class_rows import Relation as Relation
from schemas.failures import Failure as Failure
from schemas.failures import FailureKind as FailureKind
from schemas.failures import Skipped as Skipped
from schemas.graph import Graph
from schemas.kernel_rows import Estimate as Estimate
from schemas.kernel_rows import Kernel as Kernel
from schemas.kernel_rows import KernelMap as KernelMap
from schemas.kernel_rows import Launch as Launch
from schemas.kernel_rows import Unfused as Unfused
from schemas.longtail_rows import LongTail as LongTail
from schemas.task_rows import CORRECT_VERDICTS as CORRECT_VERDICTS
from schemas.task_rows import RAN_VERDICTS as RAN_VERDICTS
from schemas.task_rows import EvalResult as EvalResult
from schemas.task_rows import Task as Task
from schemas.task_rows import TaskCandidate as TaskCandidate
from schemas.task_rows import TaskVariant as TaskVariant
from schemas.task_rows import Verdict as Verdict
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
    """Library that builds the model: transformers, timm, torchvision, diffusers or one of the further zoos."""
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
    """What is known about running a rebuilt graph against its module."""

    EQUAL = "equal"
    """Every output, and everything written, is equal bit for bit (nan equals nan)."""
    CLOSE = "close"
    """Equal bit for bit to the module under a compiler; without one, the module goes a way that rounds otherwise."""
    TOO_LARGE = "too_large"
    """Inputs, parameters and live values would exceed the memory limit; not run."""
    NOT_RUNNABLE = "not_runnable"
    """Neither module nor graph runs on synthetic data (the reason is in `numeric_detail`)."""


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
    "dynamo-specialised" and "record-specialised" where it read values of inputs or weights: the graph holds for
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
    """Whether the rebuilt graph does what the module itself does, called eagerly."""
    numeric_detail: str
    """Why it was not compared, or not with the module itself and on every draw; empty if it was."""
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


ROW_TYPES: tuple[type, ...] = (
    ModelRef, ConfigLink, ModelConfig, GraphRecord, CanonicalGraph, Member, Relation, Occurrence, Subgraph, Pick,
    KernelMap, Kernel, Estimate, Environment, Profile, LongTail, TaskCandidate, Task, TaskVariant, EvalResult, Failure,
)  # fmt: skip
"""All row types, in funnel order."""
