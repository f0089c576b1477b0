"""The process that workers are forked from has one thread, else it could not be forked and each would start anew."""

import subprocess
import sys

import pytest

from data.child import ROOT
from data.environment import environment_of_children

pytestmark = pytest.mark.slow
CODE = """
import extract.trace
from data.child import warm_up
raise SystemExit(0 if warm_up("extract.trace:trace") else 3)
"""


def test_the_warmed_up_process_may_be_forked():
    done = subprocess.run([sys.executable, "-P", "-c", CODE], env=environment_of_children({}), cwd=ROOT, timeout=300)
    assert done.returncode == 0, "a thread runs after warm_up; 3 says so"
