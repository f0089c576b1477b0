"""What a candidate's end and its error reports mean, and that bytes from it are doubted."""

import contextlib
import json
import socket
import struct
import threading
import time

import pytest

from passbench.isolate import End
from passbench.verdicts import verdict_of_end, verdict_of_report
from passbench.wire import WireClosed, WireError, WireTimeout, receive, send
from schemas.rows import Verdict

pytestmark = pytest.mark.plain


def ended(code=None, signal=0, killed=False):
    return End(code=code, signal=signal, killed=killed, stderr="")


@pytest.mark.parametrize(
    "end, verdict, words",
    [
        (ended(0), "RUNTIME_ERROR", "exit code 0 before its final record"),
        (ended(3), "RUNTIME_ERROR", "exit code 3"),
        (ended(signal=11), "RUNTIME_ERROR", "signal 11"),
        (ended(signal=9), "OOM", "memory"),
        (ended(signal=9, killed=True), "RUNTIME_ERROR", "still running"),
        (ended(signal=24), "TIMEOUT", "processor time"),
    ],
)
def test_an_end_without_the_final_record_is_never_a_success(end, verdict, words):
    found, detail = verdict_of_end(end)
    assert found == Verdict(verdict) and words in detail


def test_a_candidate_may_report_failures_of_its_own_and_nothing_else():
    report = {"verdict": "OOM", "rule": "", "detail": "x" * 1000}
    assert verdict_of_report(report) == (Verdict.OOM, "x" * 300, "")
    for forged in ("PASSED", "HARNESS_ERROR", "AMBIGUOUS_TIMING", "nonsense"):
        assert verdict_of_report({**report, "verdict": forged})[0] is Verdict.INTEGRITY
    for broken in (None, [], {"verdict": "OOM"}, {**report, "detail": 3}):
        assert verdict_of_report(broken)[0] is Verdict.INTEGRITY


def exchange(raw, **limits):
    left, right = socket.socketpair()
    with left, right:
        writer = threading.Thread(target=put, args=(left, raw), daemon=True)
        writer.start()
        try:
            return receive(right, deadline=time.monotonic() + 5, **limits)
        finally:
            right.shutdown(socket.SHUT_RDWR)
            writer.join(5)


def put(link, raw):
    """Send and close; the reader may have gone away by then."""
    with contextlib.suppress(OSError):
        link.sendall(raw)
        link.shutdown(socket.SHUT_WR)


def framed(header, *blobs):
    text = json.dumps(header).encode()
    return struct.pack("<I", len(text)) + text + b"".join(blobs)


def test_a_message_comes_back_as_it_was_sent():
    left, right = socket.socketpair()
    with left, right:
        send(left, {"do": "run"}, [b"abc", b"", b"d"])
        assert receive(right) == ({"do": "run"}, [b"abc", b"", b"d"])


@pytest.mark.parametrize(
    "raw",
    [
        struct.pack("<I", 2**31),
        struct.pack("<I", 3) + b"{{{",
        struct.pack("<I", 50_000) + b"[" * 50_000,
        framed([1]),
        framed({}),
        framed({"sizes": [-1]}),
        framed({"sizes": ["1"]}),
        framed({"sizes": [True]}),
        framed({"sizes": [2**40]}),
    ],
)
def test_malformed_messages_are_refused_before_anything_is_allocated(raw):
    with pytest.raises(WireError):
        exchange(raw, limit=1000)


def test_a_cut_message_is_an_end_and_a_silent_side_a_timeout():
    with pytest.raises(WireClosed):
        exchange(framed({"sizes": [10]}, b"abc"), limit=1000)
    left, right = socket.socketpair()
    with left, right, pytest.raises(WireTimeout):
        receive(right, deadline=time.monotonic() + 0.05)
