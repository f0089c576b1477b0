"""The leaderboard: submissions ranked from their result files, as one static HTML page.

    Path("index.html").write_text(leaderboard(read_boards([Path("results")], PRESETS["published"])))

Submissions stand in one table only if they were graded under equal conditions on the same tasks; others get a table of
their own, which says in what it differs. One whose task the harness failed on is void: it stands last, without a rank.
Next to each score stands its paired difference to the submission above, so that a rank which noise decided is seen as
such. Reads results folders; writes nothing.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from html import escape
from pathlib import Path

from passbench.compare import Paired, compare
from passbench.entries import Conditions, Entry, differences, read_entries
from passbench.page import card, document, geometric, mean, number, ratio
from passbench.score import Preset, Summary, summarise
from schemas.text import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One submission of a board."""

    entries: tuple[Entry, ...]
    """Its gradings, one a task."""
    summary: Summary
    """Its score."""
    above: Paired | None
    """Against the submission above it; None for the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """Submissions that may be compared, best first."""

    conditions: Conditions
    """What they share."""
    lines: tuple[Line, ...]
    """By score."""


def read_boards(folders: Sequence[Path], preset: Preset, *, unit_speed: bool = False) -> list[Board]:
    """Boards from results folders, the one with most submissions first; raises ValueError if there are no results."""
    return boards_of([entry for folder in folders for entry in read_entries(folder, preset, unit_speed=unit_speed)])


def boards_of(entries: Iterable[Entry]) -> list[Board]:
    """Group gradings into boards: equal conditions, equal tasks."""
    pools: list[tuple[Conditions, dict[str, dict[str, Entry]]]] = []
    for entry in entries:
        pool = next((pool for known, pool in pools if not differences(known, entry.conditions)), None)
        if pool is None:
            pool = {}
            pools.append((entry.conditions, pool))
        pool.setdefault(_key(entry), {})[entry.stored.task.task_id] = entry  # a later folder of one task wins
    boards = []
    for conditions, pool in pools:
        sets: dict[frozenset[tuple[str, int]], list[tuple[Entry, ...]]] = {}
        for found in pool.values():
            tasks = frozenset((entry.stored.task.task_id, entry.stored.task.version) for entry in found.values())
            sets.setdefault(tasks, []).append(tuple(found[key] for key in sorted(found)))
        boards += [Board(conditions=conditions, lines=_ranked(lines)) for lines in sets.values()]
    return sorted(boards, key=lambda board: (-len(board.lines), -len(board.lines[0].entries), _title(board)))


def _title(board: Board) -> str:
    return board.lines[0].entries[0].stored.task.title


def _key(entry: Entry) -> str:
    return f"{entry.details.name}/{entry.score.submission}"


def _ranked(found: Sequence[tuple[Entry, ...]]) -> tuple[Line, ...]:
    scored = [(summarise([entry.score for entry in entries]), entries) for entries in found]
    scored.sort(key=lambda item: (-_place(item[0]), _key(item[1][0])))
    lines: list[Line] = []
    for summary, entries in scored:
        above = compare(entries, lines[-1].entries) if lines and not summary.voided else None
        lines.append(Line(entries=entries, summary=summary, above=above))
    return tuple(lines)


def _place(summary: Summary) -> float:
    """What a submission is ranked by; void ones come last."""
    return -math.inf if summary.score is None else summary.score


def leaderboard(boards: Sequence[Board]) -> str:
    """The page."""
    about = "Submissions by task score; a table holds only what may be compared."
    parts = [f"<header><h1>PassBench</h1><p>{about}</p></header>"]
    for place, board in enumerate(boards):
        tasks = len(board.lines[0].entries)
        title = f"{counted(tasks, 'task')}, {board.conditions.device}, preset {board.conditions.preset}"
        parts.append(card(title, _table(board), _why(boards[0], board) if place else "", wide=True))
    return document("PassBench leaderboard", "".join(parts))


def _why(first: Board, board: Board) -> str:
    """In what a board differs from the first."""
    found = differences(board.conditions, first.conditions)
    return f"Not comparable with the first table: {'; '.join(found) or 'other tasks'}."


def _table(board: Board) -> str:
    names = ("#", "submission", "score", "95% interval", "to the one above", "correct", "coverage", "speed-up",
             "over Inductor")  # fmt: skip
    head = "".join(f"<th>{name}</th>" for name in names)
    lines = "".join(_row(rank, line) for rank, line in enumerate(board.lines, 1))
    shared = "; ".join(
        f"{field.name} {getattr(board.conditions, field.name)}"
        for field in fields(Conditions)
        if field.name not in ("preset", "device") and getattr(board.conditions, field.name)
    )
    table = f'<div class="scroll"><table class="rows"><tr>{head}</tr>{lines}</table></div>'
    return f'{table}<p class="note">{escape(shared)}</p>'


def _row(rank: int, line: Line) -> str:
    scores, total = [entry.score for entry in line.entries], line.summary
    known = total.ci_low is not None and total.ci_high is not None
    score = "void" if total.score is None else f"{total.score:.3f}"
    cells = [
        "–" if total.voided else str(rank),
        f"<b>{escape(line.entries[0].details.name)}</b> <code>{escape(scores[0].submission[:8])}</code>",
        f"<b>{score}</b>", f"{total.ci_low:.3f} – {total.ci_high:.3f}" if known else "–",
        escape(total.voided) if total.voided else _above(line),
        number(mean(s.correctness for s in scores), ".0%"), number(mean(s.coverage for s in scores), ".0%"),
        ratio(geometric(s.speedup for s in scores)),
        ratio(geometric(s.over_inductor for s in scores)),
    ]  # fmt: skip
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _above(line: Line) -> str:
    if line.above is None:
        return ""
    if line.above.interval is None:
        return f"{line.above.ratio:.3f}"
    sure = line.above.interval.high < 1 or line.above.interval.low > 1
    chip = '<span class="chip good">clear</span>' if sure else '<span class="chip fair">may be noise</span>'
    return f"{line.above.ratio:.3f} {chip}"
