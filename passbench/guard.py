"""The state guard (layer D5): what a submission changed in its process outside its own work.

    before = snapshot()
    changes(before, snapshot())                  # names of what differs, sorted

Looks at torch's global switches, threads, hooks for signals, exits and exceptions, environment variables, and at the
functions of the modules in PATCHABLE: a name that stands for another object than before was patched; new names are
no difference, because libraries load lazily. Reads the process alone and writes nothing.
"""

import atexit
import builtins
import gc
import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

import torch
import torch.library

from passbench import ownership, wire

PATCHABLE: tuple[tuple[str, Any], ...] = (
    ("time", time), ("torch", torch), ("torch.cuda", torch.cuda), ("torch.Tensor", torch.Tensor),
    ("torch.nn.functional", torch.nn.functional), ("torch.testing", torch.testing), ("os", os), ("socket", socket),
    ("builtins", builtins), ("math", math), ("passbench.wire", wire), ("passbench.ownership", ownership),
    ("passbench.ownership.Watch", ownership.Watch),
)  # fmt: skip

_AT_START = frozenset(title for title, module in PATCHABLE if sys.modules.get(title) is module)


def snapshot() -> dict[str, Any]:
    """Everything the guard looks at, by name."""
    found: dict[str, Any] = {
        "default dtype": torch.get_default_dtype(),
        "tf32 of matmul": torch.backends.cuda.matmul.allow_tf32,
        "tf32 of cudnn": torch.backends.cudnn.allow_tf32,
        "float32 matmul precision": torch.get_float32_matmul_precision(),
        "reduced precision of float16": torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction,
        "reduced precision of bfloat16": torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction,
        "cudnn benchmark": torch.backends.cudnn.benchmark,
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "flush denormal": float(torch.tensor(1e-310, dtype=torch.float64) * 1.0) == 0.0,
        "random seed": torch.initial_seed(),
        "torch threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "gradient mode": torch.is_grad_enabled(),
        "live threads": threading.active_count(),
        "exception hooks": (id(sys.excepthook), id(threading.excepthook), id(sys.unraisablehook)),
        "trace hooks": (id(sys.gettrace()), id(sys.getprofile())),
        "signal handlers": tuple(id(signal.getsignal(number)) for number in sorted(signal.valid_signals())),
        "exit hooks": atexit._ncallbacks(),
        "recursion limit": sys.getrecursionlimit(),
    }
    found.update(_interpreter())
    found.update({f"environment {name}": value for name, value in os.environ.items()})
    for title, module in PATCHABLE:
        found.update({f"{title}.{name}": id(value) for name, value in vars(module).items() if callable(value)})
    return found


def _interpreter() -> dict[str, Any]:
    """What a submission might change of Python itself and of torch's dispatcher."""
    return {
        "collector": (gc.isenabled(), gc.get_threshold(), len(gc.callbacks)),
        "switch interval": sys.getswitchinterval(),
        "standard streams": (id(sys.stdin), id(sys.stdout), id(sys.stderr)),
        "importers": (*map(id, sys.meta_path), *map(id, sys.path_hooks)),
        "function modes": torch._C._len_torch_function_stack(),
        "dispatch modes": torch._C._len_torch_dispatch_stack(),
        "dispatcher overrides": sum(name.startswith("aten/") for name in torch.library._impls),
        "replaced modules": tuple(id(sys.modules.get(title)) for title, _ in PATCHABLE if title in _AT_START),
    }


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Names of what is gone or differs, and of new environment variables; sorted."""
    gone = {name for name in before if name not in after or after[name] != before[name]}
    return sorted(gone | {name for name in after if name.startswith("environment ") and name not in before})
