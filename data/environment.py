"""The environment of child processes: one thread a child, a fixed hash seed, no network, the packages' folder first.

    env = environment_of_children({"CUDA_VISIBLE_DEVICES": ""})

Reads the environment of this process; writes nothing.
"""

import os
from collections.abc import Mapping

from data.child import ROOT

CHILD_ENV: dict[str, str] = {
    "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false",
}  # fmt: skip
"""One thread a child (the allocator of Arrow would start another, and a process with two is not forked safely)."""
OFFLINE = "PASSNET_OFFLINE"
"""Variable that tells a child what HF_HUB_OFFLINE was outside; only the source that lists a Hub looks at it."""


def environment_of_children(extra: Mapping[str, str]) -> dict[str, str]:
    """This process's environment, with what every child needs and with additions that win."""
    outside = {OFFLINE: os.environ.get("HF_HUB_OFFLINE", "")}
    return {**os.environ, **outside, **CHILD_ENV, **extra, "PYTHONPATH": _python_path(extra)}


def _python_path(extra: Mapping[str, str]) -> str:
    paths = [path for path in (extra.get("PYTHONPATH"), os.environ.get("PYTHONPATH")) if path]
    return os.pathsep.join([str(ROOT), *paths])
