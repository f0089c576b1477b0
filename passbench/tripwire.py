"""What Python itself refuses to submitted code while it runs (layer D3): an audit hook, which cannot be taken off.

    trip = Tripwire(guests=True, everyone=True)   # in the candidate's process, before anything is loaded
    trip.refused                                 # events that were refused, in order

An event is refused if the code that caused it is the submission's: the innermost frame outside Python's own library
lies neither in an installed package nor in the grader. A library's own events are left alone, but where kernels are
interpreted (`everyone`) nobody may start a program or load native code. A tripwire: native code that is already in the
process does not meet it. Reads frames and writes nothing.
"""

import os
import sys
import sysconfig
from pathlib import Path
from types import FrameType
from typing import Any

GUEST = frozenset("""
    sys._getframe sys._current_frames sys._current_exceptions sys.settrace sys.setprofile sys.addaudithook
    gc.get_objects gc.get_referrers gc.get_referents ctypes.dlopen ctypes.dlsym ctypes.dlsym/handle ctypes.call_function
    ctypes.addressof ctypes.cdata ctypes.cdata/buffer ctypes.string_at ctypes.PyObj_FromPtr
    socket.__new__ socket.connect socket.bind socket.getaddrinfo socket.sendto socket.sendmsg
    subprocess.Popen os.system os.exec os.fork os.forkpty os.posix_spawn os.spawn os.kill os.killpg signal.pthread_kill
    open os.remove os.rename os.link os.symlink os.mkdir os.truncate os.chmod os.listdir os.scandir shutil.rmtree
    code.__new__ function.__new__ resource.setrlimit resource.prlimit mmap.__new__ pty.spawn _thread.start_new_thread
    _thread.start_joinable_thread marshal.loads pickle.find_class cpython.run_command os.putenv os.unsetenv
""".split())  # fmt: skip
"""Audit events that submitted code may not cause."""
EVERYONE = frozenset({"ctypes.dlopen", "subprocess.Popen", "os.system", "os.exec", "os.fork", "os.posix_spawn"})
"""Events that nobody may cause where kernels are interpreted."""


class Tripwire:
    """The audit hook of this process."""

    def __init__(self, *, guests: bool, everyone: bool) -> None:
        self.refused: list[str] = []
        self.guests, self.everyone, self.looking = guests, everyone, False
        paths = sysconfig.get_paths()
        self.library = tuple(os.path.join(paths[name], "") for name in ("stdlib", "platstdlib"))
        self.packages = tuple(os.path.join(paths[name], "") for name in ("purelib", "platlib"))
        root = Path(__file__).resolve().parent.parent
        self.own = (*self.packages, str(root / "passbench") + os.sep, str(root / "schemas") + os.sep)
        sys.addaudithook(self.hook)

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Raise PermissionError on an event that is refused."""
        if event not in GUEST or self.looking:
            return
        self.looking = True
        try:
            refused = (self.everyone and event in EVERYONE) or (self.guests and self.is_guest(sys._getframe(1)))
        finally:
            self.looking = False
        if refused:
            self.refused.append(event)
            raise PermissionError(f"{event} is refused to submitted code")

    def is_guest(self, frame: FrameType | None) -> bool:
        """Whether the innermost frame that is not of Python's own library belongs to submitted code."""
        if frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
            return False  # an import reads and makes code; what may be imported is for the policy
        while frame is not None and self.is_library(frame.f_code.co_filename):
            frame = frame.f_back
        return frame is not None and not frame.f_code.co_filename.startswith(self.own)

    def is_library(self, name: str) -> bool:
        """Whether a file is Python's own; frozen modules and FX's generated code count as such."""
        if name.startswith(("<frozen ", "<eval_with_key>")) or name == __file__:
            return True
        return name.startswith(self.library) and not name.startswith(self.packages)
