"""Isolation: whatever code changes of the process is as it was for what runs next, or the process ends."""

import gc
import importlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from extract import isolation
from extract.isolation import MODES, isolated, left_behind, retire
from extract.torch_state import pairs
from tests.extract.polluters import KEPT, POLLUTERS, enter

pytestmark = pytest.mark.torch
ROOT = Path(__file__).resolve().parent.parent.parent
NAMES = [name for name, _, _ in POLLUTERS]


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing left behind from an earlier test, no context held after this one."""
    monkeypatch.setattr(isolation, "_left", {})
    yield
    KEPT.clear()
    gc.collect()


@pytest.mark.parametrize(("name", "change", "tell"), POLLUTERS, ids=NAMES)
def test_what_an_item_changes_is_as_it_was_for_the_next(name, change, tell):
    before = tell()
    during = None
    with isolated():
        change()
        with suppress(RuntimeError, TypeError, AttributeError):
            during = tell()
    after = tell()
    assert str(after) == str(before)
    assert during is None or str(during) != str(before), "the polluter changes nothing: the test could not fail"


ALL_AT_ONCE = """
import contextlib, json, random, sys
from extract.isolation import isolated, left_behind
from tests.extract.polluters import POLLUTERS
order = list(range(len(POLLUTERS)))
random.Random(int(sys.argv[1])).shuffle(order)
before = [str(tell()) for _, _, tell in POLLUTERS]
with contextlib.suppress(ZeroDivisionError), isolated():
    for index in order:
        with contextlib.suppress(Exception):
            POLLUTERS[index][1]()
    raise ZeroDivisionError
after = [str(tell()) for _, _, tell in POLLUTERS]
wrong = [POLLUTERS[i][0] for i in range(len(order)) if before[i] != after[i]]
print(json.dumps({"wrong": wrong, "left": left_behind()}), flush=True)
"""
"""A process in which every polluter acts in a random order and an exception ends it all."""


@pytest.mark.parametrize("seed", range(6))
def test_all_at_once_in_any_order_and_with_an_exception(seed):
    done = subprocess.run(
        [sys.executable, "-c", ALL_AT_ONCE, str(seed)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.stdout, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["wrong"] == []
    assert "inference mode" in found["left"], "a context that is held may still be left: the process must end"


def test_what_a_graph_changes_is_put_back_without_looking_at_modules():
    with isolated(MODES):
        torch.set_autocast_enabled("cpu", True)
        torch.set_default_dtype(torch.float64)
        torch._C._functorch._vmap_increment_nesting(2, "error")
    assert torch.zeros(2).dtype is torch.float32 and not torch.is_autocast_enabled("cpu")
    assert torch._C._functorch.maybe_current_level() is None


def test_the_inner_of_two_blocks_leaves_what_the_outer_found():
    with isolated():
        torch.set_default_dtype(torch.float64)
        with isolated():
            torch.set_default_dtype(torch.float16)
        assert torch.zeros(1).dtype is torch.float64
    assert torch.zeros(1).dtype is torch.float32


STOP = threading.Event()


def _operator() -> torch.library.Library:
    library = torch.library.Library("passnet_isolation", "DEF")
    library.define("f() -> ()")
    return library


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("threads", lambda: threading.Thread(target=STOP.wait).start()),
        ("processes", lambda: subprocess.Popen(["sleep", "1000"])),
        ("registered operators", _operator),
        ("inference mode", lambda: enter(torch.inference_mode())),
        ("why not", lambda: retire("why not")),
    ],
)
def test_what_has_no_way_back_ends_the_process(what, change):
    with isolated():
        made = change()
    assert what in left_behind()
    STOP.set()
    if isinstance(made, subprocess.Popen):
        made.kill()
        made.wait()


def test_a_library_that_was_loaded_stays_and_a_file_beside_it_does_not(tmp_path, monkeypatch):
    (tmp_path / "passnet_beside.py").write_text("n = 1\n", encoding="utf-8")
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with isolated():
        sys.path.insert(0, str(tmp_path))
        assert importlib.import_module("passnet_beside").n == 1
        loaded = importlib.import_module("colorsys")
    assert sys.modules["colorsys"] is loaded and "passnet_beside" not in sys.modules


def test_every_switch_of_torch_is_read():
    found = {name for name, _, _ in pairs()}
    assert {"_get_mkldnn_enabled", "_get_flash_sdp_enabled", "_get_cudnn_benchmark"} <= found
    assert len(found) == len(pairs()) > 50
