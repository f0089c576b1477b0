"""Child processes: every way to fail gives exactly one Failure row, and no child outlives its parent."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from data.calls import Call, Item, Limits, StageFailed
from data.child import build_config, portable
from data.pool import ChildPool
from data.store import Part, RunDirectory
from schemas.arrow import from_table, to_table
from schemas.rows import ConfigLink, Failure, FailureKind, ModelConfig, ModelRef, Skipped
from tests.flows import toy

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parent.parent.parent
LIMITS = Limits(timeout_s=300, memory_gib=0.5)
HANGING = Limits(timeout_s=1.5, memory_gib=0.5)
"""Only for what never ends: anything else may take longer on a loaded machine."""


def call(function: str = "work", limits: Limits = LIMITS) -> Call:
    return Call(
        stage="configs", function=f"tests.flows.toy:{function}", config_class="tests.flows.toy:Nothing", limits=limits
    )


def model(name: str) -> ModelRef:
    (row,) = toy.list_models(config=toy.ListConfig(names=(name,)))
    return row


def ask(pool: ChildPool, name: str, limits: Limits = LIMITS) -> dict[str, pa.Table]:
    row = model(name)
    with pool.borrow() as child:
        return child.run_item(call(limits=limits), to_table([row], ModelRef), Item(key=row.model, name=name))


def the_failure(tables: dict[str, pa.Table]) -> Failure:
    assert list(tables) == ["Failure"]
    (failure,) = from_table(tables["Failure"], Failure)
    return failure


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChildPool]:
    with ChildPool(workers=2, work=tmp_path_factory.mktemp("work"), poll_s=0.05) as found:
        yield found


def test_rows_come_back_by_type(pool: ChildPool) -> None:
    tables = ask(pool, "a")
    assert sorted(tables) == ["ConfigLink", "ModelConfig"]
    assert [row.name for row in from_table(tables["ModelConfig"], ModelConfig)] == ["a"]


def test_printing_does_not_disturb_the_rows(pool: ChildPool) -> None:
    assert sorted(ask(pool, "chatty")) == ["ConfigLink", "ModelConfig"]


def test_skipped_comes_back_as_a_row(pool: ChildPool) -> None:
    (skipped,) = from_table(ask(pool, "skip")["Skipped"], Skipped)
    assert skipped.reason == "asked for"


def test_the_item_s_kind_of_failure_is_told_by_the_stage_s_module(pool: ChildPool) -> None:
    failure = the_failure(ask(pool, "key-error"))
    assert (failure.kind, failure.exception, failure.name) == (FailureKind.BUILD_ERROR, "KeyError", "key-error")
    assert failure.item == model("key-error").model


def test_an_unclassified_exception_is_unknown_with_a_portable_traceback(pool: ChildPool) -> None:
    failure = the_failure(ask(pool, "raise"))
    assert (failure.kind, failure.exception) == (FailureKind.UNKNOWN, "RuntimeError")
    assert failure.message == "first line at file.py 0x..."
    assert 'File "tests/flows/toy.py"' in failure.detail
    assert str(ROOT) not in failure.detail
    assert "0x7f" not in failure.detail


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("os-exit", FailureKind.CRASH, "the child process ended with exit status 7"),
        ("segv", FailureKind.CRASH, "the child process died of SIGSEGV"),
        ("hang", FailureKind.TIMEOUT, "no result within 1.5 s"),
        ("greedy", FailureKind.OOM, "more than 0.5 GiB resident"),
        ("system-exit", FailureKind.UNKNOWN, "3"),
    ],
)
def test_every_death_is_one_failure_and_the_pool_goes_on(
    pool: ChildPool, name: str, kind: FailureKind, message: str
) -> None:
    limits = HANGING if name == "hang" else LIMITS
    failure = the_failure(ask(pool, name, limits))
    assert (failure.kind, failure.message, failure.stage) == (kind, message, "configs")
    assert sorted(ask(pool, "a")) == ["ConfigLink", "ModelConfig"]


def test_the_last_words_of_a_dead_child_are_kept(pool: ChildPool) -> None:
    assert the_failure(ask(pool, "os-exit")).detail == "last words of the model\n"


def test_threads_share_the_pool(pool: ChildPool) -> None:
    found: list[list[str]] = []
    threads = [threading.Thread(target=lambda: found.append(sorted(ask(pool, "b")))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [["ConfigLink", "ModelConfig"]] * 6


def test_a_child_survives_the_thread_that_first_used_it(pool: ChildPool) -> None:
    pids: list[int] = []

    def use() -> None:
        with pool.borrow() as child:
            row = model("a")
            child.run_item(call(), to_table([row], ModelRef), Item(key=row.model, name="a"))
            assert child.process is not None
            pids.append(child.process.popen.pid)

    for _ in range(2):
        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        time.sleep(0.1)
    assert pids[0] == pids[1]


def test_a_table_stage_reads_its_tables_and_its_errors_stop_the_build(pool: ChildPool) -> None:
    with pool.borrow() as child:
        assert child.run_table(call("group"), {"configs": []}) == {}
        with pytest.raises(StageFailed, match="stage configs raised TypeError: "):
            child.run_table(call("group"), {"strange": []})
        with pytest.raises(StageFailed, match="stage configs raised ModuleNotFoundError"):
            child.run_table(Call(stage="configs", function="no_such:thing", limits=LIMITS), {})


def test_rows_of_a_table_stage_come_in_several_messages_and_all_or_none(pool: ChildPool, tmp_path: Path) -> None:
    limits = Limits(timeout_s=60, memory_gib=2)
    run = RunDirectory(tmp_path)
    for index, model in enumerate(("a", "b", "raise", "os-exit")):
        link = ConfigLink(model=model, architecture="")
        run.write_parts([Part(table="links", index=index, data=to_table([link], ConfigLink))])
    good, second, bad, dying = run.parts("links")
    with pool.borrow() as child:
        for parts, message in (((good, bad), "raised RuntimeError: first line"), ((good, dying), "exit status 7")):
            with pytest.raises(StageFailed, match=message):
                child.run_table(call("flood", limits), {"links": parts})
            found = child.run_table(call("flood", limits), {"links": [good, second]})
            ids = [f"{model}{number:06d}" for model in "ab" for number in range(10_000)]
            assert found["Member"]["graph_id"].to_pylist() == ids


def test_a_wrong_setting_is_one_clear_line(pool: ChildPool) -> None:
    wrong = Call(
        stage="models", function="", config_class="tests.flows.toy:ListConfig", config={"nmaes": []}, limits=LIMITS
    )
    with pool.borrow() as child, pytest.raises(ValueError, match="ListConfig has no setting 'nmaes'; it has names"):
        child.settle(wrong)


def test_configurations_are_built_from_json() -> None:
    config = build_config(toy.ListConfig, {"names": ["x"], "seed": 3})
    assert config == toy.ListConfig(names=("x",), seed=3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('File "/usr/local/lib/python3.11/site-packages/torch/nn/mod.py", line 3', 'File "torch/nn/mod.py", line 3'),
        (f'File "{ROOT}/extract/trace.py"', 'File "extract/trace.py"'),
        ("at /home/someone/secret/place.txt: no", "at place.txt: no"),
        ("<Tensor at 0x7f12abcd>", "<Tensor at 0x...>"),
        ("W1130 01:02:03.456000 123 torch/x.py:1] slow", "torch/x.py:1] slow"),
        ("a/b is 3/4 of https://host/path", "a/b is 3/4 of https://host/path"),
    ],
)
def test_details_hold_no_machine_paths_addresses_or_times(text: str, expected: str) -> None:
    assert portable(text) == expected


def test_long_details_keep_their_end() -> None:
    text = portable("x" * 5000 + "the error")
    assert len(text) == 4000
    assert text.endswith("the error")
