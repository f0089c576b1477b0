"""What the kernel takes away from a process before submitted code runs in it; pure ctypes, no torch, no root needed.

    reached = enter(Box(scratch=folder, highest="namespaces"), keep=[link.fileno()])     # in a fresh fork; in the guest

Levels are ordered; each one holds what those before it hold. The level reached is measured, not assumed.

| level | what it is | stops | does not stop |
|---|---|---|---|
| process | own session, limits on address space, file size, processor time and core files, whole group killed at the end | a memory bomb in one process, a huge file, an endless loop, a process left behind | writing files, network, fork bomb, signals to and memory of other processes of the user |
| limits | no capabilities, no_new_privs, no descriptor but the wire, a bound on processes, first to be killed when memory is short | fork bomb, set-uid programs, root's rights, reading memory of a process with more rights | files of the user, network, signals to the user's processes |
| landlock | the kernel's Landlock rules: read and run what the interpreter, the libraries and the compilers need; write the private home and temporary folder | every other file, the memory of processes outside, TCP (from rules version 4), signals and abstract sockets (from version 6) | UDP where the kernel has no seccomp; sockets in the file system; names of other processes; many files filling the disk |
| namespaces | own user, process, network, mount and IPC namespace; process table of its own; home and temporary folder in memory of bounded size | all network, seeing or signalling any process outside, filling the disk, outliving its first process | a fault in the kernel; sockets in the file system; a GPU's driver; memory of all its processes together |

Where the user is root, the kernel exempts it from the limit on processes; the bound is then that of the process
namespace (Linux 6.14 on) or of a control group, and without either the level stays "process".

From "limits" on, a seccomp filter also refuses system calls that no kernel launch needs (`passbench.seccomp`); it
stands among the measures and no level depends on it.

Reads /proc; writes below /proc/self and mounts inside its own namespace only.
"""  # fmt: skip  # noqa: E501

import contextlib
import ctypes
import os
import resource
import select
import signal
import stat
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from passbench.seccomp import refuse_calls

LEVELS = ("process", "limits", "landlock", "namespaces")
"""Isolation levels, weakest first."""
NONE = "none"
"""What a result says where no submitted code ran."""
_LIBC = ctypes.CDLL(None, use_errno=True)
_SET_PDEATHSIG, _SET_DUMPABLE, _CAPBSET_DROP, _SET_NO_NEW_PRIVS = 1, 4, 24, 38
_NEW_NS, _NEW_IPC, _NEW_USER, _NEW_PID, _NEW_NET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_PRIVATE = 2, 4, 8, 0x40000 | 0x4000
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_READ, _WRITE = 0b1101, 0x7FFF & ~0b1101
"""Landlock rights: execute, read file, read folder; and the rest of its rights on files up to truncate."""
_LIST = 0b1000
"""Landlock right to list a folder; the checkout may hold results and data beside the packages."""
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/nix", "/proc", "/sys", "/dev",
           "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/passwd", "/etc/group",
           "/etc/nsswitch.conf", "/etc/localtime", "/etc/OpenCL", "/etc/vulkan")  # fmt: skip
_ROOT = Path(__file__).resolve().parent.parent
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """What a process is shut into."""

    scratch: Path
    """Its folder; `home` and `tmp` in it are all that it may write."""
    highest: str = LEVELS[-1]
    """The highest level that is tried."""
    processes: int = 256
    """Most processes and threads."""
    scratch_mib: int = 1024
    """Size of home and of the temporary folder where they are held in memory."""
    devices: Sequence[str] = ()
    """Device files that it may use, beyond the null device and its kin."""
    native: bool = True
    """Whether what it writes may be loaded as native code; compiled kernels need that."""
    calls: bool = True
    """Whether system calls that no kernel launch needs are refused."""


@dataclass(slots=True, kw_only=True)
class Reached:
    """What was reached in this process."""

    level: str = LEVELS[0]
    """One of LEVELS."""
    measures: dict[str, str] = field(default_factory=dict)
    """Each measure and whether it holds: "yes", or why not."""


def at_least(level: str, required: str) -> bool:
    """Whether a level is as strong as the one required; raises ValueError on an unknown name."""
    for name in (level, required):
        if name not in LEVELS:
            raise ValueError(f"no isolation level {name!r}; there are {', '.join(LEVELS)}")
    return LEVELS.index(level) >= LEVELS.index(required)


def enter(box: Box, keep: Sequence[int]) -> Reached:
    """Shut this freshly forked, single-threaded process in; returns in the guest, which may be a grandchild.

    Only standard descriptors and those in `keep` stay open. Where namespaces are used, the calling process and the
    first one in the namespace stay behind and pass on the guest's end.
    """
    reached = Reached()
    if not at_least(box.highest, "limits"):
        return reached
    close_all_but(keep)
    _note(reached, "killed first", _be_killed_first)
    if at_least(box.highest, "namespaces"):
        _note(reached, "namespaces", _unshare)
        if reached.measures["namespaces"] == "yes":
            _become_guest(box, reached)
    _bound_processes(box, reached)
    _note(reached, "capabilities dropped", _drop_capabilities)
    _note(reached, "no new privileges", lambda: _prctl(_SET_NO_NEW_PRIVS, 1))
    if at_least(box.highest, "landlock"):
        _note(reached, "landlock", lambda: _restrict(box))
        reached.measures["landlock version"] = str(landlock_version())
    if box.calls:
        _note(reached, "system calls refused", refuse_calls)
    reached.level = _level(reached.measures)
    return reached


def close_all_but(keep: Sequence[int]) -> None:
    """Close every descriptor but the standard ones and those given."""
    last = 2
    for descriptor in sorted(keep):
        os.closerange(last + 1, descriptor)
        last = descriptor
    # Not by the list in /proc: the process that stays behind sees the namespace's, in which it does not exist.
    os.closerange(last + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def limit_resources(*, memory_mib: int | None, file_mib: int, cpu_s: int) -> None:
    """Limits of the level "process": address space beyond the present one, file size, processor time, no core file."""
    if memory_mib is not None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        space = pages * resource.getpagesize() + memory_mib * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (space, space))
    size = file_mib * 2**20
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    # The soft limit's signal is the one that says why; at an equal hard limit the kernel would send SIGKILL instead.
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _level(measures: dict[str, str]) -> str:
    """The highest level all of whose measures hold."""
    needs = {"limits": ("processes", "capabilities dropped", "no new privileges"),
             "landlock": ("landlock",), "namespaces": ("namespaces", "private folders")}  # fmt: skip
    level = LEVELS[0]
    for name, parts in needs.items():
        if any(measures.get(part) != "yes" for part in parts):
            break
        level = name
    return level


def _note(reached: Reached, name: str, measure: Callable[[], object]) -> None:
    try:
        measure()
        reached.measures[name] = "yes"
    except OSError as error:
        reached.measures[name] = f"no: {error.strerror}"


# --- limits ---------------------------------------------------------------------------------------------------------
def _be_killed_first() -> None:
    Path("/proc/self/oom_score_adj").write_text("1000")


def _bound_processes(box: Box, reached: Reached) -> None:
    """Bound processes and threads, by the user's limit, or for root by a bound that holds for root."""
    own = reached.measures.get("namespaces") == "yes"
    if os.getuid() == 0:
        if reached.measures.get("process table of bounded size") == "yes":
            reached.measures["processes"] = "yes"
        else:
            _note(reached, "processes", lambda: _join_group(box))
        return
    running = 0 if own else sum(1 for _ in _threads_of_user())
    resource.setrlimit(resource.RLIMIT_NPROC, (running + box.processes,) * 2)
    reached.measures["processes"] = "yes"


def _threads_of_user() -> Iterator[Path]:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if process.stat().st_uid == os.getuid():
                yield from (process / "task").iterdir()


def _join_group(box: Box) -> None:
    """Move this process into a control group of its own that bounds processes (version 2, or version 1's pids)."""
    home = Path("/sys/fs/cgroup") if Path("/sys/fs/cgroup/cgroup.controllers").exists() else Path("/sys/fs/cgroup/pids")
    for old in home.glob("passbench-*"):
        with contextlib.suppress(OSError):
            old.rmdir()  # only an empty group can be removed: those of guests that have ended
    group = home / f"passbench-{os.getpid()}"
    group.mkdir(exist_ok=True)
    (group / "pids.max").write_text(str(box.processes))
    (group / "cgroup.procs").write_text("0")


def _drop_capabilities() -> None:
    """No capability in any set, now or after executing a program."""
    capability = 0
    while not _LIBC.prctl(_CAPBSET_DROP, capability, 0, 0, 0):
        capability += 1
    header, none = struct.pack("=Ii", 0x20080522, 0), bytes(24)
    if _LIBC.capset(header, none):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    left = [
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(("CapPrm", "CapEff"))
    ]
    if any(int(line.split()[1], 16) for line in left):
        raise OSError(1, "capabilities are left")


# --- namespaces -----------------------------------------------------------------------------------------------------
def _unshare() -> None:
    """Own user, process, network, mount and IPC namespace; the user keeps its number and loses all others."""
    user, group = os.getuid(), os.getgid()
    _checked(_LIBC.unshare(_NEW_USER | _NEW_PID | _NEW_NET | _NEW_NS | _NEW_IPC))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _prctl(_SET_PDEATHSIG, signal.SIGKILL)


def _become_guest(box: Box, reached: Reached) -> None:
    """Fork the first process of the namespace and from it the guest; returns in the guest only."""
    ours, theirs = os.pipe()
    first = os.fork()
    if first:
        os.close(theirs)
        _end_like(ours, first)
    os.close(ours)
    _prctl(_SET_PDEATHSIG, signal.SIGKILL)
    if _has_no_reader(theirs):  # the process that waits here died before the line above
        os._exit(1)
    _prepare_namespace(box, reached)
    guest = os.fork()
    if guest:
        close_all_but([theirs])
        _prctl(_SET_DUMPABLE, 0)
        _reap_until(guest, theirs)
    os.close(theirs)
    _prctl(_SET_PDEATHSIG, signal.SIGKILL)


def _prepare_namespace(box: Box, reached: Reached) -> None:
    _note(reached, "private mounts", lambda: _mount("none", "/", "", _MS_PRIVATE, ""))
    flags = _MS_NOSUID | _MS_NODEV
    _note(reached, "own process table", lambda: _mount("proc", "/proc", "proc", flags | _MS_NOEXEC, ""))
    if reached.measures["own process table"] == "yes":
        # The kernel takes no smaller bound than 301; older ones have one bound for the whole machine and refuse this.
        bound = str(max(box.processes, 301))
        _note(reached, "process table of bounded size", lambda: _bound_table(bound))
    size = f"size={box.scratch_mib}m,nr_inodes=65536,mode=700"
    _note(reached, "private folders", lambda: _mount_folders(box, flags | (0 if box.native else _MS_NOEXEC), size))


def _has_no_reader(pipe: int) -> bool:
    poll = select.poll()
    poll.register(pipe, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _mount_folders(box: Box, flags: int, options: str) -> None:
    for part in ("home", "tmp"):
        _mount("tmpfs", str(box.scratch / part), "tmpfs", flags, options)


def _bound_table(bound: str) -> None:
    Path("/proc/sys/kernel/pid_max").write_text(bound)


def _end_like(pipe: int, first: int) -> NoReturn:
    """Wait for the guest's end and end in the same way."""
    close_all_but([pipe])
    told = os.read(pipe, 4)
    os.waitpid(first, 0)
    code = os.waitstatus_to_exitcode(struct.unpack("=i", told)[0]) if len(told) == 4 else -signal.SIGKILL
    if code < 0:
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(max(code, 1 if code < 0 else 0))


def _reap_until(guest: int, pipe: int) -> NoReturn:
    """The first process of the namespace: reaps whatever dies; the kernel kills the rest when it leaves."""
    while True:
        pid, status = os.wait()
        if pid == guest:
            os.write(pipe, struct.pack("=i", status))
            os._exit(0)


# --- Landlock -------------------------------------------------------------------------------------------------------
def landlock_version() -> int:
    """Version of the kernel's Landlock rules, 0 where it has none."""
    return max(int(_LIBC.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1)), 0)


def readable_paths() -> list[Path]:
    """What the interpreter, its packages, the system's libraries and the compilers need to be read."""
    named = [sys.prefix, sys.base_prefix, sys.exec_prefix, *(path for path in sys.path if path), *_SYSTEM]
    named += [str(_ROOT / package) for package in ("passbench", "schemas", "data")]
    for name in ("PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "CC", "CXX"):
        named += [path for path in os.environ.get(name, "").split(os.pathsep) if path.startswith("/")]
    found = {Path(name).resolve() for name in named if os.path.exists(name)}
    return sorted(found - {Path(name) for name in ("/", "/root", "/home", "/tmp", "/var", "/etc")} - {_ROOT})


def _restrict(box: Box) -> None:
    """Apply the rules to this process for good."""
    version = landlock_version()
    if not version:
        raise OSError(38, "the kernel has no Landlock")
    files = (_READ | _WRITE) & (0x1FFF if version < 2 else 0x3FFF if version < 3 else 0x7FFF)
    network = 0b11 if version >= 4 else 0
    scoped = 0b11 if version >= 6 else 0
    rules = struct.pack("=QQQ", files, network, scoped)[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset = _checked(_LIBC.syscall(_LANDLOCK_CREATE, rules, ctypes.c_size_t(len(rules)), 0))
    try:
        _allow(ruleset, _ROOT, _LIST)
        for path in [*readable_paths(), box.scratch]:
            _allow(ruleset, path, _READ)
        for path in (box.scratch / "home", box.scratch / "tmp"):
            _allow(ruleset, path, files)
        for name in [*_DEVICES, *box.devices]:
            _allow(ruleset, Path(name), files)
        _prctl(_SET_NO_NEW_PRIVS, 1)
        _checked(_LIBC.syscall(_LANDLOCK_RESTRICT, ruleset, 0))
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: Path, rights: int) -> None:
    """Allow rights on a path and everything below it; a path that is not there needs no rule."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= 0b101 | 0b10 | 0x4000
        _checked(_LIBC.syscall(_LANDLOCK_ADD, ruleset, 1, struct.pack("=Qi", rights, place), 0))
    finally:
        os.close(place)


# --- the kernel -----------------------------------------------------------------------------------------------------
def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _prctl(option: int, value: int) -> None:
    _checked(_LIBC.prctl(option, value, 0, 0, 0))


def _mount(source: str, target: str, kind: str, flags: int, data: str) -> None:
    parts = [part.encode() or None for part in (source, target, kind)]
    _checked(_LIBC.mount(*parts, ctypes.c_ulong(flags), data.encode() or None))
