"""A child that has loaded everything a stage needs and then only forks: workers that start in milliseconds.

    template = Template(link, pid)                  # in the build: the other end of a child that was told to "warm"
    forked = template.fork(socket_fd, log_fd)       # like a Popen: pid, poll, wait, kill, returncode
    handle = serve_forks(link)                      # in the child; returns in each forked process, with its socket

Both sides of one small protocol: nine bytes a request (letter and number), sixteen an answer. A process is forked with
two file descriptors, its socket and its log; its exit status and the most it held are asked for when it has ended.
Reads /proc/self; writes nothing. A process with threads cannot be forked safely: `single_threaded` says whether it may.
"""

import os
import select
import signal
import socket
import struct
import subprocess
import threading
import time

_REQUEST, _ANSWER = struct.Struct("<cq"), struct.Struct("<qq")
_FORK, _REAP = b"F", b"R"
_GONE = -signal.SIGKILL
"""Exit status of a process whose template is gone: the kernel killed it with the template."""


# --- in the child ---------------------------------------------------------------------------------------------------
def single_threaded() -> bool:
    """Whether this process has one thread, native ones counted."""
    return len(os.listdir("/proc/self/task")) == 1


def serve_forks(link: socket.socket) -> int | None:
    """Fork on request until the build closes the connection (None); in a forked process: its socket's descriptor."""
    while True:
        data, handles, _, _ = socket.recv_fds(link, _REQUEST.size, 2)
        if len(data) < _REQUEST.size:
            return None
        letter, number = _REQUEST.unpack(data)
        if letter == _REAP:
            _, status, usage = os.wait4(number, 0)
            link.sendall(_ANSWER.pack(os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024))
            continue
        pid = os.fork()
        if pid == 0:
            link.close()
            return _begin(*handles)
        for handle in handles:
            os.close(handle)
        link.sendall(_ANSWER.pack(pid, 0))


def _begin(link: int, log: int) -> int:
    """Make a forked process one of its own: a new session, its own log."""
    os.setsid()
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    return link


# --- in the build ---------------------------------------------------------------------------------------------------
class Template:
    """The build's end of a forking child; its requests are answered one at a time, from any thread."""

    def __init__(self, link: socket.socket, pid: int) -> None:
        self._link, self._pid, self._lock = link, pid, threading.Lock()

    def fork(self, link: int, log: int) -> "Forked":
        """A new process with these file descriptors; raises ConnectionError if the template is gone."""
        return Forked(self, self._ask(_FORK, 0, [link, log])[0])

    def end_of(self, pid: int) -> tuple[int, int]:
        """(exit status in subprocess's sense, most bytes it ever had resident) of a process that has ended."""
        try:
            return self._ask(_REAP, pid, [])
        except ConnectionError:
            return _GONE, 0

    def _ask(self, letter: bytes, number: int, handles: list[int]) -> tuple[int, int]:
        with self._lock:
            try:
                socket.send_fds(self._link, [_REQUEST.pack(letter, number)], handles)
                answer = self._link.recv(_ANSWER.size, socket.MSG_WAITALL)
            except OSError as error:
                raise ConnectionError(str(error)) from error
        if len(answer) < _ANSWER.size:
            raise ConnectionError(f"the process {self._pid} that forks workers is gone")
        found: tuple[int, int] = _ANSWER.unpack(answer)
        return found


class Forked:
    """A process that is a child of the template, with the part of Popen's interface that the pool needs."""

    def __init__(self, template: Template, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.peak_bytes = 0
        """Most bytes it ever had resident, by the kernel's own account; known once it has ended."""
        self._template, self._lock = template, threading.Lock()
        try:
            self._handle: int | None = os.pidfd_open(pid)
        except ProcessLookupError:
            self._handle = None

    def poll(self) -> int | None:
        """Exit status if it has ended, else None."""
        with self._lock:
            if self.returncode is None and self._has_ended():
                self.returncode, self.peak_bytes = self._template.end_of(self.pid)
                if self._handle is not None:
                    os.close(self._handle)
                    self._handle = None
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Exit status once it has ended; raises subprocess.TimeoutExpired after `timeout` seconds."""
        deadline = float("inf") if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            time.sleep(0.002)
        return status

    def kill(self) -> None:
        """End it with SIGKILL if it still runs."""
        with self._lock:
            if self.returncode is None and self._handle is not None:
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def _has_ended(self) -> bool:
        if self._handle is None:
            return True
        waiter = select.poll()
        waiter.register(self._handle, select.POLLIN)
        return bool(waiter.poll(0))
