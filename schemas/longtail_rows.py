"""The row of the long tail: one a measured piece, how rare it is and how much slower compilation made it.

Is: `LongTail`; import it from `schemas.rows`, where all row types are. Reads and writes nothing.
"""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class LongTail:
    """What one measurement says of a piece; formulas in `fusion_mining.longtail`."""

    KEY: ClassVar[tuple[str, ...]] = ("subgraph", "environment", "settings")
    subgraph: str
    """Subgraph.key."""
    environment: str
    """Environment.environment of the measurement."""
    settings: str
    """Profile.settings of the measurement."""
    pattern: str
    """As in Subgraph."""
    basis: str
    """Which time was compared: e2e, the host's end-to-end time a call."""
    document_frequency: int
    """Number of graph classes that contain the piece."""
    share: float
    """document_frequency over the number of graph classes of the build."""
    rarity_bits: float
    """Largest -log2 of the share of pieces that contain one of its op transitions."""
    rare: bool
    """Whether it stands in few classes, or has a rare transition."""
    slowdown: float
    """Inductor / eager."""
    slowdown_low: float
    """Lower end of its 95% interval."""
    slowdown_high: float
    """Upper end of it."""
    slow: bool
    """Whether the whole interval lies beyond 1.03."""
    p_value: float
    """Exact one-sided sign test over the pairs: chance of as many pairs slower than 1.03 if the median were 1.03."""
    q_value: float
    """p_value after Benjamini and Hochberg over all measured pieces: expected share of false ones up to here."""
    score: float
    """rarity_bits * log2(slowdown) * log2(1 + document_frequency) if slow, else 0."""
    long_tail: bool
    """Whether it is rare and slow."""
