"""Whether any sample, however damaged, is read or refused in one clear line: the reader under mutated samples.

    python -m benchmarks.samples_mutated --json                    # 2,000 mutated samples
    python -m benchmarks.samples_mutated --count 100 --seed 3      # a few

The sample folders of the tests are damaged one to three times: statements left out, doubled, swapped or cut off; names,
numbers, operators and calls put in place of others; odd expressions and values; fields of the tensors changed. Each is
read in this process. Prints

| key         | meaning                                                                              |
|-------------|--------------------------------------------------------------------------------------|
| samples     | tried                                                                                |
| admitted    | read: the damage left a legal sample                                                 |
| refused     | refused with a SampleError or RoundtripError                                         |
| crashes     | other exceptions: a defect of the reader                                             |
| unknown     | refusals of kind unknown: a defect of the reader                                     |
| unplaced    | refusals whose message names no file and line, or is longer than one line            |
| roundtrip   | samples that were read and did not survive rebuilding: reading and checking disagree |
| compared    | samples that were read and that Python itself runs too                               |
| misread     | of these, samples whose graph gives other numbers than Python: a defect of the reader |
| left        | readings after which autocast, gradients or levels of transforms were not as before  |
| kinds       | refusals by kind                                                                     |

Writes a temporary folder and standard output; crashes and other defects go to standard error.
"""

import argparse
import ast
import json
import logging
import random
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from extract.failures import LIBRARY_ERRORS, RoundtripError, SampleError, failure_kind
from extract.isolation import isolated
from extract.numeric import first_unequal
from extract.samples import find_samples, read_sample
from passbench.inputs import materialize
from schemas.fx import lower
from schemas.graph import Graph

SOURCES = Path(__file__).resolve().parent.parent / "tests" / "extract" / "samples"
ODD = (
    "None", "True", "-0.0", "1e400", "10 ** 30", "9223372036854775808", "2j", "[None] * 3", "(1,) * 2", "...", "{}",
    "[1, [2, (3,)]]", "'text'", "slice(None)", "torch.float16", "float('nan')", "torch.Size([2])", "device('cuda')",
    "range(3)", "torch.relu", "[L_x_, L_x_]", "torch.autograd.function.FunctionCtx()", "L_x_.shape",
    "L_x_.sum().item()",
    "(y := 3)", "torch.tensor([1, 2])", "0 < 1 < 2", "not 3", "{'a': 1, **{'b': 2}}", "f'{L_x_}'", "lambda: 1",
    "[a for a in L_x_]", "L_x_ if True else 1", "L_x_[L_x_ > 0]", "torch.zeros(0, 3)", "self.x", "nowhere", "L_x_.T",
    "torch.ops.nobody.knows(1)", "len(L_x_)", "(yield)", "await 1", "b'x'", "1 in [1]", "*L_x_", "torch.Generator()",
    "torch.ops.higher_order.cond", "math.inf", "operator.add(1, 2)", "complex(1, 2)", "-9223372036854775808",
    "torch._C._functorch._vmap_increment_nesting(2, 'error')",
    "torch.amp.autocast_mode._enter_autocast('cpu', torch.bfloat16, True, None)", "torch._C._set_grad_enabled(False)",
)  # fmt: skip
"""Expressions put in place of others."""
STATEMENTS = (
    "x = y = None", "L_x_ += 1", "L_x_[0] = 1", "a, b = L_x_", "del L_x_", "pass", "assert L_x_.sum() > 0, f'{L_x_}'",
    "n: int = 3", "for a in L_x_: pass", "with torch.no_grad(): pass", "if L_x_: pass", "import os", "global z",
    "return L_x_", "raise ValueError", "torch._check(True, lambda: 'x')", "z = [None] * 3; z[0] = L_x_; z += [1]",
    "c = torch.autograd.function.FunctionCtx(); c.a = L_x_; d = c.a", "L_x_.resize_(3)", "L_x_.data = None",
    "x = L_x_.set_(L_x_)", "L_x_.t_()", "def f(): pass", "class A: pass", "nonlocal q", "try: pass\nfinally: pass",
)  # fmt: skip
FIELDS = (
    ("shape", "[]"), ("shape", "[0, 3]"), ("shape", "[-1]"), ("shape", "[10 ** 9]"), ("shape", "[2.5]"),
    ("shape", "None"),
    ("dtype", '"torch.bool"'), ("dtype", '"torch.int64"'), ("dtype", '"torch.complex64"'), ("dtype", '"torch.float8"'),
    ("dtype", "3"), ("data", "[1]"), ("data", "[1.5, 2]"), ("data", "[True]"), ("data", "'x'"), ("data", "[10 ** 40]"),
    ("data", '[float("nan")]'), ("mean", '"a"'), ("mean", '[1]'), ("mean", "1e300"), ("std", "-1.0"), ("std", "None"),
    ("std", 'float("inf")'), ("min_val", "3"), ("max_val", "3"), ("max_val", '"b"'), ("name", "7"), ("name", '"other"'),
    ("stride", "[1]"), ("stride", "[0, 0]"), ("role", "5"), ("init", '"{}"'), ("init", "'[1'"),
    ("init", '\'{"kind":"literal","data":[1]}\''), ("init", '\'{"kind":"normal"}\''), ("original_name", "None"),
)  # fmt: skip
"""(attribute of a tensor's class, what is written instead)."""
CRASHES = (*LIBRARY_ERRORS, SyntaxError, MemoryError, RecursionError, BufferError, EOFError, StopIteration, Warning)
"""What might leave the reader besides a refusal; anything else ends the benchmark, which is seen as well."""
_PLACED = re.compile(r"\.py:\d+: .+")


class _Replaced(ast.NodeTransformer):
    """Puts something in place of one expression."""

    def __init__(self, place: int, change: Callable[[ast.expr], ast.expr]) -> None:
        self.place, self.change = place, change

    def generic_visit(self, node: ast.AST) -> ast.AST:
        node = super().generic_visit(node)
        if isinstance(node, ast.expr) and not isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
            self.place -= 1
            if self.place == 0:
                return self.change(node)
        return node


def mutate_code(text: str, rng: random.Random) -> str:
    """Code with one mutation; text that is no longer Python stays as it is cut."""
    how = rng.choice(
        ("expression", "expression", "expression", "statement", "drop", "double", "swap", "cut", "operator")
    )
    if how == "cut":
        return text[: rng.randrange(len(text))]
    try:
        tree = ast.parse(text)
        (cls,) = [item for item in tree.body if isinstance(item, ast.ClassDef)]
        (forward,) = [item for item in cls.body if isinstance(item, ast.FunctionDef)]
    except (SyntaxError, ValueError):
        return text
    body, place = forward.body, rng.randrange(len(forward.body))
    if how == "statement":
        body[place:place] = _parsed(rng.choice(STATEMENTS))
    elif how == "drop":
        del body[place]
    elif how == "double":
        body.insert(place, body[place])
    elif how == "swap":
        other = rng.randrange(len(body))
        body[place], body[other] = body[other], body[place]
    else:
        found = [node for node in ast.walk(forward) if isinstance(node, ast.expr)]
        new = rng.choice(found) if how == "operator" else _expression(rng.choice(ODD))
        _Replaced(rng.randrange(1, len(found) + 1), lambda old: new).visit(forward)
    try:
        return ast.unparse(ast.fix_missing_locations(tree)) if body else text
    except (ValueError, RecursionError, AttributeError):
        return text


def _parsed(text: str) -> list[ast.stmt]:
    return ast.parse(f"def f():\n    {text.replace(chr(10), chr(10) + '    ')}").body[0].body  # type: ignore[attr-defined,no-any-return]


def _expression(text: str) -> ast.expr:
    return ast.parse(f"async def f():\n    g({text})").body[0].body[0].value.args[0]  # type: ignore[attr-defined,no-any-return]


def mutate_meta(text: str, rng: random.Random) -> str:
    """Descriptions with one field of one tensor changed, or a class left out."""
    classes = text.split("class ")
    place = rng.randrange(1, len(classes)) if len(classes) > 1 else 0
    if rng.random() < 0.1:
        del classes[place]
    else:
        name, value = rng.choice(FIELDS)
        lines = [line for line in classes[place].rstrip().split("\n") if not line.strip().startswith(f"{name} =")]
        classes[place] = "\n".join([*lines, f"    {name} = {value}"]) + "\n\n\n"
    return "class ".join(classes)


def mutated(source: Path, folder: Path, rng: random.Random) -> None:
    """A copy of a sample with one to three mutations, drawn from the generator."""
    files = {path.name: path.read_text(encoding="utf-8") for path in source.glob("*.py")}
    for _ in range(rng.choice((1, 1, 2, 3))):
        if rng.random() < 0.8:
            files["model.py"] = mutate_code(files["model.py"], rng)
        else:
            files["weight_meta.py"] = mutate_meta(files["weight_meta.py"], rng)
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def levels() -> tuple[Any, ...]:
    """What a reading must leave as it was."""
    return torch.is_autocast_enabled("cpu"), torch.is_grad_enabled(), torch._C._functorch.maybe_current_level()


def misread(folder: Path, graph: Graph) -> str | None:
    """How the numbers of a graph differ from what Python makes of the same code; None if Python does not run it."""
    text = (folder / "model.py").read_text(encoding="utf-8").replace("cuda:0", "cpu").replace("cuda", "cpu")
    names: dict[str, Any] = {}
    with isolated():
        try:
            exec(compile(text, "model.py", "exec"), names)
            torch.manual_seed(0)
            with torch.no_grad():
                wanted = names["GraphModule"]().forward(*materialize(graph, seed=0))
        except (*CRASHES, AttributeError):
            return None
    with isolated(), torch.no_grad():
        torch.manual_seed(0)
        found = lower(graph)(*materialize(graph, seed=0))
    left, right = pytree.tree_leaves(wanted), pytree.tree_leaves(found)
    tensors = [pair for pair in zip(left, right, strict=False) if isinstance(pair[0], torch.Tensor)]
    if len(left) != len(right):
        return f"{len(left)} outputs became {len(right)}"
    return first_unequal([one for one, _ in tensors], [other for _, other in tensors])


def try_one(folder: Path, counts: Counter[str], kinds: Counter[str]) -> None:
    """Read one sample and count what came of it."""
    before = levels()
    try:
        graph = read_sample(folder)
        counts["admitted"] += 1
        why = misread(folder, graph)
        counts["compared"] += why is not None
        counts["misread"] += bool(why)
        if why:
            print(f"{folder.name}: misread: {why}", file=sys.stderr, flush=True)
    except (SampleError, RoundtripError) as error:
        kind, text = str(failure_kind(error)), str(error)
        counts["refused"] += 1
        kinds[kind] += 1
        counts["unknown"] += kind == "unknown"
        counts["roundtrip"] += isinstance(error, RoundtripError)
        unplaced = isinstance(error, SampleError) and (not _PLACED.search(text) or "\n" in text)
        counts["unplaced"] += unplaced
        if kind == "unknown" or unplaced or isinstance(error, RoundtripError):
            print(f"{folder.name}: {kind}: {text}", file=sys.stderr, flush=True)
    except CRASHES as error:
        counts["crashes"] += 1
        print(f"{folder.name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    counts["left"] += levels() != before


def measure(count: int, seed: int) -> dict[str, Any]:
    """Read that many mutated samples and return the flat result."""
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore")
    sources = list(find_samples(SOURCES))
    counts: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        with tempfile.TemporaryDirectory() as work:
            folder = Path(work) / f"sample_{number}"
            mutated(rng.choice(sources), folder, rng)
            try_one(folder, counts, kinds)
    keys = ("admitted", "refused", "crashes", "unknown", "unplaced", "roundtrip", "compared", "misread", "left")
    return {"samples": count, **{key: counts[key] for key in keys}, "kinds": dict(sorted(kinds.items()))}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000, help="how many samples")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print one flat JSON object")
    options = parser.parse_args()
    found = measure(options.count, options.seed)
    print(json.dumps(found) if options.json else "\n".join(f"{key}: {value}" for key, value in found.items()))


if __name__ == "__main__":
    main()
