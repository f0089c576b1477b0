"""Kernels that Inductor generated for a GPU, run on the CPU by Triton's interpreter: are they right?

    lifted = lift_kernels(compiled)            # in a process with TRITON_INTERPRET=1 from its start
    outputs = lifted(real_inputs(graph, seed=0))

Reads a compiled graph; writes source files into a temporary folder, since the interpreter reads a function's source.
The generated module is executed: it must come from this process's own Inductor, never from a table. Its memory is the
CPU's; a launch runs its program once a block, with blocks as large as the interpreter likes them. Functions of the
device library, which the interpreter lacks, are those of torch on the same numbers (`_DEVICE_LIBRARY`).
"""

import importlib.util
import itertools
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from fusion_mining.kernel_map import Compiled, lifted_values
from passbench.inputs import materialize
from schemas.graph import SCALAR_DTYPES, Graph

BLOCK = 16_384
"""Elements of a block."""
UNMASKED = 16
"""Inductor may leave out the mask of a range that a power of two of at least this size divides."""
_DEVICE_LIBRARY = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh erf erfc exp exp2 expm1 floor log log10 log1p log2 rsqrt sin "
    "sinh sqrt tan tanh trunc erfinv lgamma:lgamma fabs:abs nearbyint:round rint:round atan2 pow fmod hypot copysign "
    "isnan isinf finitef:isfinite isfinited:isfinite signbit tgamma:special.gamma"
).split()
"""Name in the device library, and after ":" torch's where it is another."""
_TESTS = ("isnan", "isinf", "isfinite", "signbit")
_GRIDS = {"Grid1D": ("x",), "Grid2D": ("x", "y"), "Grid3D": ("x", "y", "z"), "Grid2DWithYZOverflow": ("x", "y")}


class NotInterpretable(ValueError):
    """A module needs what the interpreter does not give: a library call, another kind of grid."""


# --- the device library ----------------------------------------------------------------------------------------------
def _interpreted(function: Callable[..., torch.Tensor], is_test: bool) -> Callable[..., Any]:
    """A function on interpreted values that computes torch's function on their numbers."""
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    def call(*args: Any) -> Any:
        like = next(arg for arg in args if hasattr(arg, "handle"))
        numbers = [torch.from_numpy(arg.handle.data) if hasattr(arg, "handle") else torch.tensor(arg) for arg in args]
        found = function(*numbers)
        kind = tl.int32 if is_test else like.dtype
        data = found.to(torch.int32).numpy() if is_test else found.to(numbers[args.index(like)].dtype).numpy()
        shape = [int(size) for size in like.shape]
        return tl.tensor(TensorHandle(data, kind), tl.block_type(kind, shape) if shape else kind)

    return call


@cache
def device_library() -> Any:
    """Stand-in for `libdevice` and Inductor's `tl_math`."""
    found: dict[str, Any] = {}
    for item in _DEVICE_LIBRARY:
        name, _, other = item.partition(":")
        function: Any = torch.special if other.startswith("special.") else torch
        function = getattr(function, (other or name).rpartition(".")[2], None)
        if function is not None:
            found[name] = _interpreted(function, (other or name) in _TESTS)
    return SimpleNamespace(**found)


# --- kernels ---------------------------------------------------------------------------------------------------------
class _Kernel:
    """A kernel that runs block by block; takes what the generated module passes to `run`."""

    def __init__(self, function: Any, meta: dict[str, Any], grid: str) -> None:
        if grid not in _GRIDS:
            raise NotInterpretable(f"a grid of kind {grid}")
        self._function, self._grid = function, _GRIDS[grid]
        self._names = list(meta["signature"])
        self._known = dict(meta.get("constants", {}))
        self._blocks = [name for name in self._names if name.endswith("BLOCK")]

    def run(self, *args: Any, stream: Any = None, **options: Any) -> None:
        """One launch."""
        passed = [name for name in self._names if name not in self._blocks and name not in self._known]
        given = self._known | dict(zip(passed, args, strict=False)) | options
        sizes = self._sizes(given)
        grid = tuple(-(-int(given[f"{axis}numel"]) // sizes[f"{axis.upper()}BLOCK"]) for axis in self._grid)
        ordered = [given[name] if name in given else sizes[name] for name in self._names]
        self._function[(*grid, 1, 1)[:3]](*ordered)

    def _sizes(self, given: dict[str, Any]) -> dict[str, int]:
        """Block sizes: the whole range where it fits, reduced ranges first.

        A range that a large power of two divides is not masked, so its block divides it too.
        """
        left, found = BLOCK, {}
        for name in sorted(self._blocks, key=lambda name: (not name.startswith("R"), name)):
            axis = name.removesuffix("BLOCK").lower().rstrip("_")
            numel = int(given.get(f"{axis}_numel", given.get(f"{axis}numel", 1)))
            divisor = numel & -numel
            whole = divisor if divisor >= UNMASKED else 1 << max(0, numel - 1).bit_length()
            found[name] = min(whole, left)
            left = max(1, left // found[name])
        return found


def _decorator(**settings: Any) -> Callable[[Any], _Kernel]:
    return lambda function: _Kernel(
        function, settings["triton_meta"], settings.get("inductor_meta", {}).get("grid_type", "")
    )


class _Heuristics:
    """Stand-in for Inductor's `triton_heuristics`: every decorator gives a kernel that is interpreted."""

    def __getattr__(self, name: str) -> Any:
        return _decorator


class _Loader:
    """Stand-in for Inductor's compiler of kernels: writes each to a file and loads it with the stand-ins."""

    _number = itertools.count()

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def triton(self, name: str, source: str, **_: Any) -> Any:
        """The kernel of that name."""
        head = "from fusion_mining.interpret import device_library, _Heuristics\n"
        head += "libdevice = tl_math = device_library()\ntriton_heuristics = _Heuristics()\n"
        text = re.sub(r"^(?:triton_helpers\.set_driver_to_gpu\(\)|from .* import libdevice.*)$", "", source, flags=re.M)
        text = text.replace("@triton_heuristics.", f"{head}\n@triton_heuristics.", 1)
        path = self._folder / f"{name}_{next(self._number)}.py"
        path.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, name)

    def wait(self, scope: Any) -> None:
        """Nothing to wait for."""


# --- modules ---------------------------------------------------------------------------------------------------------
def lift_kernels(compiled: Compiled) -> Callable[[Sequence[Any]], list[Any]]:
    """The generated module as a function on CPU tensors; raises NotInterpretable."""
    if os.environ.get("TRITON_INTERPRET") != "1":
        raise NotInterpretable("this process was not started with TRITON_INTERPRET=1")
    libraries = sorted({launch.kernel for launch in compiled.launches if launch.library})
    if libraries:
        raise NotInterpretable(f"calls of libraries: {', '.join(libraries)}")
    folder = Path(tempfile.mkdtemp(prefix="passnet-interpret-"))
    scope: dict[str, Any] = {"__name__": "interpreted", "_loader": _Loader(folder)}
    exec(compile(_on_the_cpu(compiled.module), "<generated module>", "exec"), scope)

    def call(inputs: Sequence[Any]) -> list[Any]:
        return list(scope["call"](list(inputs)))

    return call


_EDITS = (
    (r"^async_compile = AsyncCompile\(\)$", "async_compile = _loader"),
    (r"^empty_strided_cuda = .*$", "empty_strided_cuda = empty_strided_cpu"),
    (r"^empty_strided_p2p = .*$", ""),
    (r"^from torch\._C import _cuda_getCurrentRawStream.*$", "get_raw_stream = lambda index: 0"),
    (r"^from torch\._C\._dynamo\.guards import copy_if_misaligned$", "copy_if_misaligned = lambda x: x"),
    (r"with torch\.cuda\._DeviceGuard\(0\):", "if True:"),
    (r"torch\.cuda\.set_device\(0\)", "pass"),
    (r"device\(type='cuda', index=0\)", "device(type='cpu')"),
    (r"^if __name__ == [\s\S]*", ""),
)


def _on_the_cpu(module: str) -> str:
    """The text of a generated module with the CPU for its device."""
    for pattern, replacement in _EDITS:
        module = re.sub(pattern, replacement, module, flags=re.MULTILINE)
    return module


def real_inputs(graph: Graph, *, seed: int) -> list[Any]:
    """Values for the inputs of a compiled graph: its placeholders that are no scalars, then its constants."""
    made = materialize(graph, seed=seed)
    kept = [
        value for value, index in zip(made, graph.placeholders, strict=True)
        if graph.nodes[index].outputs[0].dtype not in SCALAR_DTYPES
    ]  # fmt: skip
    return kept + lifted_values(graph)
