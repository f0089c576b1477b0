"""Children forked from one warmed-up process: warm once, every death one Failure row, nothing outlives the pool."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from data.calls import Call, Item, Limits
from data.pool import GIB, ChildPool
from schemas.arrow import from_table, to_table
from schemas.rows import Failure, FailureKind, ModelConfig, ModelRef
from tests.flows import toy

pytestmark = pytest.mark.slow
LIMITS = Limits(timeout_s=300, memory_gib=0.5, recycle_items=2)


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[ChildPool]:
    with ChildPool(workers=2, work=tmp_path / "work", poll_s=0.05) as found:
        yield found


def ask(pool: ChildPool, name: str, limits: Limits = LIMITS) -> ModelConfig | Failure:
    call = Call(stage="configs", function="tests.flows.toy_warm:work", config_class="tests.flows.toy:Nothing",
                limits=limits)  # fmt: skip
    (row,) = toy.list_models(config=toy.ListConfig(names=(name,)))
    with pool.borrow() as child:
        tables = child.run_item(call, to_table([row], ModelRef), Item(key=row.model, name=name))
    ((kind, table),) = tables.items()
    (found,) = from_table(table, {"Failure": Failure, "ModelConfig": ModelConfig}[kind])
    return found


def pids(found: ModelConfig | Failure) -> list[int]:
    assert isinstance(found, ModelConfig)
    return [int(word) for word in found.config.split()]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_one_process_warms_up_and_the_workers_are_forked_from_it(pool: ChildPool) -> None:
    found = [pids(ask(pool, "a")) for _ in range(6)]
    (template,) = {warmed for warmed, _, _ in found}
    assert all(parent == template for _, parent, _ in found)
    assert len({worker for _, _, worker in found}) == 3, "two items a process, as the limit says"
    assert template not in {worker for _, _, worker in found}


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("os-exit", FailureKind.CRASH, "the child process ended with exit status 7"),
        ("segv", FailureKind.CRASH, "the child process died of SIGSEGV"),
        ("hang", FailureKind.TIMEOUT, "no result within 1.5 s"),
        ("greedy", FailureKind.OOM, "more than 0.5 GiB resident"),
        ("key-error", FailureKind.BUILD_ERROR, "'no such model'"),
    ],
)
def test_every_death_of_a_forked_child_is_one_failure(
    pool: ChildPool, name: str, kind: FailureKind, message: str
) -> None:
    before = pids(ask(pool, "a"))
    found = ask(pool, name, Limits(timeout_s=1.5 if name == "hang" else 300, memory_gib=0.5))
    assert isinstance(found, Failure)
    assert found.kind is kind
    assert name == "key-error" or found.message == message
    assert pids(ask(pool, "a"))[:2] == before[:2], "the template goes on"


def test_a_hard_limit_is_never_exceeded_and_the_peak_of_a_worker_is_known(tmp_path: Path) -> None:
    limits = Limits(timeout_s=300, memory_gib=0.5, hard=True)
    with ChildPool(workers=1, work=tmp_path / "work", poll_s=5.0) as pool:
        before = pids(ask(pool, "a", limits))
        found = ask(pool, "greedy", limits)
        assert isinstance(found, Failure)
        assert (found.kind, found.exception) == (FailureKind.OOM, "MemoryError")
        assert pids(ask(pool, "a", limits)) == before, "the worker goes on"
    (peak,) = pool.child_peaks
    assert 0.25 * GIB < peak <= 0.5 * GIB


def test_a_process_with_threads_is_never_forked(tmp_path: Path) -> None:
    with ChildPool(workers=1, work=tmp_path / "work", env={"THREADED": "1"}) as pool:
        warmed, parent, worker = pids(ask(pool, "a"))
    assert (warmed, parent) == (worker, os.getpid())


def test_a_killed_template_is_replaced(pool: ChildPool) -> None:
    limits = Limits(timeout_s=300, memory_gib=0.5, recycle_items=1)
    template = pids(ask(pool, "a", limits))[0]
    os.kill(template, signal.SIGKILL)
    again = pids(ask(pool, "a", limits))
    assert again[0] == again[1] != template


def test_nothing_outlives_the_pool(tmp_path: Path) -> None:
    with ChildPool(workers=1, work=tmp_path / "work") as pool:
        template, _, worker = pids(ask(pool, "a"))
        assert is_alive(template)
        assert is_alive(worker)
    assert not is_alive(template)
    assert not is_alive(worker)
