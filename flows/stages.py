"""The pipeline as one literal table: what runs, in which order, on which tables.

    for stage in STAGES: print(stage.name, stage.reads, "->", stage.writes)

Reads and writes nothing. Functions and configurations are named, not imported: they are loaded by child processes, so
the process that runs a build never holds torch. The runner, the Prefect flow, the CLI, the funnel and the docs test
all follow this table.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from data.calls import Limits
from schemas import rows

TABLES: Mapping[str, type] = {
    "models": rows.ModelRef,
    "configs": rows.ModelConfig,
    "links": rows.ConfigLink,
    "graphs": rows.GraphRecord,
    "classes": rows.CanonicalGraph,
    "members": rows.Member,
    "relations": rows.Relation,
    "occurrences": rows.Occurrence,
    "subgraphs": rows.Subgraph,
    "picks": rows.Pick,
    "profiles": rows.Profile,
    "environments": rows.Environment,
    "longtail": rows.LongTail,
    "kernel_maps": rows.KernelMap,
    "kernels": rows.Kernel,
    "estimates": rows.Estimate,
    "candidates": rows.TaskCandidate,
    "tasks": rows.Task,
    "variants": rows.TaskVariant,
}
"""Table name -> row type, for every table a stage writes; "<stage>.failures" tables hold Failure rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """How a table stage accounts for its input: every value of one column stands in another, failed or was skipped."""

    table: str
    """A table the stage reads."""
    column: str
    """Its column."""
    written: str
    """A table the stage writes."""
    by: str
    """Its column; "variants.origin" looks into a list of structs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One row of the pipeline: a function from rows to rows."""

    name: str
    """Its name, and that of the main table it writes."""
    doc: str
    """One sentence."""
    function: str
    """"module:function"."""
    config: str
    """"module:Class": its frozen configuration."""
    scope: str
    """table: called once with whole tables; item: called for every row, in a killable child."""
    reads: tuple[str, ...] = ()
    """Tables it reads; an item stage reads one."""
    writes: tuple[str, ...]
    """Tables it writes, its main table first."""
    accounts: tuple[Account, ...] = ()
    """How a table stage accounts for its input rows."""
    takes: tuple[str, ...] = ()
    """Fields of the build's configuration that it takes over: seed, limit, select."""
    libraries: tuple[str, ...] = ()
    """Distributions whose version decides its rows; a new version makes it run again."""
    limits: Limits = field(default_factory=Limits)
    """What one call may use."""
    version: int = 1
    """Raised when the function's meaning changes; makes the stage run again."""
    shard_rows: int = 1000
    """Item stages: input rows a shard, the unit of resume. Table stages: rows a written part."""
    ranked: bool = False
    """Whether the order in which rows are yielded has a meaning; otherwise rows are sorted by key."""
    parallel: int | None = None
    """Most shards at a time; 1 where a measurement must not be disturbed."""


ZOO = (
    "transformers", "timm", "torchvision", "diffusers", "torch_geometric", "torchaudio", "ultralytics", "torch",
)  # fmt: skip
MINUTES = 60.0

STAGES: tuple[Stage, ...] = (
    Stage(
        name="models",
        doc="List models: a seeded pick of the installed architectures, the models of a Hub, or sample folders.",
        function="extract.models:list_models",
        config="extract.models:ModelsConfig",
        scope="table",
        writes=("models",),
        takes=("seed", "limit", "select"),
        libraries=ZOO,
        limits=Limits(timeout_s=10 * MINUTES),
    ),
    Stage(
        name="configs",
        doc="Give every model its canonical configuration; models that share one are traced once.",
        function="extract.configs:resolve_configs",
        config="extract.configs:ConfigsConfig",
        scope="table",
        reads=("models",),
        writes=("configs", "links"),
        accounts=(Account(table="models", column="model", written="links", by="model"),),
        libraries=ZOO,
        limits=Limits(timeout_s=30 * MINUTES),
    ),
    Stage(
        name="graphs",
        doc="Build each architecture without weights, capture its graph, admit it if it survives the round trip.",
        function="extract.trace:trace",
        config="extract.trace:TraceConfig",
        scope="item",
        reads=("configs",),
        writes=("graphs",),
        takes=("seed",),
        libraries=ZOO,
        limits=Limits(timeout_s=5 * MINUTES, memory_gib=5.0, hard=True, recycle_items=32),
        version=2,
        shard_rows=2,
    ),
    Stage(
        name="classes",
        doc="Put equal graphs into one class, keep one relabelled graph of each, find families and near-duplicates.",
        function="dedup.classes:classify",
        config="dedup.classes:ClassifyConfig",
        scope="table",
        reads=("graphs",),
        writes=("classes", "members", "relations"),
        accounts=(Account(table="graphs", column="graph_id", written="members", by="graph_id"),),
        limits=Limits(timeout_s=60 * MINUTES),
    ),
    Stage(
        name="occurrences",
        doc="Find the pieces of every class: what one kernel could compute, repeated blocks, single ops.",
        function="fusion_mining.mine:mine",
        config="fusion_mining.mine:MineConfig",
        scope="item",
        reads=("classes",),
        writes=("occurrences",),
        shard_rows=8,
    ),
    Stage(
        name="subgraphs",
        doc="Make each distinct piece a graph of its own and count where it was found.",
        function="fusion_mining.pieces:collect",
        config="fusion_mining.pieces:PiecesConfig",
        scope="table",
        reads=("occurrences", "classes", "members"),
        writes=("subgraphs",),
        accounts=(Account(table="occurrences", column="subgraph", written="subgraphs", by="key"),),
        limits=Limits(timeout_s=60 * MINUTES),
    ),
    Stage(
        name="picks",
        doc="Choose the pieces whose speed is worth measuring.",
        function="fusion_mining.pieces:pick",
        config="fusion_mining.pieces:PickConfig",
        scope="table",
        reads=("subgraphs",),
        writes=("picks",),
        accounts=(Account(table="subgraphs", column="key", written="picks", by="subgraph"),),
        takes=("seed",),
        ranked=True,
    ),
    Stage(
        name="kernel_maps",
        doc="Compile picked pieces for a GPU that is not there: kernels, the nodes in each, an estimate of their time.",
        function="fusion_mining.kernels:kernels",
        config="fusion_mining.kernels:KernelsConfig",
        scope="item",
        reads=("picks",),
        writes=("kernel_maps", "kernels", "estimates"),
        libraries=("torch", "triton"),
        limits=Limits(timeout_s=15 * MINUTES, memory_gib=8.0, recycle_items=40),
        shard_rows=40,
    ),
    Stage(
        name="profiles",
        doc="Time each picked piece, eager against Inductor, in interleaved pairs.",
        function="fusion_mining.profile:profile",
        config="fusion_mining.profile:ProfileConfig",
        scope="item",
        reads=("picks",),
        writes=("profiles", "environments"),
        takes=("seed",),
        libraries=("torch",),
        limits=Limits(timeout_s=3 * MINUTES, recycle_items=20),
        shard_rows=4,
        parallel=1,
    ),
    Stage(
        name="longtail",
        doc="Say of every measured piece how rare and how slow it is, and which are both.",
        function="fusion_mining.longtail:classify",
        config="fusion_mining.longtail:LongTailConfig",
        scope="table",
        reads=("profiles", "subgraphs", "classes"),
        writes=("longtail",),
        accounts=(Account(table="profiles", column="subgraph", written="longtail", by="subgraph"),),
    ),
    Stage(
        name="candidates",
        doc="Group pieces of one family, in several shapes and dtypes, into proposed tasks.",
        function="curate.families:propose",
        config="curate.families:FamiliesConfig",
        scope="table",
        reads=("subgraphs",),
        writes=("candidates",),
        accounts=(Account(table="subgraphs", column="key", written="candidates", by="variants.origin"),),
        takes=("seed",),
        libraries=("torch",),
        limits=Limits(timeout_s=60 * MINUTES),
        version=2,
        ranked=True,
    ),
    Stage(
        name="tasks",
        doc="Admit the families on which zeros, constants and the identity fail and every op shows.",
        function="curate.admit:admit",
        config="curate.admit:AdmitConfig",
        scope="item",
        reads=("candidates",),
        writes=("tasks", "variants"),
        libraries=("torch",),
        limits=Limits(timeout_s=5 * MINUTES),
        version=2,
        shard_rows=4,
    ),
)
"""The funnel, in order."""


def stage_named(name: str, stages: tuple[Stage, ...] = STAGES) -> Stage:
    """The stage of that name; raises ValueError that lists the names."""
    for stage in stages:
        if stage.name == name:
            return stage
    raise ValueError(f"no stage is called {name!r}; the stages are {', '.join(stage.name for stage in stages)}")


def producer_of(table: str, stages: tuple[Stage, ...] = STAGES) -> Stage:
    """The stage that writes a table; raises ValueError that lists the tables."""
    for stage in stages:
        if table in stage.writes:
            return stage
    tables = [table for stage in stages for table in stage.writes]
    raise ValueError(f"no table is called {table!r}; the tables are {', '.join(tables)}")
