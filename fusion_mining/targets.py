"""GPUs that code is generated for, as data: what a compiler asks a driver, and what a roofline needs.

Is: `TARGETS`, `target_named(name)`. Reads and writes nothing; no torch. Figures are those of the maker's data sheets
for the SXM form; the launch times are assumptions of the static estimate (`estimate`) and stand in docs/mining.md.
A new target is one more row.
"""

from dataclasses import dataclass

CPU = "cpu"
"""The third kind of target: Inductor's C++ code for the processor at hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One GPU."""

    name: str
    """Short name: "H200"."""
    product: str
    """Name that the driver reports."""
    sm: int
    """Compute capability: 90 is 9.0."""
    processors: int
    """Streaming multiprocessors."""
    memory_gb: float
    """Device memory, 10^9 bytes."""
    bandwidth: float
    """Peak memory bandwidth, 10^9 bytes a second."""
    float32: float
    """Peak of plain float32, 10^12 operations a second."""
    tensor_float32: float
    """Peak of float32 contractions on tensor cores, dense; used only where TF32 is allowed."""
    tensor_half: float
    """Peak of float16 and bfloat16 contractions on tensor cores, dense."""
    float64: float
    """Peak of float64."""
    l2_mib: int
    """Last-level cache, MiB."""
    shared_bytes: int
    """Shared memory of one multiprocessor."""
    eager_launch_us: float = 4.5
    """Assumed host time of one eager op, microseconds."""
    compiled_launch_us: float = 1.8
    """Assumed host time of one launch from compiled code, microseconds."""
    compiled_call_us: float = 12.0
    """Assumed host time of entering compiled code: guards and wrapper, microseconds."""
    kernel_us: float = 1.5
    """Assumed least device time of one kernel, microseconds."""

    @property
    def capability(self) -> tuple[int, int]:
        """(major, minor) compute capability."""
        return divmod(self.sm, 10)


TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target(
            name="A100", product="NVIDIA A100-SXM4-80GB", sm=80, processors=108, memory_gb=85.0, bandwidth=2039.0,
            float32=19.5, tensor_float32=156.0, tensor_half=312.0, float64=9.7, l2_mib=40, shared_bytes=167_936,
        ),
        Target(
            name="H100", product="NVIDIA H100 80GB HBM3", sm=90, processors=132, memory_gb=85.0, bandwidth=3350.0,
            float32=67.0, tensor_float32=494.0, tensor_half=989.0, float64=34.0, l2_mib=50, shared_bytes=233_472,
        ),
        Target(
            name="H200", product="NVIDIA H200", sm=90, processors=132, memory_gb=150.0, bandwidth=4800.0,
            float32=67.0, tensor_float32=494.0, tensor_half=989.0, float64=34.0, l2_mib=60, shared_bytes=233_472,
        ),
    )
}  # fmt: skip
"""Name -> target."""


def target_named(name: str) -> Target:
    """The target of that name; raises ValueError that lists the names."""
    if name not in TARGETS:
        raise ValueError(f"no target is called {name!r}; the targets are {', '.join((*TARGETS, CPU))}")
    return TARGETS[name]
