"""Stage `longtail`: measured pieces -> how rare, how slow, and which are both; and the slow share of a build.

    rows = list(classify(profiles=profiles, subgraphs=subgraphs, classes=classes, config=LongTailConfig()))
    slow_share(rows)                            # Share(slow=31, of=198, low=0.112, high=0.213)

**Slow**: the 95% interval of Inductor time / eager time lies wholly beyond `SLOW` = 1.03. Beside it stands an exact
one-sided sign test over the pairs (no assumption on the noise but that pairs are exchangeable), and its value after
Benjamini and Hochberg's step-up procedure (1995) over all pieces, so that a table of many pieces states its expected
share of false ones.

**Rare**: the piece stands in at most `rare_share` of the graph classes (at least one), or one of its op transitions
(maker, reader) stands in so few of the fusible pieces that it carries at least `rare_bits` bits, -log2(share).

**Score**: rarity_bits * log2(slowdown) * log2(1 + document_frequency) of a slow piece: bits of surprise, times
doublings of time lost, times doublings of the graphs that lose it.

Reads Profile, Subgraph and CanonicalGraph rows; writes LongTail rows and a Skipped for a profile that was not timed.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from fusion_mining.mine import FUSIBLE
from fusion_mining.pieces import transitions
from schemas.rows import CanonicalGraph, LongTail, Profile, ProfileStatus, Skipped, Subgraph

SLOW = 1.03
"""Ratio of times from which on compilation counts as a slow-down."""
Z95 = 1.959963984540054


@dataclass(frozen=True, slots=True, kw_only=True)
class LongTailConfig:
    """What counts as rare."""

    rare_share: float = 0.01
    """Largest share of the graph classes that contain a rare piece."""
    rare_bits: float = 8.0
    """Fewest bits of a rare op transition: one piece in 256."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A count of slow pieces among measured ones, with Wilson's 95% interval (1927)."""

    slow: int
    of: int

    @property
    def value(self) -> float:
        """The share; 0 of none."""
        return self.slow / self.of if self.of else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper end; (0, 1) of none."""
        if not self.of:
            return 0.0, 1.0
        spread = Z95**2 / self.of
        middle = (self.value + spread / 2) / (1 + spread)
        half = Z95 / (1 + spread) * math.sqrt(self.value * (1 - self.value) / self.of + spread / (4 * self.of))
        return max(0.0, middle - half), min(1.0, middle + half)


def slow_share(rows: Iterable[LongTail]) -> Share:
    """The slow pieces among rows."""
    found = list(rows)
    return Share(slow=sum(row.slow for row in found), of=len(found))


def classify(
    *,
    profiles: Collection[Profile],
    subgraphs: Iterable[Subgraph],
    classes: Collection[CanonicalGraph],
    config: LongTailConfig,
) -> Iterator[LongTail | Skipped]:
    """One row a timed profile, by key."""
    timed = []
    for row in profiles:
        if row.status is ProfileStatus.MEASURED and not row.recompiles:
            timed.append(row)
        else:
            reason = (
                "compiled values are wrong" if row.status is not ProfileStatus.MEASURED else "recompiled while timed"
            )
            yield Skipped(item=row.subgraph, reason=reason)
    wanted = {row.subgraph for row in timed}
    counts: Counter[tuple[str, str]] = Counter()
    pieces, total = {}, 0
    for piece in subgraphs:
        if piece.kind == FUSIBLE:
            total += 1
            counts.update(transitions(piece.graph))
        if piece.key in wanted:
            pieces[piece.key] = piece
    raw = [sign_test(row.inductor_samples_us, row.eager_samples_us) for row in timed]
    for row, p_value, q_value in zip(timed, raw, step_up(raw), strict=True):
        piece = pieces[row.subgraph]
        bits = max((math.log2(total / counts[pair]) for pair in transitions(piece.graph) if counts[pair]), default=0.0)
        yield _row(row, piece, _Rarity(bits=bits, classes=len(classes), config=config), (p_value, q_value))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rarity:
    """What a build says of how common a piece is."""

    bits: float
    classes: int
    config: LongTailConfig

    def is_rare(self, document_frequency: int) -> bool:
        few = document_frequency <= max(1.0, self.config.rare_share * self.classes)
        return few or self.bits >= self.config.rare_bits


def _row(row: Profile, piece: Subgraph, rarity: _Rarity, tests: tuple[float, float]) -> LongTail:
    slowdown, low, high = 1 / row.speedup, 1 / row.ci_high, 1 / row.ci_low
    slow, rare = low > SLOW, rarity.is_rare(piece.document_frequency)
    weight = math.log2(slowdown) * math.log2(1 + piece.document_frequency) if slow else 0.0
    return LongTail(
        subgraph=row.subgraph, environment=row.environment, settings=row.settings, pattern=piece.pattern, basis="e2e",
        document_frequency=piece.document_frequency, share=piece.document_frequency / max(1, rarity.classes),
        rarity_bits=rarity.bits, rare=rare, slowdown=slowdown, slowdown_low=low, slowdown_high=high, slow=slow,
        p_value=tests[0], q_value=tests[1], score=rarity.bits * weight, long_tail=rare and slow,
    )  # fmt: skip


def sign_test(slower_us: Sequence[float], base_us: Sequence[float], *, ratio: float = SLOW) -> float:
    """Exact one-sided sign test: chance of at least so many pairs with slower / base > ratio if half of them were."""
    above = sum(slower > ratio * base for slower, base in zip(slower_us, base_us, strict=True))
    pairs = len(base_us)
    return sum(math.comb(pairs, k) for k in range(above, pairs + 1)) / 2.0**pairs


def step_up(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's adjusted values: the smallest false-discovery rate at which each one is reported."""
    count = len(p_values)
    found, least = [1.0] * count, 1.0
    for rank, index in sorted(enumerate(sorted(range(count), key=p_values.__getitem__), start=1), reverse=True):
        least = min(least, p_values[index] * count / rank)
        found[index] = least
    return found
