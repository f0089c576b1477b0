"""The submission contract and the static policy: what is rejected, by which rule, in one line; what passes."""

import json
import os

import pytest

from passbench import policy
from passbench.policy import inspect_sources
from passbench.sources import placed, read_modules
from passbench.submission import Rejected, freeze

pytestmark = pytest.mark.plain

GOOD = """
import torch
import triton
import triton.language as tl
from torch.nn import functional as F


@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.exp(x).to(out_ptr.dtype.element_ty), mask=at < n)


CACHE: dict[tuple[int, ...], int] = {}


@torch.fx.wrap
def wrapper(x):
    assert isinstance(x, torch.Tensor)
    if x.dtype not in (torch.float16, torch.bfloat16):
        x = x.contiguous()
    block = CACHE.setdefault(tuple(x.shape), triton.next_power_of_2(x.numel()))
    aligned = x.data_ptr() % 16 == 0
    out = torch.empty_like(x) if aligned else x.new_empty(x.shape)
    kernel[lambda meta: (1,)](x, out, x.numel(), BLOCK=block)
    return out.view(-1).reshape(x.shape)


def pattern(x):
    return F.gelu(torch.exp(x) @ x.softmax(-1))


def replacement_args(x):
    return (x,)


def replacement_func():
    return wrapper
"""


def folder(tmp_path, body="", *, source=GOOD, files=None, order='["p"]'):
    (tmp_path / "p.py").write_text(source + body)
    for name, text in (files or {}).items():
        (tmp_path / name).write_text(text)
    if order is not None:
        (tmp_path / "sorted_output_pass_rule_names.json").write_text(order)
    return tmp_path


def check(path, **limits):
    return inspect_sources(freeze(path), **{"max_patterns": 100, **limits})


def test_a_good_submission_keeps_every_rule(tmp_path):
    facts = check(folder(tmp_path))
    assert facts.uses_triton and facts.wrapped == (("p", "wrapper"),)


@pytest.mark.parametrize("mark", ["torch.fx.wrap(wrapper)", 'torch.fx.wrap("wrapper")'])
def test_wrap_may_be_a_call(tmp_path, mark):
    source = GOOD.replace("@torch.fx.wrap\n", "") + f"\n{mark}\n"
    assert check(folder(tmp_path, source=source)).wrapped == (("p", "wrapper"),)


def test_a_shared_dispatch_module_and_an_optional_import_are_fine(tmp_path):
    source = "from kernels import wrapper\n" + GOOD[GOOD.index("def pattern") :]
    source = "import torch\nfrom torch.nn import functional as F\n" + source
    kernels = GOOD[: GOOD.index("def pattern")]
    optional = "\ntry:\n    import triton.tools\nexcept ImportError:\n    pass\n"
    facts = check(folder(tmp_path, optional, source=source, files={"kernels.py": kernels}))
    assert facts.wrapped == (("kernels", "wrapper"),)


def test_the_whole_graph_form_needs_no_kernel(tmp_path):
    source = "import torch\n\n\ndef graph_pass(gm, example_inputs):\n    gm.recompile()\n    return gm\n"
    assert not check(folder(tmp_path, source=source)).uses_triton


BAD = {
    "import": "import os\n\nf = os.sep",
    "star-import": "from math import *",
    "library-name": "import typing\n\nf = typing.get_type_hints",
    "dynamic": "f = getattr(torch, 'add')",
    "dunder": "f = wrapper.__globals__",
    "patching": "torch.allclose = wrapper",
    "module-value": "f = [torch]",
    "torch-call": "def g(x):\n    return torch.add(x, x)",
    "operator-call": "import operator\n\n\ndef g(x):\n    return operator.add(x, x)",
    "tensor-method": "def g(x):\n    return x.softmax(-1)",
    "matmul": "def g(x):\n    return x @ x",
    "pattern-call": "def g(x):\n    return pattern(x)",
}


@pytest.mark.parametrize("rule, code", BAD.items())
def test_every_rule_of_the_table_catches_its_case_and_says_where(tmp_path, rule, code):
    line = GOOD.count("\n") + 1
    with pytest.raises(Rejected) as caught:
        check(folder(tmp_path, code + "\n"))
    assert caught.value.rule == rule
    message = str(caught.value)
    assert message.startswith("p.py:") and "\n" not in message
    assert int(message.split(":")[1]) >= line


def test_every_rule_has_a_case():
    assert {rule for rule, *_ in policy.RULES} == {*BAD, "module-name"}


@pytest.mark.parametrize(
    "code, rule",
    [
        ("from torch import add as harmless\n\n\ndef g(x):\n    return harmless(x, x)", "torch-call"),
        ("import torch as t\n\n\ndef g(x):\n    return t.nn.functional.relu(x)", "torch-call"),
        ("def g(x):\n    return F.relu(x)", "torch-call"),
        ("g = torch.add", "torch-call"),
        ("g = torch.compile(wrapper)", "torch-call"),
        ("def g(x):\n    f = x.softmax\n    return f(-1)", "tensor-method"),
        ("g = lambda x: map(type(x).relu, [x])", "tensor-method"),
        (
            "class triton:\n    jit = staticmethod(len)\n\n\n@triton.jit\ndef g(x):\n    return x.softmax(-1)",
            "no-kernel",
        ),
        ("exec('1')", "dynamic"),
        ("__import__('os')", "dynamic"),
        ("import subprocess", "import"),
        ("from . import other", "import"),
        ("import importlib", "import"),
        ("x = ().__class__", "dunder"),
        ("del torch.add", "patching"),
        ("torch.backends.cuda.matmul.allow_tf32 = True", "patching"),
        ("fs = [torch.relu]\n\n\ndef g(x):\n    return fs[0](x)", "torch-call"),
    ],
)
def test_disguises(tmp_path, code, rule):
    with pytest.raises(Rejected) as caught:
        check(folder(tmp_path, code + "\n"))
    assert caught.value.rule == rule


def test_patterns_are_free_to_use_torch_but_not_to_evaluate(tmp_path):
    with pytest.raises(Rejected) as caught:
        check(folder(tmp_path, source=GOOD.replace("return F.gelu(", "return eval(")))
    assert caught.value.rule == "dynamic"


def test_a_helper_module_is_checked_too(tmp_path):
    with pytest.raises(Rejected, match=r"^extra.py:1: os"):
        check(folder(tmp_path, "import extra\n", files={"extra.py": "import os\n\nf = os.sep\n"}))


@pytest.mark.parametrize(
    "code", ["import os, sys", "import time as clock", "from logging import getLogger", "import numpy as np"]
)
def test_an_import_that_nothing_uses_is_let_be(tmp_path, code):
    check(folder(tmp_path, f"import extra\n{code}\n", files={"extra.py": f"{code}\n"}))


@pytest.mark.parametrize(
    ("code", "beside"),
    [
        ("import os\n\nf = [os]", ""),
        ("import ctypes", ""),
        ("from os import *", ""),
        ("from sys import modules as m\n\nf = m", ""),
        ("import extra\n\nf = extra.sys", "import sys"),
        ("from extra import sys", "import sys"),
        ("import os.path", "f = os"),
        ("import extra", "import sys\n\n\ndef f():\n    return sys"),
        ("from pass_dir import extra", "import os as extra\n"),
    ],
)
def test_an_import_that_could_be_used_is_refused(tmp_path, code, beside):
    with pytest.raises(Rejected) as caught:
        check(folder(tmp_path, f"import extra\n{code}\n", files={"extra.py": f"{beside}\n"}))
    assert caught.value.rule in ("import", "module-value", "star-import")


@pytest.mark.parametrize("code", ["import os\n", "def broken(:\n", "print(torch.tanh(torch.ones(3)))\n"])
def test_a_file_that_no_pass_imports_is_neither_checked_nor_placed(tmp_path, code):
    submission = freeze(folder(tmp_path, files={"inspect.py": code, "native.so": "", "data.pth": ""}))
    inspect_sources(submission, max_patterns=100)
    names = [path for path, _ in placed(submission, read_modules(submission))]
    assert names == ["p.py", "sorted_output_pass_rule_names.json"] and len(submission.files) == 5


IMPORTED = {
    "from pass_dir.shared import wrapper": "shared.py",
    "from pass_dir import shared": "shared.py",
    "import pass_dir.shared as other": "shared.py",
    "from shared import wrapper": "shared.py",
    "from .shared import wrapper": "shared.py",
    "from . import shared": "shared.py",
    "import parts.inner": "parts/inner.py",
    "from parts import inner": "parts/inner.py",
    "from pass_dir.parts.inner import wrapper": "parts/inner.py",
}


@pytest.mark.parametrize("code, path", IMPORTED.items())
def test_a_sibling_is_found_by_every_form_of_import(tmp_path, code, path):
    (tmp_path / "parts").mkdir()
    place = folder(tmp_path, f"\n\ndef later():\n    {code}\n", files={path: "def wrapper():\n    pass\n"})
    submission = freeze(place)
    inspect_sources(submission, max_patterns=100)
    assert path in [name for name, _ in placed(submission, read_modules(submission))]


@pytest.mark.parametrize("name", ["parameter", "assigned", "at_once"])
def test_a_local_name_may_be_that_of_a_builtin_function(tmp_path, name):
    code = {
        "parameter": "def g(input, vars):\n    return (input, vars)",
        "assigned": "def g(a):\n    dir = a\n    return dir",
        "at_once": "g = lambda input: input",
    }
    check(folder(tmp_path, code[name]))


@pytest.mark.parametrize(
    "code",
    ["eval = eval", "def g():\n    global eval\n    eval = 1\n    return eval", "class A:\n    eval = eval",
     "def g(a):\n    class A:\n        input = input\n    return A", "def g(eval=eval):\n    return eval",
     "g = lambda dir=dir: dir"],
)  # fmt: skip
def test_a_name_that_may_still_be_the_builtin_function_is_refused(tmp_path, code):
    with pytest.raises(Rejected) as caught:
        check(folder(tmp_path, code))
    assert caught.value.rule == "dynamic"


@pytest.mark.parametrize(
    "code",
    ["import dataclasses\n\nf = dataclasses.sys", "import contextlib\n\nf = contextlib.os",
     "from contextlib import os", "from typing import get_type_hints", "import collections.abc as c\n\nf = c.sys",
     "import functools as f\n\ng = f.WRAPPER_ASSIGNMENTS", "import triton\n\ng = triton.testing.do_bench"],
)  # fmt: skip
def test_only_listed_names_of_a_library_may_be_used(tmp_path, code):
    with pytest.raises(Rejected) as caught:
        check(folder(tmp_path, code))
    assert caught.value.rule == "library-name"


def test_an_operator_may_be_called_by_its_method_in_a_pattern_only(tmp_path):
    check(folder(tmp_path / "a" if (tmp_path / "a").mkdir() is None else tmp_path,
                 source=GOOD.replace("F.gelu(torch.exp(x)", "F.gelu(x.__eq__(0)")))  # fmt: skip
    with pytest.raises(Rejected) as caught:
        check(folder(tmp_path, "def g(x):\n    return x.__eq__(0)\n"))
    assert caught.value.rule == "dunder"


def test_a_pass_may_have_any_file_name(tmp_path):
    for name in ("Fuse.v2", "1st-pass"):
        (tmp_path / f"{name}.py").write_text(GOOD)
    order = json.dumps(["Fuse.v2", "1st-pass"])
    assert len(check(folder(tmp_path, order=order)).wrapped) == 2


@pytest.mark.parametrize("name", ["triton", "torch"])
def test_a_module_may_not_stand_in_for_a_library(tmp_path, name):
    with pytest.raises(Rejected, match=rf"^p.py:\d: {name}: a submission gives no file the name of a lib") as caught:
        check(folder(tmp_path, files={f"{name}.py": "def jit(function):\n    return function\n"}))
    assert caught.value.rule == "module-name"


def test_a_syntax_error_is_one_line_with_its_place(tmp_path):
    with pytest.raises(Rejected) as caught:
        check(folder(tmp_path, "def broken(:\n"))
    assert caught.value.rule == "syntax"
    assert str(caught.value).startswith(f"p.py:{GOOD.count(chr(10)) + 1}: ") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "order, words",
    [
        (None, "is missing"),
        ("{", "not JSON"),
        ("[]", "non-empty list"),
        ("[1]", "non-empty list"),
        ('["q"]', "no module q.py"),
        ('["../p"]', "no module"),
        ('["p", "p"]', "listed twice"),
    ],
)
def test_order_file(tmp_path, order, words):
    with pytest.raises(Rejected, match=words) as caught:
        freeze(folder(tmp_path, order=order))
    assert caught.value.rule == "order-file"


def test_contract_kernel_and_limits(tmp_path):
    with pytest.raises(Rejected, match="lacks replacement_func") as caught:
        check(folder(tmp_path, source=GOOD.replace("def replacement_func", "def other")))
    assert caught.value.rule == "contract"
    with pytest.raises(Rejected) as caught:
        check(folder(tmp_path, source=GOOD.replace("@triton.jit", "")))
    assert caught.value.rule in ("tensor-method", "no-kernel")
    (tmp_path / "q.py").write_text(GOOD)
    with pytest.raises(Rejected, match="2 passes listed, at most 1") as caught:
        check(folder(tmp_path, order='["p", "q"]'), max_patterns=1)
    assert caught.value.rule == "patterns"


def test_no_folder_and_links(tmp_path):
    with pytest.raises(ValueError, match="no submission folder"):
        freeze(tmp_path / "nowhere")
    (tmp_path / "link.py").symlink_to("/etc/hostname")
    with pytest.raises(Rejected, match="not links"):
        freeze(folder(tmp_path))


def test_digest_depends_on_content_and_names_alone(tmp_path):
    one = freeze(folder(tmp_path / "a" if (tmp_path / "a").mkdir() is None else tmp_path))
    (tmp_path / "b").mkdir()
    two = freeze(folder(tmp_path / "b"))
    assert one.digest == two.digest
    (tmp_path / "b" / "__pycache__").mkdir()
    (tmp_path / "b" / "__pycache__" / "p.pyc").write_text("x")
    assert freeze(tmp_path / "b").digest == one.digest
    (tmp_path / "b" / "p.py").write_text(GOOD + "\n")
    assert freeze(tmp_path / "b").digest != one.digest


def test_the_frozen_copy_is_what_was_read(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    frozen = freeze(folder(home))
    (home / "p.py").write_text("changed")
    frozen.write_to(tmp_path / "copy")
    assert (tmp_path / "copy" / "p.py").read_text() == GOOD


def test_declared_task(tmp_path):
    assert freeze(folder(tmp_path, files={"task.json": json.dumps({"task": "add > relu"})})).task == "add > relu"
    with pytest.raises(Rejected, match=r"task\.json"):
        freeze(folder(tmp_path, files={"task.json": "[]"}))


def deep(tmp_path):
    """A folder deeper than any path may be long."""
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(60):
        os.mkdir("d" * 100, dir_fd=here)
        below = os.open("d" * 100, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("x.py", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


NAMES = {
    "too long": lambda root: (root / ("n" * 240 + ".py")).touch(),
    "too deep": lambda root: (root / "/".join("abcdefghijk")).mkdir(parents=True),
    "no end": deep,
    "surrogate": lambda root: (root / "a\udc80.py").touch(),
    "escape": lambda root: (root / "a\x1b[2J.txt").touch(),
    "line": lambda root: (root / "a\nb").touch(),
    "direction": lambda root: (root / "a\u202egnp.py").touch(),
}


@pytest.mark.parametrize("name", list(NAMES))
def test_names_that_another_folder_might_not_hold_are_rejected(tmp_path, name):
    root = folder(tmp_path)
    NAMES[name](root)
    with pytest.raises(Rejected) as caught:
        freeze(root)
    assert caught.value.rule == "file-name" and str(caught.value).isprintable() and len(str(caught.value)) < 400


def test_the_name_of_the_folder_is_kept_as_far_as_it_is_plain(tmp_path):
    root = tmp_path / ("odd \x1b name" + "x" * 200)
    root.mkdir()
    name = freeze(folder(root)).name
    assert name.startswith("odd__") and len(name) == 80 and name.isprintable()


def test_numbers_of_a_submission_are_told_without_its_sizes(tmp_path):
    path = folder(tmp_path, body="LIMITS = (0.044715, -0.044715, 3, 0.5, 256, 0, True, 1e300, 10 ** 2, 'text')\n")
    assert check(path).numbers == (0.044715, 3.0, 10.0)


def test_the_text_of_a_rejection_is_plain(tmp_path):
    with pytest.raises(Rejected) as caught:
        freeze(folder(tmp_path, order='["\\ud800\\u001b"]'))
    str(caught.value).encode("utf-8")
    assert "\x1b" not in str(caught.value)
