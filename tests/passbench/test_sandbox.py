"""The sandbox in earnest: a real child tries what a submission could try, with and without the level against it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from passbench.sandbox import LEVELS, Box, at_least, landlock_version, readable_paths

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
DRIVER = """
import json, os, resource, signal, socket, sys, time
from pathlib import Path
from passbench.sandbox import Box, enter, limit_resources
highest, scratch, memory, code = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
told, link = os.pipe()
pid = os.fork()
if not pid:
    os.close(told)
    os.setsid()
    os.chdir(scratch)
    if memory:
        limit_resources(memory_mib=memory, file_mib=16, cpu_s=20)
    reached = enter(Box(scratch=scratch, highest=highest, processes=64, scratch_mib=8), [link])
    try:
        got = eval(compile(code, "guest", "exec"), globals()) or globals().get("got", "done")
    except BaseException as error:
        got = f"{type(error).__name__}: {error}"
    os.write(link, json.dumps([reached.level, reached.measures, got]).encode())
    os._exit(5)
os.close(link)
said = b""
while part := os.read(told, 4096):
    said += part
end = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(json.dumps([*(json.loads(said) if said else [None, None, None]), end]))
"""


def guest(highest: str, folder: Path, code: str, *, memory: int = 1024) -> tuple[str, dict[str, str], str, int]:
    """What a child at a level reports after running the code: (level, measures, result or error, its end)."""
    for part in ("home", "tmp"):
        (folder / "scratch" / part).mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, highest, str(folder / "scratch"), str(memory), code],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return tuple(json.loads(done.stdout))


@pytest.fixture(scope="module")
def reached(tmp_path_factory):
    return guest(LEVELS[-1], tmp_path_factory.mktemp("probe"), "pass")[0]


@pytest.fixture
def strong(reached):
    """The strongest level; a kernel without it can show nothing here."""
    if reached != LEVELS[-1]:
        pytest.skip(f"this machine reaches {reached} only")
    return LEVELS[-1]


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_is_reached_as_asked_and_the_end_is_passed_on(strong, tmp_path, level):
    got, measures, said, code = guest(level, tmp_path, "pass")
    assert (got, said, code) == (level, "done", 5)
    assert all(why == "yes" or name == "landlock version" for name, why in measures.items()), measures


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGXCPU, signal.SIGABRT])
def test_the_signal_that_ended_the_guest_is_passed_on(strong, tmp_path, number):
    assert guest(strong, tmp_path, f"os.kill(os.getpid(), {int(number)})")[3] == -number


@pytest.mark.parametrize("level", ["limits", "landlock", "namespaces"])
def test_no_capability_no_new_privilege_and_no_descriptor_are_left(strong, tmp_path, level):
    code = "got = [Path('/proc/self/status').read_text(), sorted(map(int, os.listdir('/proc/self/fd')))]"
    status, descriptors = guest(level, tmp_path, code)[2]
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert {int(fields[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert fields["NoNewPrivs"] == "1" and len(descriptors) == 5  # standard ones, the wire, the listing itself


def test_writing_outside_scratch_fails_and_inside_works(strong, tmp_path):
    outside = tmp_path / "outside"
    write = f"Path({str(outside)!r}).write_text('x')"
    assert guest("limits", tmp_path, write)[2] == "done" and outside.exists()
    for level in ("landlock", "namespaces"):
        outside.write_text("kept")
        assert guest(level, tmp_path, write)[2].startswith("PermissionError")
        assert guest(level, tmp_path, f"os.unlink({str(outside)!r})")[2].startswith("PermissionError")
        assert guest(level, tmp_path, f"Path({str(outside)!r}).read_text()")[2].startswith("PermissionError")
        assert outside.read_text() == "kept"
        assert guest(level, tmp_path, "Path('tmp/x').write_text('x'); got = Path('tmp/x').read_text()")[2] == "x"


def test_a_local_server_cannot_be_reached(strong, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        call = f"socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
        assert guest("process", tmp_path, call)[2] == "done"
        for level in ("landlock", "namespaces") if landlock_version() >= 4 else ():
            assert guest(level, tmp_path, call)[2].startswith("PermissionError")
    datagram = "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))"
    assert guest("process", tmp_path, datagram)[2] == "done"
    for level in ("limits", "landlock", strong):  # the filter refuses the socket itself
        assert guest(level, tmp_path, datagram)[2].startswith("PermissionError")


def test_another_process_can_be_neither_signalled_nor_read(strong, tmp_path):
    with subprocess.Popen(["sleep", "60"]) as other:
        read = f"got = str(len(open('/proc/{other.pid}/maps').read(10)))"
        assert guest("process", tmp_path, read)[2] == "10"
        for level in ("landlock", "namespaces"):
            assert guest(level, tmp_path, read)[2].startswith(("PermissionError", "FileNotFoundError"))
            memory = f"open('/proc/{other.pid}/mem', 'rb')"
            assert guest(level, tmp_path, memory)[2].startswith(("PermissionError", "FileNotFoundError"))
        kill = f"os.kill({other.pid}, signal.SIGKILL)"
        assert guest(strong, tmp_path, kill)[2].startswith("ProcessLookupError")
        assert other.poll() is None
        assert guest("limits", tmp_path, kill)[2] == "done"
        assert other.wait(timeout=10) == -signal.SIGKILL


BOMB = (
    "got = 0\ntry:\n    for _ in range(400):\n        if not os.fork():\n            time.sleep(30)\n"
    "            os._exit(0)\n        got += 1\nexcept BlockingIOError:\n    pass"
)


def test_a_fork_bomb_is_bounded_and_none_of_it_is_left(strong, tmp_path):
    before = len(os.listdir("/proc"))
    assert 0 < guest(strong, tmp_path, BOMB)[2] < 305
    time.sleep(0.2)
    assert len(os.listdir("/proc")) < before + 200


def test_a_memory_bomb_and_a_huge_file_end_at_their_limits(tmp_path):
    assert guest("process", tmp_path, "x = bytearray(2**30)", memory=256)[2].startswith("MemoryError")
    assert guest("process", tmp_path, "x = bytearray(2**30)", memory=2048)[2] == "done"
    huge = "with open('tmp/huge', 'wb') as out:\n    out.truncate(10 * 2**30)"
    signal_first = "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    assert "File too large" in guest("process", tmp_path, signal_first + huge)[2]
    assert guest("process", tmp_path, huge, memory=0)[2] == "done"  # a sparse file: nothing is really written
    (tmp_path / "scratch/tmp/huge").unlink()


def test_many_files_cannot_fill_the_disk(strong, tmp_path):
    fill = "for n in range(12):\n    Path(f'tmp/{n}').write_bytes(bytes(2**20))"
    assert "No space left" in guest(strong, tmp_path, fill)[2]
    assert guest("landlock", tmp_path, fill)[2] == "done"
    assert not list((tmp_path / "scratch/home").iterdir())


def test_a_process_left_behind_dies_with_the_guest(strong, tmp_path):
    name = f"left-{os.getpid()}"
    leave = (
        f"if not os.fork():\n    os.setsid()\n    if not os.fork():\n        os.closerange(0, 64)\n"
        f"        os.execv({sys.executable!r}, ['{name}', '-c', 'import time; time.sleep(20)'])\n    os._exit(0)\n"
        "time.sleep(0.5)"
    )

    def left() -> list[int]:
        lines = subprocess.run(
            ["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        return [int(line.split()[0]) for line in lines if name in line.split()[1:2]]

    assert guest(strong, tmp_path, leave)[2] == "done" and not left()
    guest("limits", tmp_path, leave)
    (stray,) = left()
    os.kill(stray, signal.SIGKILL)


def test_nothing_of_the_users_own_is_readable_by_rule():
    paths = readable_paths()
    assert ROOT not in paths and Path.home() not in paths and Path("/") not in paths


def test_levels_are_ordered_and_an_unknown_one_is_named():
    assert at_least("landlock", "limits") and not at_least("limits", "landlock")
    with pytest.raises(ValueError, match="no isolation level 'vm'"):
        at_least("limits", "vm")
    assert Box(scratch=Path("x")).highest == LEVELS[-1]
