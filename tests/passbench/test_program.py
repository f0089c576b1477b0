"""The language of wrappers: honest functions in many forms compile and compute what they should.

Triton decides at its import whether kernels are interpreted, so the forms run in a process of their own.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from passbench.submission import Rejected
from tests.passbench.forms import all_forms
from tests.passbench.forms.refused import REFUSED

pytestmark = pytest.mark.torch
FORMS = all_forms()
ROOT = Path(__file__).resolve().parents[2]


def computed(name: str, folder: Path) -> str:
    """What is wrong with one form, run in this process; empty if nothing."""
    import torch
    import torch.utils._pytree as pytree

    from tests.passbench.programs import wrapper

    form = FORMS[name]
    torch.manual_seed(0)
    try:
        run = wrapper(folder, form.source, **form.beside)
        for call in (run.watched, run.plain, run.watched):
            inputs = form.inputs()
            expected, before = form.eager(*inputs), run.built.record.count
            found = call(*inputs)
            for one, two in zip(pytree.tree_leaves(found), pytree.tree_leaves(expected), strict=True):
                torch.testing.assert_close(one, two)
            assert run.built.record.count > before, "no kernel was launched"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return ""


def refused(name: str, folder: Path) -> str:
    """The rule that refuses one function, at the latest in its hundredth call."""
    import torch

    from tests.passbench.programs import wrapper

    try:
        run = wrapper(folder, REFUSED[name][0])
        for _ in range(100):
            run.watched(torch.randn(6, 40))
    except Rejected as error:
        return error.rule
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.fixture(scope="module")
def results():
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])}
    done = subprocess.run(
        [sys.executable, "-m", "tests.passbench.test_program"], env=env, capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", FORMS)
def test_an_honest_form_compiles_and_computes_what_eager_does(results, name):
    assert results[name] == ""


def test_there_are_forms_enough(results):
    assert len(results) - len(REFUSED) == len(FORMS) >= 75


@pytest.mark.parametrize("name", REFUSED)
def test_what_keeps_something_or_hides_a_refusal_is_refused(results, name):
    assert results[name] == REFUSED[name][1]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        found = {name: computed(name, Path(place) / name) for name in FORMS}
        print(json.dumps({**found, **{name: refused(name, Path(place) / name) for name in REFUSED}}))
