"""Rows of what a compiler makes of a graph: its kernels, which nodes each computes, and how fast they should be.

Is: `KernelMap` with its `Launch`es and `Unfused` pairs, `Kernel`, `Estimate`; import them from `schemas.rows`, where
all row types are. Reads and writes nothing.
"""

from dataclasses import dataclass
from typing import ClassVar

from schemas.text import Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One launch of a generated kernel, or one call of a library."""

    kernel: str
    """Kernel.name; for a library call what is called: "extern_kernels.mm"."""
    library: bool
    """Whether it is a library call."""
    nodes: tuple[int, ...]
    """Indices of the graph's call nodes that it computes, ascending; a node may be computed in several launches."""
    ops: tuple[str, ...]
    """Their short names."""
    bytes_read: int
    """Bytes it must read at least: each outside value once, as far as it is read."""
    bytes_written: int
    """Bytes it must write."""
    numel: int
    """Elements it iterates over; 0 for a library call."""
    reduction: int
    """Elements of its reduced range, 1 if it reduces nothing; 0 for a library call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfused:
    """Two launches that share data and yet are two, and what the compiler said about it."""

    first: int
    """Position of the earlier launch."""
    second: int
    """Position of the later one."""
    reason: str
    """The compiler's words, names and numbers masked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelMap:
    """What Inductor makes of one graph for one target, from one compilation that runs nothing."""

    KEY: ClassVar[tuple[str, ...]] = ("graph", "target", "torch", "triton")
    graph: str
    """Exact canonical key of the graph: Subgraph.key or CanonicalGraph.key."""
    name: str
    """The graph's name or pattern, for people."""
    target: str
    """Name of the target: "H200", or "cpu"."""
    torch: str
    """torch version."""
    triton: str
    """triton version; empty for the CPU."""
    calls: int
    """Call nodes of the graph."""
    kernels: int
    """Distinct generated kernels."""
    generated: int
    """Launches of generated kernels."""
    library_calls: int
    """Launches that are library calls."""
    bytes_read: int
    """Sum over launches."""
    bytes_written: int
    """Sum over launches."""
    launches: tuple[Launch, ...]
    """All launches in order."""
    unfused: tuple[Unfused, ...]
    """Pairs that share data, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One distinct kernel that Inductor generated for a graph."""

    KEY: ClassVar[tuple[str, ...]] = ("graph", "target", "name")
    graph: str
    """KernelMap.graph."""
    target: str
    """KernelMap.target."""
    name: str
    """Its name in the generated module."""
    launches: int
    """How often the graph launches it."""
    source: Text
    """Its generated source, decorators included."""
    registers: int | None
    """Registers a thread, from an offline compilation for the target; None if it was not compiled."""
    spilled_bytes: int | None
    """Bytes a thread spills (stores and loads); None if it was not compiled."""
    shared_bytes: int | None
    """Static shared memory, bytes; None if it was not compiled."""
    problem: str
    """Why it does not compile for the target; empty if it does or was not tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """How fast a graph should be on a target, eager and compiled, by roofline and launch times alone: not measured."""

    KEY: ClassVar[tuple[str, ...]] = ("graph", "target")
    graph: str
    """KernelMap.graph."""
    target: str
    """KernelMap.target."""
    eager_us: float
    """Estimated eager time a call, microseconds: one kernel an op."""
    inductor_us: float
    """Estimated compiled time a call, microseconds: the launches of the kernel map."""
    eager_device_us: float
    """The device's share of `eager_us`."""
    inductor_device_us: float
    """The device's share of `inductor_us`."""
    speedup: float
    """eager_us / inductor_us."""
    bound: str
    """What bounds the compiled graph: overhead, bandwidth or compute."""
    headroom: float
    """inductor_device_us over the device time of one kernel that reads every input and writes every output once."""
