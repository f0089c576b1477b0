"""One self-contained page on what mining and measuring found: `passnet report`.

    text = page(RunDirectory("runs/default"))
    Path("report.html").write_text(text, encoding="utf-8")

Reads the tables classes, subgraphs, profiles, environments and longtail of a run; returns HTML that loads nothing from
anywhere. Every figure says what it is: structural (counted), estimated or measured; shares carry Wilson's 95% interval.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from data.chart import STYLE, Bar, Dot, bars, cumulative, scatter
from data.store import RunDirectory
from data.svg import Axis, shortened
from fusion_mining.longtail import SLOW, Share, slow_share
from fusion_mining.unknown import Unknown, unknown_ops
from passbench.roofline import cost_of, floor_us, machine_of
from schemas.rows import Environment, LongTail, Profile, ProfileStatus, Subgraph

ROWS = 16
"""Rows of a table or chart on the page."""
SMALL = 3
"""Groups of fewer pieces are not drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the page is made from."""

    title: str
    """The run directory's name."""
    counts: Mapping[str, int]
    """Rows of the tables it speaks of."""
    kinds: Mapping[str, int]
    """Distinct pieces by kind."""
    pieces: Mapping[str, Subgraph]
    """The measured pieces by key."""
    profiles: Sequence[Profile]
    """All profiles."""
    rows: Sequence[LongTail]
    """What is said of those that were timed."""
    environments: Sequence[Environment]
    """Where they were timed."""
    unknown: Sequence[Unknown]
    """Ops of the classes that the table of op classes does not list."""


def page(store: RunDirectory) -> str:
    """The page of a run; raises ValueError if nothing was measured there yet."""
    found = gather(store)
    if not found.rows:
        if (store.path / "longtail").is_dir():
            raise ValueError(
                f"nothing was measured in {store.path}: no piece was picked; `passnet status` shows the funnel"
            )
        raise ValueError(f"nothing is measured in {store.path} yet: run passnet build, or passnet run longtail")
    sections = (_share, _speedups, _groups, _sizes, _roofline, _tail, _unknown, _machine)
    body = "".join(section(found) for section in sections)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(found.title)}: what compilation misses</title><style>{_PAGE_STYLE}{STYLE}</style>"
        f"<main><h1>What compilation misses</h1>{_counts(found)}{body}</main></html>"
    )


def gather(store: RunDirectory) -> Found:
    """Read what the page needs."""
    profiles, rows = store.read_table("profiles"), store.read_table("longtail")
    wanted = {row.subgraph for row in profiles}
    kinds: Counter[str] = Counter()
    pieces: dict[str, Subgraph] = {}
    for piece in store.iter_rows("subgraphs"):
        kinds[piece.kind] += 1
        if piece.key in wanted:
            pieces[piece.key] = piece
    names = ("graphs", "classes", "occurrences", "subgraphs", "picks", "profiles")
    return Found(
        title=store.path.name, counts={name: store.count(name) for name in names}, kinds=kinds, pieces=pieces,
        profiles=profiles, rows=rows, environments=store.read_table("environments"),
        unknown=unknown_ops(row.graph for row in store.iter_rows("classes")),
    )  # fmt: skip


# --- sections -------------------------------------------------------------------------------------------------------
def _section(title: str, text: str, drawing: str) -> str:
    return f"<section><h2>{escape(title)}</h2><p>{text}</p>{drawing}</section>"


def _counts(found: Found) -> str:
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(found.kinds.items()))
    return (
        f'<p class="lead">{escape(found.title)}: {found.counts["graphs"]:,} graphs in '
        f"{found.counts['classes']:,} classes hold {found.counts['subgraphs']:,} distinct pieces ({kinds}); "
        f"{found.counts['profiles']:,} were measured.</p>"
    )


def _share(found: Found) -> str:
    share = slow_share(found.rows)
    low, high = share.interval
    firm = sum(row.slow and row.q_value <= 0.05 for row in found.rows)
    tail = sum(row.long_tail for row in found.rows)
    wrong = sum(row.status is ProfileStatus.WRONG_VALUE for row in found.profiles)
    tiles = (
        (f"{share.value:.1%}", f"slow end to end ({low:.1%} to {high:.1%}; {share.slow} of {share.of}), measured"),
        (f"{firm}", "of them at a false-discovery rate of 5%"),
        (f"{tail}", "rare and slow: the long tail"),
        (f"{wrong}", "with wrong values after compilation, never timed"),
    )
    cells = "".join(f'<div class="tile"><b>{value}</b><span>{escape(name)}</span></div>' for value, name in tiles)
    text = (
        f"A piece is slow if the whole 95% interval of its compiled time over its eager time lies beyond {SLOW}. "
        "Times are the host's, end to end, in interleaved pairs."
    )
    return _section("How often compilation makes a piece slower", text, f'<div class="tiles">{cells}</div>')


def _speedups(found: Found) -> str:
    speedups = [1 / row.slowdown for row in found.rows]
    drawing = cumulative(speedups, Axis(title="eager time / compiled time", log=True), {1.0: "as fast as eager"})
    middle = sorted(speedups)[len(speedups) // 2]
    return _section("Speed-up of default Inductor over eager", f"The median piece runs {middle:.2f}x as fast.", drawing)


def _groups(found: Found) -> str:
    drawings = [
        f"<h3>by {name}</h3>{bars(_bars(found, groups), Axis(title='slow share', low=0.0, high=1.0, percent=True))}"
        for name, groups in (("modality", _modalities), ("architecture family", _families), ("op", _ops))
    ]
    text = f"Groups of at least {SMALL} measured pieces, the largest first; a piece found in several counts in each."
    return _section("Where the slow pieces are", text, "".join(drawings))


def _modalities(piece: Subgraph) -> Iterable[str]:
    return piece.modalities


def _families(piece: Subgraph) -> Iterable[str]:
    return piece.families


def _ops(piece: Subgraph) -> Iterable[str]:
    return set(piece.pattern.split(" > "))


def _bars(found: Found, groups: Callable[[Subgraph], Iterable[str]]) -> list[Bar]:
    members: dict[str, list[LongTail]] = defaultdict(list)
    for row in found.rows:
        for name in groups(found.pieces[row.subgraph]):
            members[name].append(row)
    shares = [(name, slow_share(rows)) for name, rows in members.items() if len(rows) >= SMALL]
    shares.sort(key=lambda item: (-item[1].of, item[0]))
    return [_bar(name, share) for name, share in shares[:ROWS]]


def _bar(name: str, share: Share) -> Bar:
    low, high = share.interval
    return Bar(label=name, value=share.value, low=low, high=high, note=f"{share.slow} of {share.of}")


def _sizes(found: Found) -> str:
    timed = {row.subgraph: row for row in found.profiles if row.status is ProfileStatus.MEASURED}
    dots = [
        Dot(
            x=max(1.0, float(cost_of(found.pieces[row.subgraph].graph).moved)), y=timed[row.subgraph].inductor_us,
            label=row.pattern, group="slow" if row.slow else "not slow",
        )
        for row in found.rows
    ]  # fmt: skip
    text = "Small pieces cost a call whatever they do: the flat left end is overhead, the rise is work."
    axes = Axis(title="bytes that must move", log=True), Axis(title="compiled time a call, us", log=True)
    return _section("Overhead against size", text, scatter(dots, *axes))


def _roofline(found: Found) -> str:
    machines = {row.environment: machine_of(row) for row in found.environments}
    timed = {row.subgraph: row for row in found.profiles if row.status is ProfileStatus.MEASURED}
    dots = []
    for row in found.rows:
        cost, machine = cost_of(found.pieces[row.subgraph].graph), machines.get(row.environment)
        if machine is None or not cost.moved:
            continue
        floor, taken = floor_us(cost, machine), timed[row.subgraph].inductor_us
        group = "slow" if row.slow else "not slow"
        dots.append(Dot(x=max(cost.eager_moved / cost.moved, 1.0), y=floor / taken, label=row.pattern, group=group))
    text = (
        "How near the compiled piece is to the least time that its bytes and operations allow on this machine (a "
        "bound, not a goal), against what fusion could save at most: bytes of a run that stores every value over "
        "bytes that must move."
    )
    axes = (
        Axis(title="bytes saved by fusing everything, factor", log=True),
        Axis(title="least time / time taken", log=True),
    )
    return _section("Distance from the roofline", text, scatter(dots, *axes))


def _tail(found: Found) -> str:
    rows = sorted((row for row in found.rows if row.slow), key=lambda row: -row.score)[:ROWS]
    head = ("piece", "slower", "95% interval", "q", "in classes", "bits", "score", "long tail")
    cells = [
        (
            row.pattern, f"{row.slowdown:.2f}x", f"{row.slowdown_low:.2f} to {row.slowdown_high:.2f}",
            f"{row.q_value:.3f}", f"{row.document_frequency}", f"{row.rarity_bits:.1f}", f"{row.score:.2f}",
            "yes" if row.long_tail else "",
        )
        for row in rows
    ]  # fmt: skip
    text = (
        "Score = bits of the rarest op transition * log2(slow-down) * log2(1 + classes that contain the piece). Long "
        "tail: slow, and in few classes or with a rare transition."
    )
    return _section("The slow pieces that matter most", text, _table(head, cells))


def _table(head: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    lines = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in cells)
    return f'<div class="wide"><table><tr>{"".join(f"<th>{name}</th>" for name in head)}</tr>{lines}</table></div>'


def _unknown(found: Found) -> str:
    calls = sum(row.calls for row in found.unknown)
    text = (
        f"{len(found.unknown)} ops, {calls:,} calls in all, are in no class of the table (`op_classes`): "
        "no piece holds them. Counted over the classes, those in most of them first."
    )
    cells = [(row.name, f"{row.calls:,}", f"{row.graphs:,}") for row in found.unknown[:ROWS]]
    return _section("Ops that are not looked into", text, _table(("op", "calls", "in classes"), cells))


def _machine(found: Found) -> str:
    lines = [
        f"{row.processor}, {row.cores} cores, {row.threads} thread(s) of torch {row.torch}, Python {row.python}, "
        f"{row.system}"
        for row in {row.environment: row for row in found.environments}.values()
    ]
    pairs = sorted({row.pairs for row in found.profiles if row.pairs})
    text = "; ".join(map(escape, lines)) + (f"; {pairs[0]} to {pairs[-1]} pairs a piece" if pairs else "")
    seconds = math.fsum(row.compile_s for row in found.profiles)
    return _section("Where it was measured", f"{text}; {shortened(seconds)} s of compilation in all.", "")


_PAGE_STYLE = (
    ":root{color-scheme:light dark;--c0:#2c6fbb;--c1:#d1603d;--c2:#3a9b6f;--line:#8884}"
    "@media(prefers-color-scheme:dark){:root{--c0:#7db4f0;--c1:#f2916f;--c2:#7fd6ab}}"
    "body{margin:0;font:15px/1.5 system-ui,sans-serif;background:Canvas;color:CanvasText}"
    "main{max-width:860px;margin:0 auto;padding:24px 20px 64px}"
    "h1{margin:0 0 4px}h2{margin:40px 0 4px}h3{margin:18px 0 0}"
    ".lead,.soft{opacity:.75}.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(170px,1fr));gap:12px}"
    ".tile{border:1px solid var(--line);border-radius:10px;padding:12px 14px}.tile b{display:block;font-size:26px}"
    ".tile span{font-size:13px;opacity:.75}.wide{overflow-x:auto}"
    "table{border-collapse:collapse;font-size:13px;width:100%}"
    "th,td{text-align:left;padding:4px 10px 4px 0;border-bottom:1px solid var(--line);vertical-align:top}"
    "td{font-variant-numeric:tabular-nums}"
)
