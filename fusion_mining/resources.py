"""Registers, spills and shared memory of a generated kernel, from an offline compilation for a GPU that is not there.

    found = resources_of(source, target)     # the source as Inductor wrote it, decorators included

Reads a kernel's source; writes Triton's compile cache and a temporary file. Nothing is run. The source is executed to
get the function and its launch description, so it must come from this process's own Inductor, never from a table.
The first launch configuration of Inductor's list is compiled; the assembler that comes with Triton reports the rest.
"""

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fusion_mining.targets import Target

TIMEOUT_S = 120
_DRIVER = "triton_helpers.set_driver_to_gpu()"
"""A line of every generated kernel that looks for a real driver."""
_USED = re.compile(r"Used (\d+) registers")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a kernel uses on a target."""

    registers: int | None = None
    """Registers a thread."""
    spilled_bytes: int | None = None
    """Bytes a thread spills, stores and loads."""
    shared_bytes: int | None = None
    """Shared memory of a block."""
    problem: str = ""
    """Why it does not compile; empty if it does."""


def autotuner_of(source: str) -> Any:
    """The kernel object that a generated source defines: its function, launch configurations and signature."""
    from torch._inductor.codecache import PyCodeCache

    name = re.findall(r"^def (triton_\w+)\(", source, re.MULTILINE)[-1]
    return getattr(PyCodeCache.load(source.replace(_DRIVER, "")), name)


def resources_of(source: str, target: Target) -> Resources:
    """Compile a generated kernel for a target; a kernel that Triton refuses has a problem."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel = autotuner_of(source)
    meta, config = kernel.triton_meta, kernel.configs[0]
    constants = {**meta.get("constants", {}), **config.kwargs}
    signature = {name: "constexpr" if name in constants else kind for name, kind in meta["signature"].items()}
    signature |= dict.fromkeys(constants, "constexpr")
    ast = ASTSource(kernel.fn, signature, constants, meta["configs"][0])
    options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    try:
        built = triton.compile(ast, target=GPUTarget("cuda", target.sm, 32), options=options)
    except (triton.CompilationError, RuntimeError) as error:
        return Resources(problem=(str(error).splitlines() or [type(error).__name__])[0][:300])
    return assembled(built.asm["ptx"], target, int(built.metadata.shared))


def assembled(ptx: str, target: Target, shared: int) -> Resources:
    """What the assembler reports of a kernel in PTX."""
    import triton.backends.nvidia

    tool = Path(triton.backends.nvidia.__path__[0]) / "bin" / "ptxas"
    arch = f"sm_{target.sm}a" if target.sm >= 90 else f"sm_{target.sm}"
    with tempfile.TemporaryDirectory(prefix="passnet-ptx-") as folder:
        path = Path(folder) / "kernel.ptx"
        path.write_text(ptx, encoding="utf-8")
        done = subprocess.run(
            [str(tool), "-v", f"--gpu-name={arch}", str(path), "-o", str(path.with_suffix(".cubin"))],
            capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    used, spills = _USED.search(done.stderr), _SPILLS.search(done.stderr)
    if done.returncode or used is None:
        return Resources(problem=(done.stderr.splitlines() or ["ptxas failed"])[0][:300])
    spilled = sum(map(int, spills.groups())) if spills else 0
    return Resources(registers=int(used[1]), spilled_bytes=spilled, shared_bytes=shared)
