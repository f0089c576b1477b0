"""Time that an answer may take: processor time of a whole tree; waiting costs nothing, sleeping does."""

import os
import signal
import subprocess
import sys
import time

import pytest

from passbench import patience
from passbench.patience import Patience, Used, used_by

pytestmark = pytest.mark.plain


class Clock:
    """A clock that is turned by hand, and a tree that uses what it is told to."""

    def __init__(self, monkeypatch):
        self.now, self.cpu, self.waited = 0.0, 0.0, 0.0
        monkeypatch.setattr(patience.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(patience, "used_by", lambda pid: Used(cpu_s=self.cpu, waited_s=self.waited))

    def run(self, wall, cpu, waited=0.0):
        self.now, self.cpu, self.waited = self.now + wall, self.cpu + cpu, self.waited + waited


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def after(clock, steps, wall, cpu, waited):
    """Seconds until a tree that goes on like this is given up, and why."""
    found = Patience(1, seconds=10.0)
    for _ in range(steps):
        clock.run(wall, cpu, waited)
        if found.left() <= 0:
            return clock.now, found.why
    return None, found.why


def test_a_tree_that_works_has_its_processor_time_however_busy_the_machine(clock):
    ended, why = after(clock, 100, 1.0, 1.0, 0.0)
    assert ended == 10 and why == "10 s of processor time"


def test_time_in_which_others_had_the_processors_costs_nothing(clock):
    ended, why = after(clock, 200, 1.0, 0.2, 0.8)
    assert 45 <= ended <= 50 and why == "10 s of processor time"


def test_who_sleeps_is_given_up_after_the_same_time(clock):
    ended, why = after(clock, 200, 1.0, 0.0, 0.0)
    assert 10 <= ended <= 11 and "did nothing" in why


def test_several_that_work_at_once_use_it_up_sooner(clock):
    ended, _ = after(clock, 200, 1.0, 4.0, 9.0)
    assert ended <= 4


def test_who_only_waits_is_given_up_in_the_end(clock):
    ended, why = after(clock, 200, 1.0, 0.0, 5.0)
    assert ended == patience.WALL * 10 and "busy machine" in why


def test_where_the_system_does_not_say_the_wall_counts(clock, monkeypatch):
    monkeypatch.setattr(patience, "used_by", lambda pid: None)
    assert after(clock, 200, 1.0, 0.0, 0.0) == (10.0, "10 s")


def test_a_first_moment_is_not_held_up(clock):
    clock.cpu = 1e6  # what was used before does not count
    found = Patience(1, seconds=10.0)
    assert found.left() == patience.STEP_S
    clock.run(1.0, 1.0)
    assert found.left() > 0


def test_the_processor_time_of_children_counts_while_they_live_and_after():
    code = (
        "import os, sys, time\nif not os.fork():\n    while time.process_time() < 0.4: pass\n    os._exit(0)\n"
        "os.wait()\nprint('done', flush=True)\nif not os.fork():\n    while time.process_time() < 0.4: pass\n"
        "    print('busy', flush=True)\n    time.sleep(60)\ntime.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            before = used_by(process.pid)
            assert process.stdout.readline() == b"done\n"
            reaped = used_by(process.pid)
            assert process.stdout.readline() == b"busy\n"
            alive = used_by(process.pid)
            assert reaped.cpu_s - before.cpu_s > 0.3 and alive.cpu_s - reaped.cpu_s > 0.3 and alive.waited_s >= 0
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    time.sleep(0)
    assert used_by(process.pid) is None
