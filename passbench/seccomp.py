"""System calls that a candidate's process may not make (layer D3): a seccomp filter, no package, no root needed.

    refuse_calls()                               # for this process and all it starts, for good; OSError if it cannot

Refused with EPERM: looking into other processes, mounting, namespaces, loading kernel code, keys, performance counters,
user fault handling, io_uring, and sockets other than those of the file system's own kind (AF_UNIX). clone3 is said not
to exist, so that libraries fall back to clone. Calls of another architecture end the process.
Reads and writes nothing.
"""

import ctypes
import errno
import os
import platform
import struct

_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_SET_NO_NEW_PRIVS, _SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_UNIX = 1
CALLS: dict[str, dict[str, int]] = {
    "x86_64": {
        "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "pidfd_getfd": 438,
        "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "swapon": 167, "swapoff": 168, "reboot": 169,
        "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsmount": 432, "mount_setattr": 442, "unshare": 272,
        "setns": 308, "init_module": 175, "delete_module": 176, "finit_module": 313, "kexec_load": 246,
        "kexec_file_load": 320, "add_key": 248, "request_key": 249, "keyctl": 250, "bpf": 321, "perf_event_open": 298,
        "userfaultfd": 323, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
        "open_by_handle_at": 304, "name_to_handle_at": 303, "acct": 163, "quotactl": 179, "settimeofday": 164,
        "clock_settime": 227, "clock_adjtime": 305, "adjtimex": 159, "personality": 135, "fanotify_init": 300,
    },
    "aarch64": {
        "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "pidfd_getfd": 438,
        "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "swapon": 224, "swapoff": 225, "reboot": 142,
        "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsmount": 432, "mount_setattr": 442, "unshare": 97,
        "setns": 268, "init_module": 105, "delete_module": 106, "finit_module": 273, "kexec_load": 104,
        "kexec_file_load": 294, "add_key": 217, "request_key": 218, "keyctl": 219, "bpf": 280, "perf_event_open": 241,
        "userfaultfd": 282, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
        "open_by_handle_at": 265, "name_to_handle_at": 264, "acct": 89, "quotactl": 60, "settimeofday": 170,
        "clock_settime": 112, "clock_adjtime": 266, "adjtimex": 171, "personality": 92, "fanotify_init": 262,
    },
}  # fmt: skip
"""Architecture -> call that is refused -> its number (kernel's tables asm/unistd_64.h and asm-generic/unistd.h)."""
_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_SOCKET = {"x86_64": 41, "aarch64": 198}
_CLONE3 = 435
_X32 = 0x40000000


def program(machine: str) -> bytes:
    """The filter as instructions of the kernel's packet filter; raises OSError for a machine without a table."""
    if machine not in CALLS:
        raise OSError(errno.ENOSYS, f"no table of system calls for {machine}")
    refused = struct.pack("=HBBI", _RETURN, 0, 0, _ERRNO | errno.EPERM)
    allowed = struct.pack("=HBBI", _RETURN, 0, 0, _ALLOW)
    steps = [
        struct.pack("=HBBI", _LOAD, 0, 0, 4),  # the architecture
        struct.pack("=HBBI", _EQUAL, 1, 0, _ARCHITECTURE[machine]),
        struct.pack("=HBBI", _RETURN, 0, 0, _KILL),
        struct.pack("=HBBI", _LOAD, 0, 0, 0),  # the call's number
        struct.pack("=HBBI", _AT_LEAST, 0, 1, _X32),
        refused,
        struct.pack("=HBBI", _EQUAL, 0, 1, _CLONE3),
        struct.pack("=HBBI", _RETURN, 0, 0, _ERRNO | errno.ENOSYS),
    ]
    for number in CALLS[machine].values():
        steps += [struct.pack("=HBBI", _EQUAL, 0, 1, number), refused]
    steps += [
        struct.pack("=HBBI", _EQUAL, 1, 0, _SOCKET[machine]),
        allowed,
        struct.pack("=HBBI", _LOAD, 0, 0, 16),  # the first argument: the family of the socket
        struct.pack("=HBBI", _EQUAL, 0, 1, _UNIX),
        allowed,
        refused,
    ]
    return b"".join(steps)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def refuse_calls() -> None:
    """Put the filter on this process; raises OSError where the kernel has none."""
    steps = program(platform.machine())
    libc = ctypes.CDLL(None, use_errno=True)
    wanted = _Program(len(steps) // 8, steps)
    if libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(wanted), 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
