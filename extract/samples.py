"""Graphs in the layout in which graphs are published: a folder of `model.py` and the files that describe its tensors.

    for folder in find_samples(root):
        graph = read_sample(folder)          # the sample as a graph, every spec known
    write_sample(graph, folder)              # the other way

Reads and writes sample folders. Code is read through `ast` (`extract.sample_code`), never imported or run; a
malformed sample raises ValueError of one line: file, line, what. A sample read lies on the CPU as a whole, whatever
devices it names, as every traced graph does. Symbolic sizes, whose published value is a stand-in, get the first sizes
with which the graph runs.
"""

import ast
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from extract.admission import check_rebuilt
from extract.failures import LIBRARY_ERRORS, RoundtripError, SampleError, first_line
from extract.sample_code import CodeReader
from extract.sample_meta import TensorMeta, example_sizes, init_of, read_metas, read_tree, role_of
from schemas import fx, values
from schemas.graph import CONSTANT, SUBGRAPH, Graph, Node, TensorSpec, check
from schemas.propagation import on_fakes
from schemas.source import source_of
from schemas.values import Value

CODE_FILE, JSON_FILE = "model.py", "graph_net.json"
MAX_TRIES = 48
"""Most readings of one sample in search of its symbolic sizes."""
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
    forward = code.forward
    symbols = {arg.arg: _told(metas.get(arg.arg)) for arg in _arguments(forward) if _kind(arg) in ("SymInt", "SymBool")}
    reader, error = _read(code, (where, metas, symbols))
    if error is not None and symbols:
        candidates = _candidates(folder, metas)
        reader, error = _search(code, (where, metas, symbols), candidates, (reader, error))
    if error is not None:
        raise error
    graph = Graph(nodes=tuple(reader.nodes), inits=tuple(reader.inits), subgraphs=())
    try:
        check(graph)
        return Sample(graph=graph, specs=check_rebuilt(graph))
    except LIBRARY_ERRORS as broken:
        raise RoundtripError(f"{where}: {first_line(broken)}") from broken


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
    found = [item for item in classes[0].body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)]
    if len(found) != 1 or found[0].name != "forward" or isinstance(found[0], ast.AsyncFunctionDef):
        raise SampleError(f"{where}:{classes[0].lineno}: the class has other methods than one forward: remove them")
    if found[0].args.vararg or found[0].args.kwarg:
        raise SampleError(f"{where}:{found[0].lineno}: forward takes a variable number of arguments: name each")
    if found[0].decorator_list or classes[0].decorator_list:
        raise SampleError(f"{where}:{found[0].lineno}: a decorator changes what is called: remove it")
    return _Code(forward=found[0], imports=dict(_imports(tree)))


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


Inputs = tuple[str, dict[str, TensorMeta], dict[str, int]]
"""Where the code stands, what is known of its arguments, values of its symbolic sizes."""


def _read(code: _Code, inputs: Inputs) -> tuple[CodeReader, ValueError | None]:
    """One reading: the reader, as far as it came, and what stopped it."""
    where, metas, symbols = inputs
    reader = CodeReader(where, code.imports)
    try:
        with on_fakes():
            for arg in _arguments(code.forward):
                reader.env[arg.arg] = _placeholder(reader, arg, metas.get(arg.arg), symbols)
            reader.body(code.forward.body)
    except ValueError as error:
        return reader, error
    except RecursionError:
        return reader, SampleError(f"{where}:{code.forward.lineno}: nested too deeply: assign parts to names")
    return reader, None


def _placeholder(reader: CodeReader, arg: ast.arg, meta: TensorMeta | None, symbols: dict[str, int]) -> Value:
    kind = _kind(arg)
    if kind:
        spec = TensorSpec.shared(kind, (), (), "cpu")
        number = fx.constant(_told_float(meta) if kind == "SymFloat" else symbols.get(arg.arg, _told(meta)))
        init = values.dumps({"kind": "scalar", "value": number})
        return reader.placeholder(arg, arg.arg, role="scalar", init=init, spec=spec)
    if meta is None:
        reader.refuse(arg, f"no file describes the argument {arg.arg[:80]!r}: add its class to weight_meta.py")
    role = role_of(arg.arg, _annotation(arg), meta)
    return reader.placeholder(arg, arg.arg, role=role, init=init_of(arg.arg, role, meta), spec=meta.spec)


# --- symbolic sizes -------------------------------------------------------------------------------------------------
def _told(meta: TensorMeta | None) -> int:
    data = meta.data if meta is not None else None
    return data[0] if data and isinstance(data[0], int) else 4


def _told_float(meta: TensorMeta | None) -> float:
    data = meta.data if meta is not None else None
    told: object = data[0] if data else meta.fields.get("mean") if meta is not None else None
    return float(told) if isinstance(told, int | float) else 4.0


def _candidates(folder: Path, metas: dict[str, TensorMeta]) -> list[int]:
    """Sizes that a symbol may stand for: examples of the constraints file, sizes of inputs, sizes of all tensors."""
    inputs = [meta for name, meta in metas.items() if "_self_" not in name and "_modules_" not in name]
    sizes = [size for meta in (*inputs, *metas.values()) for size in meta.shape]
    return list(dict.fromkeys([*example_sizes(folder)[:16], *sizes, 1, 2, 0]))


def _search(
    code: _Code, inputs: Inputs, candidates: list[int], first: tuple[CodeReader, ValueError | None]
) -> tuple[CodeReader, ValueError | None]:
    """Change one symbol at a time as long as the code is read further; the best reading."""
    where, metas, symbols = inputs
    best, tries = first, 0
    for name in [*symbols, *symbols]:
        for size in candidates:
            if best[1] is None or tries >= MAX_TRIES:
                return best
            tries += 1
            changed = symbols | {name: size}
            found = _read(code, (where, metas, changed))
            if found[1] is None or len(found[0].nodes) > len(best[0].nodes):
                best, symbols = found, changed
    return best


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
