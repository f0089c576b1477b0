"""benchmarks.spine: figures of a tiny run, recomputed by hand."""

import json
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from benchmarks.spine import main, measure
from data.store import RunDirectory
from schemas.arrow import to_table
from schemas.graph import Graph
from schemas.rows import EvalResult, FailureKind, GraphRecord, NumericCheck, Verdict
from tests.data.tiny_run import CLASS, FAILURE, add_relu, with_rows, write_run

pytestmark = pytest.mark.torch

GRAPH = GraphRecord(
    graph_id="graph", architecture="arch", name="alpha", family="alpha", modality="text-encoder",
    license="apache-2.0", entry_point="forward", capture="dynamo-eval", rung="fake", break_index=0, break_count=1,
    break_reason="", num_nodes=5, num_ops=2, num_parameters=0, numeric=NumericCheck.EQUAL, numeric_detail="",
    graph=add_relu(4, 8),
)  # fmt: skip
NUMERIC = replace(FAILURE, stage="graphs", item="other", kind=FailureKind.NUMERIC)
KEYS = """models graphs classes subgraphs profiles tasks variants failures failures_unknown seconds peak_rss_gib
bytes_per_node roundtrip_identity roundtrip_numeric_checked roundtrip_numeric_equal""".split()


@pytest.fixture
def run(tmp_path):
    graphs = [GRAPH, replace(GRAPH, graph_id="large", numeric=NumericCheck.TOO_LARGE, numeric_detail="9 GiB")]
    tables = with_rows(graphs=graphs) | {"graphs.failures": [NUMERIC]}
    path = write_run(tmp_path / "run", tables)
    RunDirectory(path).write_json("run.json", {"wall_s": 12.5, "peak_rss_gib": 1.5})
    return path


def test_the_figures_are_those_of_the_tables(run):
    found = measure(run)
    assert set(KEYS) <= set(found)
    assert [found[k] for k in ("models", "graphs", "classes", "subgraphs", "profiles", "tasks", "variants")] == [
        3, 2, 1, 1, 1, 1, 3,
    ]  # fmt: skip
    assert (found["models_with_graph"], found["failures"], found["failures_unknown"]) == (2, 2, 0)
    assert (found["seconds"], found["peak_rss_gib"]) == (12.5, 1.5)
    assert (found["roundtrip_numeric_checked"], found["roundtrip_numeric_equal"]) == (0.666667, 0.5)
    size = sum(path.stat().st_size for path in (run / "graphs").glob("*.parquet"))
    assert found["bytes_per_node"] == round(size / 10, 2)


def test_the_round_trip_is_recomputed(run):
    assert measure(run)["roundtrip_identity"] == 1.0
    nodes = list(CLASS.graph.nodes)
    nodes[2] = replace(nodes[2], name="self")
    unsafe = Graph(nodes=tuple(nodes), inits=CLASS.graph.inits, subgraphs=())
    write_run(run, {"graphs": [GRAPH, replace(GRAPH, graph_id="unsafe", graph=unsafe)]})
    assert measure(run)["roundtrip_identity"] == 0.5


def test_json_is_one_flat_object(run, capsys):
    assert main(["--json", "--out", str(run)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert all(value is None or isinstance(value, int | float | str) for value in found.values())


def test_no_run_is_one_line_on_standard_error(tmp_path, capsys):
    assert main(["--out", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert not out and len(err.splitlines()) == 1 and "make run" in err


def test_without_json_it_is_a_table(run, capsys):
    assert main(["--out", str(run)]) == 0
    lines = dict(line.split() for line in capsys.readouterr().out.splitlines())
    assert (lines["models"], lines["roundtrip_identity"]) == ("3", "1.0")


def test_gradings_beside_the_run_are_scored(run):
    row = EvalResult(
        task_id="task", index=0, submission="s", environment="e", verdict=Verdict.PASSED, rule="", detail="", matches=1,
        correct_from=-10, max_abs_error=0.0, max_rel_error=0.0, speed_measured=False, speedup=None, ci_low=None,
        ci_high=None, inductor_speedup=None, isolation="none",
    )  # fmt: skip
    failed = replace(row, verdict=Verdict.TIMEOUT, correct_from=None, max_abs_error=None, max_rel_error=None)
    rows = [row, replace(row, index=1), replace(failed, index=2)]
    (run / "results" / "mine").mkdir(parents=True)
    pq.write_table(to_table(rows, EvalResult), run / "results" / "mine" / "results.parquet")
    found = measure(run)
    assert (found["passed_mine"], found["speed_measured_mine"]) == (0.666667, 0.0)
    # one of three fails at run time: tolerated from t = 3 on, until then it counts b = 0.1
    weights = {**dict.fromkeys(range(-10, -5), 0.001), **dict.fromkeys((-5, -4, -3), 1.0), 4: 0.001}
    weights |= {t: 0.8 ** (t + 3) for t in range(-2, 4)}
    expected = 0.1 ** (sum(w for t, w in weights.items() if t < 3) / sum(weights.values()) / 3)
    assert found["as_mine"] == pytest.approx(expected, abs=1e-6)
