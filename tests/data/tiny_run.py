"""A run directory made by hand: two models with one graph class, one piece, one task; a third model failed."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from data.store import Manifest, Part, RunDirectory
from schemas.arrow import to_table
from schemas.graph import Graph, Node, TensorSpec
from schemas.rows import (
    CanonicalGraph,
    ConfigLink,
    Environment,
    Failure,
    FailureKind,
    Member,
    ModelConfig,
    ModelRef,
    Occurrence,
    Profile,
    ProfileStatus,
    Relation,
    Subgraph,
    Task,
    TaskVariant,
    TimingVerdict,
)  # fmt: skip

Tables = dict[str, Sequence[Any]]


def spec(*shape: int, dtype: str = "float32") -> TensorSpec:
    stride = [1]
    for size in reversed(shape[1:]):
        stride.insert(0, stride[0] * size)
    return TensorSpec(dtype=dtype, shape=shape, stride=tuple(stride[: len(shape)]), device="cpu")


def add_relu(*shape: int, dtype: str = "float32") -> Graph:
    """relu(x + y)."""
    out = spec(*shape, dtype=dtype)
    both = json.dumps({"args": [{"in": 0}, {"in": 1}], "kwargs": {}}, separators=(",", ":"))
    one = json.dumps({"args": [{"in": 0}], "kwargs": {}}, separators=(",", ":"))
    end = json.dumps({"args": [{"tuple": [{"in": 0}]}], "kwargs": {}}, separators=(",", ":"))
    normal = '{"kind":"normal","mean":0,"std":1}'
    return Graph(
        nodes=(
            Node(op="placeholder", name="x", target="input", inputs=(), attrs="{}", outputs=(out,)),
            Node(op="placeholder", name="y", target="input", inputs=(), attrs="{}", outputs=(out,)),
            Node(op="call_function", name="add", target="torch.add", inputs=(0, 1), attrs=both, outputs=(out,)),
            Node(
                op="call_function", name="relu", target="torch.nn.functional.relu", inputs=(2,), attrs=one,
                outputs=(out,),
            ),
            Node(op="output", name="output", target="", inputs=(3,), attrs=end, outputs=()),
        ),
        inits=(normal, normal),
        subgraphs=(),
    )  # fmt: skip


def _model(name: str, license: str) -> ModelRef:
    return ModelRef(
        model=f"model-{name}", source="installed", name=name, revision="transformers 5.0", library="transformers",
        family=name, modality="text-encoder", pipeline_tag="", license=license, gated=False, downloads=0, tags=("a",),
    )  # fmt: skip


MODELS = [_model("alpha", "apache-2.0"), _model("beta", "mit"), _model("gamma", "")]
CONFIG = ModelConfig(
    architecture="arch", name="alpha", library="transformers", library_version="5.0", class_name="Alpha", config="{}",
    family="alpha", modality="text-encoder", license="apache-2.0",
)  # fmt: skip
CLASS = CanonicalGraph(
    key="class", shape_free="sf", dtype_free="df", structure="st", topology="to", body="bo", inference="in",
    members=1, architectures=1, representative="graph", name="alpha",
    family="alpha", modality="text-encoder", license="apache-2.0", num_nodes=5, num_ops=2,
    graph=add_relu(4, 8),
)  # fmt: skip
RELATION = Relation(
    key="class", structure="st", rank=0, contributes=True, cluster="class", cluster_size=1, nearest="", similarity=0.0
)
PIECE = Subgraph(
    key="piece", shape_free="psf", dtype_free="pdf", structure="pst", topology="pto", kind="fusible", rule="maximal",
    pattern="add > relu", num_ops=2, num_compute_ops=2, document_frequency=1, occurrences=1, families=("alpha",),
    modalities=("text-encoder",), licenses=("apache-2.0",), graph=add_relu(4, 8),
)  # fmt: skip
TASK = Task(
    task_id="task", version=1, title="add > relu", split="test", structure="pst", num_variants=3, max_patterns=100,
    max_functions=1, document_frequency=1, families=("alpha",), modalities=("text-encoder",), licenses=("apache-2.0",),
    rejected_solvers=("zeros", "constant", "identity"),
)  # fmt: skip
VARIANTS = [
    TaskVariant(
        task_id="task", index=index, subgraph=f"v{index}", origin="piece", dtype=dtype, shapes="4x8, 4x8",
        graph=add_relu(4, 8, dtype=dtype),
    )
    for index, dtype in enumerate(("float32", "float16", "bfloat16"))
]  # fmt: skip
ENVIRONMENT = Environment(
    environment="env", device="cpu", processor="p", cores=2, threads=1, python="3.11", torch="2.14", triton="",
    system="Linux",
)  # fmt: skip
PROFILE = Profile(
    subgraph="piece", environment="env", settings="{}", status=ProfileStatus.MEASURED, verdict=TimingVerdict.SAME,
    eager_us=1.0, inductor_us=1.0, speedup=1.0, ci_low=0.9, ci_high=1.1, pairs=2, recompiles=0, compile_s=0.5,
    eager_samples_us=(1.0, 1.0), inductor_samples_us=(1.0, 1.0),
)  # fmt: skip
FAILURE = Failure(
    stage="configs", item="gamma", name="gamma", kind=FailureKind.CONFIG_UNSUPPORTED, exception="ValueError",
    message="no default", detail="",
)  # fmt: skip

RUN_TABLES: Tables = {
    "models": MODELS,
    "configs": [CONFIG],
    "configs.failures": [FAILURE],
    "links": [ConfigLink(model=row.model, architecture="arch") for row in MODELS[:2]],
    "classes": [CLASS],
    "members": [
        Member(
            graph_id="graph",
            key="class",
            architecture="arch",
            family="alpha",
            modality="text-encoder",
            license="apache-2.0",
        )
    ],
    "relations": [RELATION],
    "occurrences": [
        Occurrence(
            parent="class", nodes_id="n", nodes=(2, 3), subgraph="piece", kind="fusible", rule="maximal", repeats=1
        )
    ],
    "subgraphs": [PIECE],
    "profiles": [PROFILE],
    "environments": [ENVIRONMENT],
    "tasks": [TASK],
    "variants": VARIANTS,
}
"""Tables that a build of this size would hold."""
ROW_TYPES: dict[str, type] = {name: type(rows[0]) for name, rows in RUN_TABLES.items()}


def _row_type(name: str, rows: Sequence[Any]) -> type:
    return type(rows[0]) if rows else ROW_TYPES[name]


def with_rows(**tables: Sequence[Any]) -> Tables:
    """RUN_TABLES with some tables replaced."""
    return {**RUN_TABLES, **tables}


def write_run(path: Path, tables: Tables) -> Path:
    """Write tables as one part each, with manifests that count what was skipped; returns the path."""
    run = RunDirectory(path)
    run.create()
    for name, rows in tables.items():
        run.write_parts([Part(table=name, index=0, data=to_table(rows, _row_type(name, rows)))])
        if not name.endswith(".failures"):
            counts = {"skipped": {"over the budget of 40": 2}} if name == "subgraphs" else {}
            run.write_manifest(Manifest(stage=name, shard=0, fingerprint={}, outputs=(), counts=counts))
    return path
