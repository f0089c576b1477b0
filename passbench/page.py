"""The report of a grading as one HTML page that needs nothing else: no script, font, picture or network.

    Path("page.html").write_text(page(read_entries(Path("results"), PRESETS["published"], unit_speed=True)))

Shows the score with its interval, ES_t with a band, fast_p, a forest of speed-ups, speed-ups against what the machine
allows, verdicts and isolation, every subgraph, the environment, graphs before and after, pass source, kernels. All
text of the submission is escaped: a page never runs what it shows. Reads and writes nothing.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape

from data.svg import Axis, shortened
from passbench.bootstrap import Interval, mean_interval
from passbench.charts import Curve, Span, curves, forest, scatter
from passbench.diagram import diagram
from passbench.entries import Conditions, Entry, common
from passbench.highlight import highlighted
from passbench.page_style import STYLE
from passbench.roofline import caps_of
from passbench.score import contributions, outcomes_of, require_scored, summarise
from schemas.rows import CORRECT_VERDICTS, EvalResult, Verdict
from schemas.text import times

MAX_GRAPHS, MAX_KERNELS, MAX_ROWS = 4, 4, 400
NONE = "–"
"""What stands for a number that is not known."""
VOID = "void"
"""What stands for the score where the harness failed."""
_FREE = {Verdict.HARNESS_ERROR, Verdict.AMBIGUOUS_TIMING}


def page(entries: Sequence[Entry], *, title: str = "") -> str:
    """The page of one submission on one or more tasks; raises ValueError on several submissions or unequal settings."""
    submissions = {entry.score.submission for entry in entries}
    if len(submissions) != 1:
        raise ValueError(f"a page shows one submission, {len(submissions)} were given: name one results folder")
    conditions = common([entry.conditions for entry in entries])
    name = title or entries[0].details.name
    subtitle = entries[0].stored.task.title if len(entries) == 1 else f"{len(entries)} tasks"
    body = [
        f"<header><h1>{escape(name)}</h1><p>{escape(subtitle)} · submission <code>{submissions.pop()[:12]}</code></p>",
        f"</header>{_tiles(entries)}",
        f'<div class="grid">{_es_card(entries)}{_fast_card(entries)}{_forest_card(entries)}{_roof_card(entries)}</div>',
        f'<div class="grid">{_integrity_card(entries, conditions)}{_environment_card(entries, conditions)}</div>',
        _rows_card(entries), _graphs_card(entries), _source_card(entries), _kernels_card(entries),
    ]  # fmt: skip
    return document(f"{name} · PassBench", "".join(body))


def document(title: str, body: str) -> str:
    """A whole page around a body."""
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
    policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    return (
        f"<!doctype html><html lang=en><head>{head}{policy}<title>{escape(title)}</title><style>{STYLE}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def card(title: str, content: str, note: str = "", *, wide: bool = False) -> str:
    """A titled part of a page."""
    below = f'<p class="note">{escape(note)}</p>' if note else ""
    return f'<section class="card{" wide" if wide else ""}"><h2>{escape(title)}</h2>{content}{below}</section>'


def number(value: float | None, form: str = ".3f", unit: str = "") -> str:
    """A number for a table; a dash for none."""
    return NONE if value is None else f"{value:{form}}{unit}"


def ratio(value: float | None) -> str:
    """A speed-up or another ratio for a table; a dash for none."""
    return NONE if value is None else f"{times(value)}×"


# --- numbers --------------------------------------------------------------------------------------------------------
def mean(values: Iterable[float | None]) -> float | None:
    """Mean of the known values; None if there are none."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def geometric(values: Iterable[float | None]) -> float | None:
    """Geometric mean of the known values; None if there are none."""
    found = mean(math.log(value) if value else None for value in values)
    return None if found is None else math.exp(found)


def _tiles(entries: Sequence[Entry]) -> str:
    scores = [entry.score for entry in entries]
    total, preset = summarise(scores), scores[0].preset
    known = total.ci_low is not None and total.ci_high is not None
    ends = f"95% interval {total.ci_low:.3f} – {total.ci_high:.3f}" if known else "too few tasks for an interval"
    score = (VOID, total.voided) if total.voided else (number(total.score), f"preset {preset.name}, {ends}")
    capped, noise = sum(score.capped for score in scores), mean(entry.details.noise for entry in entries)
    exact = geometric(item.ratio for entry in entries for item in entry.details.numerics)
    alone = geometric(s.inductor_speedup for s in scores)
    beside = f"Inductor alone: {ratio(alone)}, score {number(geometric(s.inductor_score for s in scores))}"
    tiles = [
        ("score", *score),
        ("paper's score", number(total.paper_score), "the same rows under preset paper"),
        ("correct", number(mean(s.correctness for s in scores), ".0%"),
         f"of {sum(s.total for s in scores)} subgraphs"),
        ("coverage", number(mean(s.coverage for s in scores), ".0%"), "a pass fired"),
        ("speed-up", ratio(geometric(s.speedup for s in scores)), "over eager, where correct"),
        ("over Inductor", ratio(geometric(s.over_inductor for s in scores)), beside),
        ("capped score", number(geometric(s.winsorised for s in scores)), f"{capped} speed-ups above the roofline"),
        ("error", NONE if exact is None else f"{shortened(exact)}×", "of eager's own, against float64"),
        ("noise", number(None if noise is None else noise * 100, ".1f", "%"), "A/A floor of a speed-up"),
    ]  # fmt: skip
    cells = "".join(
        f'<div class="tile"><b>{escape(name)}</b><span>{escape(value)}</span><small>{escape(note)}</small></div>'
        for name, value, note in tiles
        if value != NONE
    )
    lacking = [name for name, value, _ in tiles if value == NONE]
    text = _lacking(entries, lacking) + (f" {beside}." if "over Inductor" in lacking and alone is not None else "")
    return f'<div class="tiles">{cells}</div>' + (f'<p class="note">{escape(text)}</p>' if text else "")


def _lacking(entries: Sequence[Entry], names: Sequence[str]) -> str:
    """Why some tiles are left out, in one line; empty if none is."""
    why = _no_speed(entries)
    timed = [name for name in names if why and name in ("speed-up", "over Inductor", "capped score")]
    rest = ", ".join(name for name in names if name not in timed)
    parts = [
        why,
        f"Left out for want of it: {', '.join(timed)}." if timed else "",
        f"No figure: {rest}." if rest else "",
    ]
    return " ".join(filter(None, parts))


def _no_speed(entries: Sequence[Entry]) -> str:
    """Why no row has a speed and what gives one; empty if one has."""
    rows = [row for entry in entries for row in entry.stored.rows]
    if any(row.speedup is not None for row in rows):
        return ""
    if not any(row.verdict in CORRECT_VERDICTS for row in rows):
        return "No row has a speed: only a correct subgraph is timed, and none is."
    if any(map(_unit, entries)):
        return (
            "No row has a speed, which needs a GPU here, as kernels run in an interpreter: on a machine that has one, "
            "passbench run --device cuda measures it."
        )
    return "No row has a speed: passbench run --fresh grades once more and measures it."


# --- charts ---------------------------------------------------------------------------------------------------------
def _unit(entry: Entry) -> bool:
    return entry.score.speed.startswith("not measured")


def _clusters(entries: Sequence[Entry], level: int) -> list[float]:
    """Logs of what is averaged at a level: one number a task, of a single task one a subgraph."""
    found = []
    for entry in entries:
        outcomes = outcomes_of(entry.stored.rows, entry.stored.task, unit_speed=_unit(entry))
        logs = [math.log(value) for value in contributions(outcomes, level, entry.score.preset)]
        found += logs if len(entries) == 1 else [math.fsum(logs) / len(logs)]
    return found


def _es_card(entries: Sequence[Entry]) -> str:
    total = summarise([entry.score for entry in entries])
    if total.voided:
        return card("Error-aware speed-up", "", f"There is no ES_t: {total.voided}.")
    points, band = [], []
    for level in entries[0].score.preset.levels:
        logs = _clusters(entries, level)
        points.append((float(level), math.exp(math.fsum(logs) / len(logs))))
        found: Interval | None = mean_interval(logs)
        if found is not None:
            # an interval of a geometric mean of numbers between b and the largest speed-up ends there as well
            low, high = math.exp(max(found.low, min(logs))), math.exp(min(found.high, max(logs)))
            band.append((float(level), low, high))
    top = max([1.0, *(y for _, y in points), *(high for _, _, high in band)])
    chart = curves([Curve(name="ES_t", points=points, band=band)], Axis(title="tolerance level t"),
                   Axis(title="ES_t", log=True, high=1.15 * top))  # fmt: skip
    over = "tasks" if len(entries) > 1 else "subgraphs of the one task"
    note = f"Band: 95% bootstrap over {over}." if band else "Too few tasks for a band."
    return card("Error-aware speed-up", chart, f"{note} From t = 1 on failures are tolerated class by class.")


def _fast_card(entries: Sequence[Entry]) -> str:
    rows = [row for entry in entries for row in entry.stored.rows]
    total = sum(entry.score.total for entry in entries)
    own = [row.speedup for row in rows if row.speedup is not None]
    other = [row.inductor_speedup for row in rows if row.inductor_speedup is not None]
    if not own:  # Inductor alone is no comparison
        return ""
    found = [Curve(name=name, style=style, points=_shares(speeds, total), steps=True)
             for name, style, speeds in (("submission", "one", own), ("Inductor", "two", other)) if speeds]  # fmt: skip
    chart = curves(found, Axis(title="p", log=True), Axis(title="share faster than p × eager", low=0.0, high=1.0))
    return card("fast_p", chart, "Share of all subgraphs that are correct and more than p times as fast as eager.")


def _shares(speeds: Sequence[float], total: int) -> list[tuple[float, float]]:
    grid = [0.5 * 1.03**k for k in range(94)]
    return [(p, sum(speed > p for speed in speeds) / total) for p in grid]


def _forest_card(entries: Sequence[Entry]) -> str:
    if len(entries) > 1:
        spans = [_task_span(entry) for entry in entries]
        shown = sorted(spans, key=lambda span: -(span.value or 0.0))
        chart = forest(shown, Axis(title="task score"))
        return card("Tasks", chart, "Diamond: default Inductor. Interval: 95% bootstrap over a task's subgraphs.")
    spans = [_row_span(row, entries[0]) for row in entries[0].stored.rows]
    note = _no_speed(entries)
    if all(span.value is span.other is None for span in spans):
        return card("Subgraphs", "", note)
    chart = forest(spans, Axis(title="speed-up over eager"))
    return card("Subgraphs", chart, f"{note or 'Interval: 95% bootstrap over pairs.'} Diamond: default Inductor.")


def _task_span(entry: Entry) -> Span:
    if entry.score.voided:
        return Span(name=entry.stored.task.title, value=None, low=None, high=None, other=None, note="void", style="bad")
    outcomes = outcomes_of(entry.stored.rows, entry.stored.task, unit_speed=_unit(entry))
    logs = [math.log(value) for value in contributions(outcomes, -5, entry.score.preset)]
    found, score = mean_interval(logs), entry.score
    shift = math.log(require_scored(score)) - math.fsum(logs) / len(logs)
    ends: tuple[float | None, float | None] = (None, None)
    if found is not None:
        ends = (math.exp(max(found.low, min(logs)) + shift), math.exp(min(found.high, max(logs)) + shift))
    style = "one" if score.correctness == 1 else "bad"
    return Span(name=entry.stored.task.title, value=score.task_score, low=ends[0], high=ends[1],
                other=score.inductor_score, style=style)  # fmt: skip


def _row_span(row: EvalResult, entry: Entry) -> Span:
    variant = next((v for v in entry.details.variants if v.index == row.index), None)
    name = f"{row.index}  {variant.dtype} {variant.shapes}" if variant else str(row.index)
    correct = row.verdict in CORRECT_VERDICTS
    note = "" if row.speedup is not None else "correct, speed not measured" if correct else row.verdict.value
    return Span(name=name, value=row.speedup, low=row.ci_low, high=row.ci_high, other=row.inductor_speedup, note=note,
                style="one" if correct else "bad")  # fmt: skip


def _roof_card(entries: Sequence[Entry]) -> str:
    points = []
    for entry in entries:
        caps = caps_of(entry.details.variants, entry.details.eager_us, entry.stored.environment)
        for row in entry.stored.rows:
            for speed, style, who in ((row.inductor_speedup, "two", "Inductor"), (row.speedup, "one", "submission")):
                if speed is not None and row.index in caps:
                    where, most = f"{who}, {entry.stored.task.title} #{row.index}", times(caps[row.index])
                    name = f"{where}: {times(speed)}× of at most {most}×"
                    points.append((max(caps[row.index], 1.0), speed, name, style))
    if not points:
        return ""
    chart = scatter(points, Axis(title="roofline ratio: eager time / least possible time", log=True),
                    Axis(title="speed-up over eager", log=True))  # fmt: skip
    return card("Roofline", chart, "Dashed diagonal: all the machine has. A point above it is impossible.")


# --- panels ---------------------------------------------------------------------------------------------------------
def _chip(verdict: Verdict, text: str = "") -> str:
    style = "good" if verdict is Verdict.PASSED else "fair" if verdict in _FREE else "poor"
    return f'<span class="chip {style}">{escape(text or verdict.value)}</span>'


def _integrity_card(entries: Sequence[Entry], conditions: Conditions) -> str:
    rows = [row for entry in entries for row in entry.stored.rows]
    counts = Counter(row.verdict for row in rows)
    chips = " ".join(_chip(verdict, f"{verdict.value} {n}") for verdict, n in counts.most_common())
    rules = Counter(f"{row.verdict.value}({row.rule})" for row in rows if row.rule)
    fired = "".join(f"<tr><td><code>{escape(rule)}</code></td><td>{n}</td></tr>" for rule, n in rules.most_common())
    measures = {name: held for entry in entries for name, held in entry.details.isolation.items()}
    held = "".join(
        f'<li class="{"yes" if value == "yes" or value.isdigit() else "no"}">{escape(name)}'
        + ("" if value == "yes" else f": {escape(value)}") + "</li>"
        for name, value in measures.items()
    )  # fmt: skip
    table = f"<table>{fired}</table>" if fired else '<p class="empty">No rule was broken.</p>'
    return card(
        "Integrity",
        f"<p>{chips}</p><h3>rules</h3>{table}<h3>isolation: {escape(conditions.isolation or 'no process ran')}</h3>"
        f'<ul class="measures">{held}</ul>',
    )


def _environment_card(entries: Sequence[Entry], conditions: Conditions) -> str:
    env = entries[0].stored.environment
    facts = [
        ("device", conditions.device), ("cores", str(env.cores)), ("software", conditions.software),
        ("Python", env.python), ("system", env.system), ("grading", conditions.grading),
        ("preset", f"{conditions.preset}: p = {conditions.p}, b = {conditions.b}, t = {conditions.levels}"),
        ("class map", conditions.map), ("time basis", conditions.basis), ("speed", conditions.speed or "not needed"),
        ("environment", env.environment), ("submission", entries[0].score.submission),
    ]  # fmt: skip
    lines = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts)
    return card("Environment", f'<table class="facts">{lines}</table>')


def _rows_card(entries: Sequence[Entry]) -> str:
    lines: list[str] = []
    for entry in entries:
        variants = {variant.index: variant for variant in entry.details.variants}
        exact = {item.index: item.ratio for item in entry.details.numerics}
        for row in entry.stored.rows[: MAX_ROWS - len(lines)]:
            variant = variants.get(row.index)
            rule = f"{row.verdict.value}({row.rule})" if row.rule else ""
            cells = [
                escape(entry.stored.task.title) if len(entries) > 1 else "", str(row.index),
                escape(f"{variant.dtype} {variant.shapes}") if variant else "",
                _chip(row.verdict, rule),
                "" if row.correct_from is None else f"t = {row.correct_from}", str(row.matches),
                number(row.max_rel_error, ".1e" if row.max_rel_error else ".0f"),
                ratio(exact.get(row.index)),
                ratio(row.speedup), ratio(row.inductor_speedup), escape(row.detail),
            ]  # fmt: skip
            lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    names = ("task" if len(entries) > 1 else "", "#", "subgraph", "verdict", "correct from", "matches", "error",
             "of eager's", "speed-up", "Inductor", "detail")  # fmt: skip
    head = "".join(f"<th>{name}</th>" for name in names)
    table = f'<div class="scroll"><table class="rows"><tr>{head}</tr>{"".join(lines)}</table></div>'
    return card("Every subgraph", table, wide=True)


def _graphs_card(entries: Sequence[Entry]) -> str:
    shown: list[str] = []
    for entry in entries:
        for path, text in entry.details.artifacts.items():
            if path.endswith("graph.json") and len(shown) < MAX_GRAPHS and (len(entries) > 1 or not shown):
                svg = _drawn(text)
                shown.append(f"<h3>{escape(entry.stored.task.title)}, subgraph {escape(path[:3])}</h3>{svg}")
                break
    note = "As the candidate's process reports it. Red: taken away. Green: put in."
    return card("Graph before and after", "".join(shown), note, wide=True) if shown else ""


def _drawn(text: str) -> str:
    try:
        return diagram(json.loads(text))
    except ValueError as error:
        return f'<p class="empty">{escape(str(error))}</p>'


def _source_card(entries: Sequence[Entry]) -> str:
    sources = entries[0].details.sources
    parts = [
        f"<details{' open' if path.removesuffix('.py') in entries[0].details.passes else ''}>"
        f"<summary>{escape(path)}</summary><pre>{highlighted(text)}</pre></details>"
        for path, text in sources.items()
        if path.endswith(".py")
    ]
    return card("Passes", "".join(parts), wide=True) if parts else ""


def _kernels_card(entries: Sequence[Entry]) -> str:
    found = [
        (entry.stored.task.title, path, text)
        for entry in entries
        for path, text in entry.details.artifacts.items()
        if path.endswith(".py") and text.strip()
    ][:MAX_KERNELS]
    parts = [
        f"<details><summary>{escape(title)}, {escape(path)}</summary><pre>{highlighted(text)}</pre></details>"
        for title, path, text in found
    ]
    note = "What default Inductor generates for the same subgraph, the baseline."
    return card("Generated kernels", "".join(parts), note, wide=True) if parts else ""
