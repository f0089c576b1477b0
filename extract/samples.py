"""Graphs in the layout in which graphs are published: a folder of `model.py` and the files that describe its tensors.

    for folder in find_samples(root):
        graph = read_sample(folder)          # the sample as a graph, every spec known
    write_sample(graph, folder)              # the other way

Reads and writes sample folders. Code is read through `ast` (`extract.sample_code`), never imported or run; a
malformed sample raises ValueError of one line: file, line, what. A sample read lies on the CPU as a whole, whatever
devices it names, as every traced graph does. Symbolic sizes, whose published value is a stand-in, get sizes with which
the graph runs (`extract.sample_sizes`).
"""

import ast
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from extract.admission import check_rebuilt
from extract.failures import LIBRARY_ERRORS, RoundtripError, SampleError, SampleTargetError, first_line
from extract.isolation import isolated
from extract.sample_code import CodeReader
from extract.sample_meta import TensorMeta, example_sizes, init_of, read_metas, read_tree, role_of
from extract.sample_sizes import STAND_IN, Argument, Reading, found, sizes_of
from extract.torch_state import MODES
from schemas import fx, values
from schemas.graph import CONSTANT, SUBGRAPH, Graph, Node, TensorSpec, check
from schemas.propagation import on_fakes
from schemas.source import source_of
from schemas.values import Value

CODE_FILE, JSON_FILE = "model.py", "graph_net.json"
_SCALARS = {"SymInt": "SymInt", "int": "SymInt", "SymFloat": "SymFloat", "float": "SymFloat", "SymBool": "SymBool"}


def find_samples(root: Path) -> Iterator[Path]:
    """Yield every sample folder under a root, in path order; raises ValueError if the root is no folder."""
    if not root.is_dir():
        raise ValueError(f"no folder of samples: {root}")
    yield from sorted(path.parent for path in root.rglob(CODE_FILE) if path.is_file())


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A sample that was read, rebuilt once as a traced graph is, and found the same."""

    graph: Graph
    """Its graph."""
    specs: list[tuple[TensorSpec, ...]]
    """What the rebuilt graph gave, one a node."""


def read_sample(folder: Path) -> Graph:
    """The graph of one sample folder; as `checked_sample`."""
    return checked_sample(folder).graph


def checked_sample(folder: Path) -> Sample:
    """One sample folder, read and rebuilt as a traced graph is.

    Raises SampleError of one line for a sample that cannot be read, RoundtripError if its graph does not survive.
    """
    where = f"{folder.name}/{CODE_FILE}"
    code = _code(folder)
    metas = read_metas(folder)
    given = [Argument(name=arg.arg, kind=_kind(arg), meta=metas.get(arg.arg)) for arg in _arguments(code.forward)]
    best = found(partial(_read, code, where, metas), sizes_of(given, example_sizes(folder)))
    if best.error is not None:
        raise best.error
    graph = Graph(nodes=tuple(best.reader.nodes), inits=tuple(best.reader.inits), subgraphs=())
    try:
        check(graph)
        with isolated(MODES):
            return Sample(graph=graph, specs=check_rebuilt(graph))
    except SyntaxError as broken:
        what = f"{where}:{code.forward.lineno}: a function or type stands where torch.fx prints values: call it instead"
        raise SampleTargetError(what) from broken
    except LIBRARY_ERRORS as broken:
        raise RoundtripError(f"{where}:{code.forward.lineno}: {first_line(broken)}") from broken


# --- code -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class _Code:
    """The forward of a file, and what its imports call things."""

    forward: ast.FunctionDef
    imports: Mapping[str, str]


def _code(folder: Path) -> _Code:
    tree, where = read_tree(folder / CODE_FILE), f"{folder.name}/{CODE_FILE}"
    classes = [item for item in tree.body if isinstance(item, ast.ClassDef)]
    if len(classes) != 1:
        raise SampleError(f"{where}:1: {len(classes)} classes instead of one: keep the one with the forward")
    methods = [item for item in classes[0].body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)]
    if len(methods) != 1 or methods[0].name != "forward" or isinstance(methods[0], ast.AsyncFunctionDef):
        raise SampleError(f"{where}:{classes[0].lineno}: the class has other methods than one forward: remove them")
    if methods[0].args.vararg or methods[0].args.kwarg:
        raise SampleError(f"{where}:{methods[0].lineno}: forward takes a variable number of arguments: name each")
    if methods[0].decorator_list or classes[0].decorator_list:
        raise SampleError(f"{where}:{methods[0].lineno}: a decorator changes what is called: remove it")
    return _Code(forward=methods[0], imports=dict(_imports(tree)))


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(name in the file, dotted name) of what a file imports by name."""
    for item in tree.body:
        if isinstance(item, ast.Import):
            yield from ((alias.asname, alias.name) for alias in item.names if alias.asname)
        if isinstance(item, ast.ImportFrom) and item.module and not item.level:
            yield from ((alias.asname or alias.name, f"{item.module}.{alias.name}") for alias in item.names)


def _arguments(forward: ast.FunctionDef) -> list[ast.arg]:
    every = [*forward.args.posonlyargs, *forward.args.args, *forward.args.kwonlyargs]
    return every[1:] if every and every[0].arg == "self" else every


def _annotation(arg: ast.arg) -> str:
    """The last word of an annotation; a text annotation is read as its words."""
    node = arg.annotation
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.rpartition(".")[2]
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _kind(arg: ast.arg) -> str:
    return _SCALARS.get(_annotation(arg), "")


def _read(code: _Code, where: str, metas: Mapping[str, TensorMeta], symbols: Mapping[str, int]) -> Reading:
    """One reading, with these values of the symbolic sizes; levels that the code enters are left again."""
    reader = CodeReader(where, code.imports)
    error: ValueError | None = None
    try:
        with isolated(MODES), on_fakes():
            for arg in _arguments(code.forward):
                reader.env[arg.arg] = _placeholder(reader, arg, metas.get(arg.arg), symbols)
            reader.body(code.forward.body)
    except ValueError as stopped:
        error = stopped
    except RecursionError:
        error = SampleError(f"{where}:{code.forward.lineno}: nested too deeply: assign parts to names")
    return Reading(reader=reader, error=error)


def _placeholder(reader: CodeReader, arg: ast.arg, meta: TensorMeta | None, symbols: Mapping[str, int]) -> Value:
    kind = _kind(arg)
    if kind:
        spec = TensorSpec.shared(kind, (), (), "cpu")
        number = fx.constant(_told_float(meta) if kind == "SymFloat" else symbols[arg.arg])
        init = values.dumps({"kind": "scalar", "value": number})
        return reader.placeholder(arg, arg.arg, role="scalar", init=init, spec=spec)
    if meta is None:
        reader.refuse(arg, f"no file describes the argument {arg.arg[:80]!r}: add its class to weight_meta.py")
    role = role_of(arg.arg, _annotation(arg), meta)
    return reader.placeholder(arg, arg.arg, role=role, init=init_of(arg.arg, role, meta), spec=meta.spec)


def _told_float(meta: TensorMeta | None) -> float:
    data = meta.data if meta is not None else None
    number: object = data[0] if data else meta.fields.get("mean") if meta is not None else None
    return float(number) if isinstance(number, int | float) else float(STAND_IN)


# --- writing --------------------------------------------------------------------------------------------------------
def write_sample(graph: Graph, folder: Path, *, name: str = "") -> None:
    """Write a graph as a sample folder; what the layout lacks (role, strides, initialiser) stands in extra fields.

    Raises ValueError for a graph that holds constants or nested graphs, which the layout does not.
    """
    held = next((node for node in graph.nodes if node.op in (CONSTANT, SUBGRAPH)), None)
    if held is not None:
        raise ValueError(f"the sample layout holds no {held.op} ({held.name!r}): keep this graph in the IR")
    folder.mkdir(parents=True, exist_ok=True)
    metas = [_class(graph.nodes[i], init) for i, init in zip(graph.placeholders, graph.inits, strict=True)]
    texts = {
        CODE_FILE: source_of(graph),
        "weight_meta.py": "\n\n".join(metas),
        "input_meta.py": "",
        "input_tensor_constraints.py": "from sympy import Symbol\n\ndynamic_dim_constraint_symbols = []\n",
        JSON_FILE: json.dumps({
            "framework": "torch", "num_devices_required": 1, "num_nodes_required": 1, "dynamic": False,
            "model_name": name,
        }, indent=4) + "\n",
    }  # fmt: skip
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")


def _class(node: Node, init: str) -> str:
    spec, raw = node.outputs[0], values.loads(init)
    scalar = spec.dtype.startswith("Sym")
    fields = {
        "name": node.name, "shape": list(spec.shape), "dtype": f"torch.{'int64' if scalar else spec.dtype}",
        "device": spec.device, "mean": _plain(raw.get("mean")), "std": _plain(raw.get("std")),
        "data": [_plain(raw.get("value"))] if scalar else _data(raw, spec),
        "role": node.target, "init": init,
    }  # fmt: skip
    dense = [math.prod(max(size, 1) for size in spec.shape[k + 1 :]) for k in range(len(spec.shape))]
    if list(spec.stride) != dense:
        fields["stride"] = list(spec.stride)
    lines = [f"    {key} = {_literal(item)}" for key, item in fields.items()]
    return "\n".join([f"class Program_weight_tensor_meta_{node.name}:", *lines, ""])


def _plain(value: object) -> object:
    if isinstance(value, dict) and "float" in value:
        return float(value["float"])
    return value


def _data(raw: dict[str, object], spec: TensorSpec) -> list[object] | None:
    data = raw.get("data")
    flat = isinstance(data, list) and len(data) == spec.numel and not any(isinstance(item, list) for item in data)
    return [_plain(item) for item in data] if flat and isinstance(data, list) else None


def _literal(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, list):
        return "[" + ", ".join(map(_literal, value)) + "]"
    return repr(value)
