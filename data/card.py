"""The generated dataset card: README.md of a published folder.

Is: YAML front matter (one block a config, the version in each), the funnel with its failures by kind, field docs taken
from the literals under the dataclass fields, the identity levels, licences, limits and loading snippets.
Reads the source text of row types; writes nothing: `data.publish` stores the text.

    text = render(Card(name="PassNet-Dataset", version="0.1.0", ...))
"""

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import pyarrow as pa

from schemas.rows import SCHEMA_VERSION

LEVELS = (
    ("exact", "ops, attributes, shapes, dtypes and wiring are equal; rows are merged at this level only"),
    ("shape_free", "dimensions, and integers in shape positions, replaced by equality classes in first-visit order"),
    ("dtype_free", "as shape_free, with dtypes masked"),
    ("structure", "as dtype_free, with all numeric literals masked"),
    ("topology", "ops and wiring only"),
)
"""(level, what is equal at it), finest first; equal at one level implies equal at every later one."""

KEYS = """### How a key is made

1. Every call is spelt in one way: method, function, operator and aten forms of one op, positional or keyword arguments
   and omitted defaults become the same record; names, metadata, device indices and dead pure code are left out.
2. Nodes are numbered by a depth-first search from the ordered outputs, then from the chain of effects (in-place writes,
   random numbers, scopes), along ordered operands; operands of commutative ops are sorted. The numbering depends on the
   graph alone, so equal graphs, and only those, give equal bytes.
3. One line a node in that order: its record, operand numbers, dtype and shape, as far as the level looks at them. These
   lines are the canonical form; the key is their xxh3-128 digest in hexadecimal.

xxh3-128 is fast and not safe against an adversary, so two graphs become one row only if their forms are equal byte for
byte; a share of them is given to an independent isomorphism check as well. To compute the key of a row again:

```python
import json
from schemas.canonical import canonicalize
from schemas.graph import Graph

graph = Graph.from_json(json.dumps(row["graph"]))
assert canonicalize(graph).key == row["key"]  # rows of `graphs`; pieces: canonicalize(graph, free_outputs=True)
```

`structure` names the family of a graph, `family_rank` its place there; a family gives the split `train` at most its cap
of classes, the others stand in `surplus`. `cluster` joins near-duplicates (MinHash over op sequences): a split that
keeps clusters together does not leak. `members` lists every graph with the models behind it (`num_models`)."""

TAGS = ("code", "compilers", "torch-fx", "kernel-fusion", "computation-graphs")
SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigCard:
    """What the card says of one config."""

    name: str
    """Config name, as in `load_dataset(folder, name)`."""
    row: type
    """Row type that the columns come from."""
    schema: pa.Schema
    """Columns as published."""
    added: Mapping[str, str]
    """Doc of every column that is not a field of the row type, or that replaces one."""
    rows: Mapping[str, int]
    """Rows a split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunnelRow:
    """One line of the funnel."""

    table: str
    """Table name."""
    rows: int
    """Rows it holds."""
    failures: Mapping[str, int]
    """Failures of the stage by kind."""
    skipped: Mapping[str, int]
    """Input rows left out on purpose, by reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """Everything a card is made from."""

    name: str
    """Dataset name."""
    summary: str
    """One paragraph."""
    version: str
    """x.y.z."""
    digest: str
    """Content digest; it stands in every config because `datasets` caches by the text of the configs alone."""
    configs: Sequence[ConfigCard]
    """Configs; the first is the default."""
    funnel: Sequence[FunnelRow]
    """The run's funnel in order."""
    licenses: Sequence[str]
    """Licences of the models, as their sources declare them."""
    limits: Sequence[str]
    """Known limits, one sentence each."""


@cache
def field_docs(row: type) -> dict[str, str]:
    """The literal under every field of a dataclass, on one line; a field without one has an empty doc."""
    tree = ast.parse(inspect.getsource(sys.modules[row.__module__]))
    body = next(n.body for n in tree.body if isinstance(n, ast.ClassDef) and n.name == row.__name__)
    docs: dict[str, str] = {}
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            literal = after.value if isinstance(after, ast.Expr) else None
            text = literal.value if isinstance(literal, ast.Constant) else ""
            docs[node.target.id] = " ".join(str(text).split())
    return docs


def docs_of(config: ConfigCard) -> dict[str, str]:
    """The meaning of every published column; "As in ModelRef." is replaced by what it says there."""
    module = sys.modules[config.row.__module__]
    docs = {**field_docs(config.row), **config.added}
    for name, text in docs.items():
        while text.startswith("As in "):
            text = field_docs(getattr(module, text.removeprefix("As in ").rstrip(".")))[name]
        docs[name] = text
    return docs


def render(card: Card) -> str:
    """The whole README.md."""
    parts = [_front_matter(card), _head(card), _funnel(card.funnel), _fields(card.configs)]
    parts += [_levels(), _licenses(card.licenses), _bullets("Known limits", card.limits), _loading(card)]
    return "\n\n".join(parts) + "\n"


def _front_matter(card: Card) -> str:
    """The YAML block. Splits without rows are left out: `datasets` raises on them, and on their siblings with them."""
    total = sum(sum(config.rows.values()) for config in card.configs)
    size = next((name for limit, name in SIZES if total < limit), "n>1M")
    lines = ["---", f"pretty_name: {card.name}", "license: other", "license_name: per-row", "license_link: README.md"]
    lines += ["tags:", *(f"- {tag}" for tag in TAGS)]
    lines += ["size_categories:", f"- {size}", "configs:"]
    for number, config in enumerate(config for config in card.configs if any(config.rows.values())):
        lines += [
            f"- config_name: {config.name}",
            f"  version: {card.version}",
            f"  description: content {card.digest}",
        ]
        lines += ["  default: true"] if number == 0 else []
        lines += ["  data_files:"]
        for split in (split for split, rows in config.rows.items() if rows):
            lines += [f"  - split: {split}", f"    path: data/{config.name}/{split}-*.parquet"]
    return "\n".join([*lines, "---"])


def _head(card: Card) -> str:
    table = _table(
        ("config", "split", "rows"),
        ((c.name, split, str(rows)) for c in card.configs for split, rows in c.rows.items()),
    )
    intro = (
        f"Version {card.version}, row schema {SCHEMA_VERSION}. This card is generated from the build's own tables. "
        "A split with 0 rows has a file with its columns, but `load_dataset` knows it only once it has rows."
    )
    return f"# {card.name}\n\n{card.summary}\n\n{intro}\n\n{table}"


def _funnel(funnel: Sequence[FunnelRow]) -> str:
    rows = ((r.table, str(r.rows), _counts(r.failures), _counts(r.skipped)) for r in funnel)
    text = "Every input row of a stage is an output row, a failure of a closed list of kinds, or left out for a reason."
    return f"## Funnel\n\n{text}\n\n" + _table(("table", "rows", "failures", "left out on purpose"), rows)


def _counts(counts: Mapping[str, int]) -> str:
    return "; ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=lambda x: (-x[1], x[0]))) or "0"


def _fields(configs: Sequence[ConfigCard]) -> str:
    parts = ["## Columns"]
    for config in configs:
        docs = docs_of(config)
        doc = " ".join((config.row.__doc__ or "").split())
        rows = ((f"`{f.name}`", _type_name(f.type), docs[f.name]) for f in config.schema)
        parts.append(f"### {config.name}\n\n{doc}\n\n" + _table(("column", "type", "meaning"), rows))
    return "\n\n".join(parts)


def _type_name(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {_type_name(kind.value_type)}"
    if pa.types.is_struct(kind):
        return "struct of " + ", ".join(field.name for field in kind)
    return str(kind)


def _levels() -> str:
    text = (
        "Equal at one level implies equal at every later one. Rows are merged at `exact` alone, canonical bytes "
        "compared; the other keys are stored so that a reader can group by them."
    )
    return f"## What the same graph means\n\n{text}\n\n" + _table(("key", "equal means"), LEVELS) + f"\n\n{KEYS}"


def _licenses(licenses: Sequence[str]) -> str:
    text = (
        "Graphs are structure derived from model code, without weights. Each row names its models and the licences "
        "their sources declare; declared here:"
    )
    return _bullets("Licences", [name or "none declared" for name in licenses], text)


def _bullets(title: str, items: Sequence[str], text: str = "") -> str:
    head = f"## {title}\n\n{text}\n\n" if text else f"## {title}\n\n"
    return head + ("\n".join(f"- {item}" for item in items) or "- none")


def _loading(card: Card) -> str:
    first = card.configs[0].name
    split = next(iter(card.configs[0].rows))
    return f"""## Loading

```python
from datasets import load_dataset

rows = load_dataset("path/to/{card.name}/{card.version}", "{first}", split="{split}")
print(rows[0])
```

```sql
SELECT count(*) FROM 'data/{first}/*.parquet';  -- DuckDB, in this folder
```

A `graph` column holds the exact graph, `source` the same as readable Python. With the `passnet` package installed:

```python
import json
from schemas.fx import lower
from schemas.graph import Graph

module = lower(Graph.from_json(json.dumps(row["graph"])))  # a torch.fx.GraphModule
```

Each build is a new folder with a new version, and every config names the digest of its content: `datasets` caches by
the text of the configs alone and would otherwise serve old rows, even those of another folder."""


def _table(head: Sequence[str], rows: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)
