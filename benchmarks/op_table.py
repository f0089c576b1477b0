"""Make the op table (`schemas/ops.tsv`) from the schemas of the installed torch, or compare the two.

    python -m benchmarks.op_table                 # what differs between the table and the installed torch
    python -m benchmarks.op_table --print         # the table of the installed torch
    python -m benchmarks.op_table --write         # make the table again
    python -m benchmarks.op_table --targets RUN   # add what the graphs of a run call to tests/schemas/called.txt

Reads torch and, with `--targets`, a run directory; writes with `--write` and `--targets` only. What each column means
stands in `schemas.ops`. Columns come from alias annotations and tags, but for `keeps`, which is found by running every
in-place op and the op without the underscore on small tensors of one dtype.
"""

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import torch

from data.store import RunDirectory
from schemas.fx import spec_of
from schemas.graph import Graph
from schemas.layout import pointwise_strides
from schemas.ops import ANY, TABLE
from schemas.targets import OP_LIBRARIES

CALLED = Path(__file__).resolve().parent.parent / "tests" / "schemas" / "called.txt"
NAMESPACES = {"aten": "", "prims": "prims.", **{space: f"{space}." for space in OP_LIBRARIES}}
"""Namespace of torch's registry -> prefix of its rows."""
KINDS = {
    "b": (torch.bool,), "i": (torch.int64, torch.uint8, torch.int8, torch.int16, torch.int32),
    "f": (torch.float32, torch.float64, torch.bfloat16, torch.float16), "c": (torch.complex64, torch.complex128),
}  # fmt: skip
"""Kind -> its dtypes; an op keeps a kind if it keeps every dtype of it."""
_SHAPES = ((3, 3), (2, 3, 3), (3,), ())


def rows() -> dict[str, str]:
    """Name -> line of the table, in order of names, from the installed torch."""
    for module in OP_LIBRARIES.values():
        import_module(module)
    packets: dict[str, list[Any]] = {}
    dispatched = set(torch._C._dispatch_get_all_op_names())
    for schema in torch._C._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        if space in NAMESPACES and _full_name(schema) in dispatched:
            packets.setdefault(NAMESPACES[space] + name, []).append(schema)
    return {name: "\t".join((name, *_columns(name, packets[name], packets))) for name in sorted(packets)}


def _full_name(schema: Any) -> str:
    return f"{schema.name}.{schema.overload_name}".removesuffix(".")


def _columns(name: str, overloads: Sequence[Any], packets: dict[str, list[Any]]) -> tuple[str, str, str, str]:
    writes: dict[str, None] = {}
    shares: dict[str, None] = {}
    for schema in overloads:
        yields = any(value.alias_info for value in schema.returns)
        for index, argument in enumerate(schema.arguments):
            if argument.alias_info is None:
                continue
            place = argument.name if argument.kwarg_only else f"{argument.name}:{index}"
            if argument.alias_info.is_write:
                writes[place] = None
            if yields:
                shares[place] = None
    twin = name.removesuffix("_")
    own = {tag for schema in overloads for tag in _tags(schema)}
    pointwise = torch.Tag.pointwise in own.union(*map(_tags, packets.get(twin, ())))
    flags = ["pointwise"] if pointwise else []
    flags += ["random"] if torch.Tag.nondeterministic_seeded in own else []
    in_place = writes == {"self:0": None} and twin in packets and twin != name
    if in_place and hasattr(torch.Tensor, name) and hasattr(torch.Tensor, twin):
        flags.append("method")
    keeps = _kept_kinds(name, twin) if in_place and torch.Tag.inplace_view not in own else ""
    if keeps and _follows_layout_rule(name, twin, KINDS[keeps[-1]][0]):
        flags.append("elementwise")
    untold = any(map(_promises_nothing, overloads))
    return ",".join(writes), ANY if untold else ",".join(shares), " ".join(flags), keeps


def _tags(schema: Any) -> list[Any]:
    found = torch._C._get_operation_overload(schema.name, schema.overload_name)
    return list(found[2]) if found else []


def _promises_nothing(schema: Any) -> bool:
    """Whether a schema is that of a composite op, yields tensors and names no operand that they share."""
    tensors = any("Tensor" in str(value.type) for value in schema.returns)
    if not tensors or any(value.alias_info for value in schema.returns):
        return False
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(_full_name(schema), "CompositeImplicitAutograd"))


# --- what the op without the underscore keeps -------------------------------------------------------------------------
def _kept_kinds(name: str, twin: str) -> str:
    return "".join(kind for kind, dtypes in KINDS.items() if _keeps_kind(name, twin, dtypes))


def _keeps_kind(name: str, twin: str, dtypes: Sequence[torch.dtype]) -> bool:
    """Whether, on operands of one dtype, both forms run and agree wherever the in-place one runs."""
    verdicts = []
    for shape, dtype in itertools.product(_SHAPES, dtypes):
        for arguments in _all_arguments(name, [torch.ones(shape, dtype=dtype)]):
            made = _both(name, twin, arguments)
            kept = arguments[0]
            verdicts += [made is not None and (made.dtype, made.shape, made.stride()) ==
                         (kept.dtype, kept.shape, kept.stride())] if made is not kept else []  # fmt: skip
    return bool(verdicts) and all(verdicts)


def _follows_layout_rule(name: str, twin: str, dtype: torch.dtype) -> bool:
    """Whether the strides of what the op without the underscore yields are those that `schemas.layout` says."""
    dense = torch.ones((3, 4, 5), dtype=dtype)
    permuted = torch.ones((5, 4, 3), dtype=dtype).permute(2, 1, 0)
    sliced = torch.ones((3, 8, 5), dtype=dtype)[:, ::2]
    verdicts = []
    for arguments in _all_arguments(name, [permuted, dense, sliced]):
        made = _both(name, twin, arguments)
        specs = tuple(spec_of(item) for item in arguments if isinstance(item, torch.Tensor))
        if made is not arguments[0]:
            verdicts.append(made is not None and made.stride() == pointwise_strides(specs))
    return bool(verdicts) and all(verdicts)


def _both(name: str, twin: str, arguments: list[Any]) -> torch.Tensor | None:
    """What the op without the underscore yields, None if nothing; the first argument if the in-place op fails."""
    fresh = [item.clone() if isinstance(item, torch.Tensor) else item for item in arguments]
    try:
        getattr(torch.ops.aten, name)(*fresh)
    except (RuntimeError, TypeError, IndexError, NotImplementedError):
        return cast(torch.Tensor, arguments[0])
    try:
        made = getattr(torch.ops.aten, twin)(*arguments)
    except (RuntimeError, TypeError, IndexError, NotImplementedError):
        return None
    return made if isinstance(made, torch.Tensor) else None


def _all_arguments(name: str, tensors: list[torch.Tensor]) -> Iterator[list[Any]]:
    """Values for the parameters without default of every overload, then for the first one with a default as well."""
    packet = getattr(torch.ops.aten, name)
    for overload in packet.overloads():
        choices: list[list[Any]] = []
        for argument in getattr(packet, overload)._schema.arguments:
            if argument.kwarg_only:
                break
            if argument.has_default_value():
                yield from map(list, itertools.product(*choices))
            choices.append(_values(str(argument.type), tensors))
            if argument.has_default_value():
                break
        yield from map(list, itertools.product(*choices))


def _values(kind: str, tensors: list[torch.Tensor]) -> list[Any]:
    number = True if tensors[0].dtype == torch.bool else 1
    table: dict[str, list[Any]] = {
        "Tensor": tensors, "number": [number], "int": [0], "bool": [True], "float": [1.0],
        "List[int]": [list(tensors[0].shape)],
    }  # fmt: skip
    return table.get(kind.removeprefix("Optional[").removesuffix("]"), [])


# --- targets --------------------------------------------------------------------------------------------------------
def called_in(graph: Graph) -> set[str]:
    """What a graph and the graphs nested in it call, a line each: kind of call and target."""
    found = {f"{node.op} {node.target}" for _, node in graph.calls()}
    return found.union(*(called_in(Graph.from_json(text)) for text in graph.subgraphs))


def add_targets(run: Path) -> None:
    """Add what the graphs of a run call to the fixture."""
    known = set(CALLED.read_text(encoding="ascii").splitlines()) if CALLED.exists() else set[str]()
    for row in RunDirectory(run).iter_rows("graphs"):
        known |= called_in(row.graph)
    CALLED.write_text("".join(f"{line}\n" for line in sorted(known)), encoding="ascii")


def main() -> None:
    """Entry of `python -m benchmarks.op_table`."""
    parser = argparse.ArgumentParser(description="Make the op table from torch's schemas, or compare the two.")
    parser.add_argument("--print", action="store_true", dest="shown", help="print the table of the installed torch")
    parser.add_argument("--write", action="store_true", help="make the table again")
    parser.add_argument("--targets", type=Path, help="a run whose graphs' calls are added to tests/schemas/called.txt")
    options = parser.parse_args()
    if options.targets:
        add_targets(options.targets)
        return
    text = f"# torch {torch.__version__.partition('+')[0]}: op, writes, shares, flags, keeps\n"
    text += "".join(f"{line}\n" for line in rows().values())
    if options.shown:
        sys.stdout.write(text)
        return
    if options.write:
        TABLE.write_text(text, encoding="ascii")
        return
    before = TABLE.read_text(encoding="ascii").splitlines()
    different = sorted(set(before) ^ set(text.splitlines()))
    print(f"{len(different)} lines differ")
    if different:
        sys.exit("\n".join(different))


if __name__ == "__main__":
    main()
