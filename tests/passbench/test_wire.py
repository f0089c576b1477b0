"""What a candidate says is data to be doubted: whatever it sends, we get values or one of three errors."""

import json
import math
import os
import signal
import socket
import struct
import threading
import time

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from passbench.check import compare
from passbench.evidence import doubt_of
from passbench.rewrites import rewrite_texts
from passbench.verdicts import verdict_of_report
from passbench.wire import WireError, WireTimeout, cleaned, decode, encode, receive, send
from schemas.graph import DTYPE_BYTES

pytestmark = pytest.mark.torch

LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(st.characters(), max_size=6),
    st.sampled_from(["float32", "torch.float32", "dtype", "OOM", "HARNESS_ERROR", "cpu"]),
)  # fmt: skip
NAMES = st.sampled_from(
    ["dtype", "shape", "stride", "scalar", "facts", "state", "library", "refused", "launches", "replaced", "device",
     "odd", "aliases", "twins", "reused", "changed", "rewrite", "before", "after", "verdict", "rule", "detail"]
)  # fmt: skip
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=7), max_leaves=25
)
SIZES = st.integers(0, 3) | st.sampled_from([2**40, 2**48, -1, 1.0, True, None])
OUTPUT = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(sorted(DTYPE_BYTES)) | VALUES,
        "shape": st.lists(SIZES, max_size=40) | VALUES,
        "stride": st.lists(SIZES, max_size=40) | VALUES,
    }
)
FACTS = {"device": ["cpu"], "odd": [], "aliases": [], "twins": [], "reused": [], "changed": []}


@settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(OUTPUT | st.fixed_dictionaries({"scalar": VALUES}), max_size=3) | VALUES,
    st.lists(st.binary(max_size=64), max_size=3),
)
def test_whatever_is_said_of_outputs_gives_values_or_a_wire_error(described, blobs):
    try:
        found = decode(described, list(map(bytearray, blobs)))
    except WireError:
        return
    assert all(value is None or isinstance(value, torch.Tensor | int | float) for value in found)
    compare([torch.ones(2), 3, None][: len(found)], found)
    compare([*found], found)


@settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(NAMES, VALUES, max_size=9), st.dictionaries(st.sampled_from(sorted(FACTS)), VALUES, max_size=6))
def test_whatever_is_said_of_a_call_is_weighed_without_an_error(answer, facts):
    for account in (
        answer,
        {
            **answer,
            "facts": {**FACTS, **facts},
            "launches": 1,
            "replaced": 1,
            "state": [],
            "library": [],
            "refused": [],
        },
    ):
        said = cleaned(account)
        doubt = doubt_of(said, FACTS)
        assert doubt is None or (doubt.detail and doubt.rule)
        assert all(json.loads(text) for text in rewrite_texts(said))
        verdict_of_report(said)


@pytest.mark.parametrize("dtype", sorted(DTYPE_BYTES))
def test_tensors_of_every_dtype_come_back_with_their_strides(dtype):
    value = torch.zeros(3, 4, dtype=getattr(torch, dtype)).t()
    (found,) = decode(*encode([value]))
    assert found.dtype == value.dtype and found.shape == value.shape and found.stride() == value.stride()


def frame(text: bytes, size: int | None = None) -> bytes:
    return struct.pack("<I", len(text) if size is None else size) + text


@pytest.mark.parametrize(
    "raw",
    [
        frame(b'{"a": ' + b"9" * 5000 + b', "sizes": []}'),
        frame(b'{"a": ' + b"9" * 60 + b', "sizes": []}'),
        frame(b'{"sizes": [' + b",".join([b"0"] * 5000) + b"]}"),
        frame(b'{"a": ' + b"[" * 900 + b"]" * 900 + b', "sizes": [0.5]}'),
        frame(b'{"sizes": [NaN]}'),
        frame(b'{"sizes": [Infinity]}'),
        frame(b'{"sizes": {"0": 1}}'),
        frame(b'\xff\xfe{"sizes": []}'),
        frame(b"", 0),
    ],
)  # fmt: skip
def test_odd_headers_are_refused(raw):
    left, right = socket.socketpair()
    with left, right:
        left.sendall(raw)
        with pytest.raises(WireError):
            receive(right, deadline=time.monotonic() + 5, limit=1000)


def test_text_is_plain_however_deep_it_stands_and_depth_is_bounded():
    found = cleaned({"a\ud800": ["\x1b[31m", {"b": "\u202e"}], "n": math.inf, "t": True})
    assert found == {"a\ufffd": ["\ufffd[31m", {"b": "\ufffd"}], "n": math.inf, "t": True}
    nest: list = []
    for _ in range(20):
        nest = [nest]
    with pytest.raises(WireError, match="nested"):
        cleaned(nest)


def test_a_side_that_does_not_read_does_not_hold_the_sender_up():
    left, right = socket.socketpair()
    with left, right, pytest.raises(WireTimeout):
        send(left, {"graph": "x" * 2**22}, deadline=time.monotonic() + 0.1)


def test_bytes_that_come_one_by_one_end_at_the_deadline():
    left, right = socket.socketpair()
    done = threading.Event()

    def drip():
        while not done.wait(0.01):
            left.sendall(b"\0")

    thread = threading.Thread(target=drip)
    with left, right:
        left.sendall(struct.pack("<I", 2**20))
        thread.start()
        with pytest.raises(WireTimeout):
            receive(right, deadline=time.monotonic() + 0.2, limit=1000)
        done.set()
        thread.join()


def test_a_stopped_process_is_a_timeout_for_who_sends_to_it():
    left, right = socket.socketpair()
    pid = os.fork()
    if not pid:
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    with left, right:
        try:
            with pytest.raises(WireTimeout):
                send(left, {"graph": "x" * 2**22}, deadline=time.monotonic() + 0.1)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
