"""The op table: one row an op of torch, made from torch's own schemas.

    op_named("add_").writes          # (Place(name="self", index=0),)
    op_named("linalg_svd")           # fresh, pure
    op_named("nothing_of_torch")     # None

Is: `Op`, `op_named`, and the table `ops.tsv` beside this module: what an op writes (`Tensor(a!)`), whose memory its
result may be (`Tensor(a)`), whether it draws random numbers (`nondeterministic_seeded`), whether it works element by
element (`pointwise`), and for which kinds of dtype the op without the underscore yields what `op_` keeps, and how.
Reads that table; writes nothing; no torch. `python -m benchmarks.op_table --write` makes it again, and a test compares
it with the installed torch. What schemas hide stands in `schemas.reviewed`, which goes before this table.

Rows are overload packets: what one overload does all are taken to do. The schema of a composite op promises nothing on
sharing, so one that names no operand that its result shares has `*` there: it may be the memory of any operand.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_name("ops.tsv")
ANY = "*"
"""In the column `shares`: any operand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A parameter of an op."""

    name: str
    """Its name."""
    index: int | None
    """Its position; None if it is given by name only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One row of the table."""

    name: str
    """Name of the aten packet ("add_"); with its namespace for others ("prims.copy_to")."""
    writes: tuple[Place, ...] = ()
    """Parameters whose memory it writes."""
    shares: tuple[Place, ...] | None = ()
    """Parameters whose memory its result may be; None for any."""
    is_random: bool = False
    """Whether it draws from the generator."""
    is_pointwise: bool = False
    """Whether torch tags it, or the op without the underscore, as computing each element from the same place."""
    is_method: bool = False
    """Of an op that writes `self` and yields it: whether it and its form without underscore are methods of tensors."""
    is_elementwise: bool = False
    """Of such an op: whether the strides of what the op without the underscore yields follow `schemas.layout`."""
    keeps: str = ""
    """Of such an op: the kinds of dtype (b, i, f, c) of which the op without the underscore, given operands of one
    dtype, yields that dtype."""


def _places(text: str) -> tuple[Place, ...]:
    parts = [item.partition(":") for item in text.split(",") if item]
    return tuple(Place(name=name, index=int(index) if index else None) for name, _, index in parts)


@cache
def _lines() -> dict[str, str]:
    lines = TABLE.read_text(encoding="ascii").splitlines()
    return {line.partition("\t")[0]: line for line in lines if line and not line.startswith("#")}


@cache
def op_named(name: str) -> Op | None:
    """The row of an op; None if the table lacks it."""
    line = _lines().get(name)
    if line is None:
        return None
    _, writes, shares, flags, keeps = line.split("\t")
    return Op(
        name=name, writes=_places(writes), shares=None if shares == ANY else _places(shares),
        is_random="random" in flags, is_pointwise="pointwise" in flags, is_method="method" in flags,
        is_elementwise="elementwise" in flags, keeps=keeps,
    )  # fmt: skip


def op_names() -> list[str]:
    """The names of all rows, in order."""
    return list(_lines())
