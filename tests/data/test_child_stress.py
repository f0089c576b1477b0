"""Child processes under stress: limits reached together, aborts, restless supervision, and parents that are killed."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from data.calls import Item, Limits, StageFailed
from data.pool import GIB, ChildPool
from data.processes import descendants, processes, resident
from schemas.arrow import to_table
from schemas.rows import FailureKind, ModelRef
from tests.data.test_child import ROOT, ask, call, model, the_failure

pytestmark = pytest.mark.build

PARENT = """
import sys, threading
from pathlib import Path
from data.pool import ChildPool
from tests.data.test_child import Limits, ask
with ChildPool(workers=2, work=Path(sys.argv[1]), poll_s=0.05) as pool:
    for name in ("hang", "grandchild"):
        threading.Thread(target=ask, args=(pool, name, Limits(timeout_s=60))).start()
    threading.Event().wait(60)
"""


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChildPool]:
    with ChildPool(workers=2, work=tmp_path_factory.mktemp("work"), poll_s=0.05) as found:
        yield found


def test_what_a_grandchild_swallows_counts_and_it_dies_too(pool: ChildPool) -> None:
    failure = the_failure(ask(pool, "grandchild"))
    assert failure.kind is FailureKind.TIMEOUT
    deadline = time.monotonic() + 5
    while _sleepers("4711") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _sleepers("4711")


def test_a_child_is_replaced_after_its_share_of_items(pool: ChildPool) -> None:
    row = model("a")
    with pool.borrow() as child:
        pids = set()
        for _ in range(2):
            child.run_item(call(limits=Limits(recycle_items=1)), to_table([row], ModelRef), Item(key="k", name="a"))
            assert child.process is None
            child.run_item(call(), to_table([row], ModelRef), Item(key="k", name="a"))
            assert child.process is not None
            pids.add(child.process.popen.pid)
            child.close()
    assert len(pids) == 2


def test_an_aborted_pool_makes_no_failure_rows(tmp_path: Path) -> None:
    with ChildPool(workers=1, work=tmp_path / "work") as pool:
        timer = threading.Timer(1.0, pool.abort)
        timer.start()
        with pytest.raises(StageFailed, match="interrupted"):
            ask(pool, "hang", Limits(timeout_s=30))
        timer.join()


class Counting(ChildPool):
    """Count how often an item had to make room and wait."""

    turns = 0

    def wait_turn(self) -> None:
        self.turns += 1
        super().wait_turn()


def test_children_that_need_too_much_together_take_turns(tmp_path: Path) -> None:
    """Limits are relative to what this process itself holds, which other tests decide; one item holds about 0.4 GiB."""
    found: list[list[str]] = []
    own = resident(os.getpid()) / GIB
    with Counting(workers=2, work=tmp_path / "work", memory_gib=own + 0.5, poll_s=0.02) as pool:
        roomy = Limits(timeout_s=120, memory_gib=2.0)
        threads = [threading.Thread(target=lambda: found.append(sorted(ask(pool, "big", roomy)))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(240)
        peak = pool.peak_bytes / GIB - own
    assert found == [["ConfigLink", "ModelConfig"]] * 4, "nothing is a failure: who makes room is asked again"
    assert pool.turns > 0, "two of them do not fit"
    assert 0.3 < peak < 0.75, "one had all it needs, and two never had"


def _slowly(clock: Callable[[], float]) -> Callable[[], float]:
    def read() -> float:
        time.sleep(0.001)
        return clock()

    return read


def test_quick_items_and_a_restless_supervisor_do_not_disturb_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("data.pool.time.monotonic", _slowly(time.monotonic))
    row = model("a")
    with ChildPool(workers=1, work=tmp_path / "work", poll_s=0.0) as pool, pool.borrow() as child:
        for _ in range(150):
            assert len(child.run_item(call(), to_table([row], ModelRef), Item(key="k", name="a"))) == 2
        child.close()
        assert len(child.run_item(call(), to_table([row], ModelRef), Item(key="k", name="a"))) == 2


def _sleepers(seconds: str) -> list[int]:
    found = []
    for pid in processes():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", seconds.encode()]:
            found.append(pid)
    return found


def test_kill_9_of_the_parent_leaves_no_orphan(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    deadline = time.monotonic() + 30
    family: set[int] = set()
    while not _sleepers("4711") and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(0.5)
    family = descendants(parent.pid, processes())
    assert len(family) >= 4, "two children, their warden and a grandchild run"
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    while family & set(processes()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not family & set(processes())
