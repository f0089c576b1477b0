"""Rows of identity: one a class of equal graphs, one a member, one that says what a class is close to.

Is: `CanonicalGraph`, `Member`, `Relation`; import them from `schemas.rows`, where all row types are. Reads and writes
nothing.
"""

from dataclasses import dataclass
from typing import ClassVar

from schemas.graph import Graph


@dataclass(frozen=True, slots=True, kw_only=True)
class CanonicalGraph:
    """One class of equal graphs, relabelled canonically; all identity levels as keys."""

    KEY: ClassVar[tuple[str, ...]] = ("key",)
    key: str
    """Exact level: ops, attributes, shapes, dtypes, wiring."""
    shape_free: str
    """As exact, with dimensions and integers in shape positions replaced by equality classes."""
    dtype_free: str
    """As shape_free, with dtypes masked."""
    structure: str
    """As dtype_free, with all numeric literals masked."""
    topology: str
    """Ops and wiring only."""
    body: str
    """Exact key with the sinks for outputs: equal if only intermediate values are returned as well."""
    inference: str
    """Exact key after the normalisation `inference` (`schemas.normal`): eval dropout and other idle calls absent."""
    members: int
    """Number of graphs in the class."""
    architectures: int
    """Number of distinct architecture keys among them: the document frequency of the class."""
    representative: str
    """graph_id of the member with the smallest (name, graph_id)."""
    name: str
    """The representative's name, for people."""
    family: str
    """The representative's family."""
    modality: str
    """The representative's modality."""
    license: str
    """The representative's licence, as in ModelRef."""
    num_nodes: int
    """Number of nodes."""
    num_ops: int
    """Number of call nodes."""
    graph: Graph
    """The canonical graph: nodes in canonical order, names derived from position and op."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """Which class a graph belongs to."""

    KEY: ClassVar[tuple[str, ...]] = ("graph_id",)
    graph_id: str
    """GraphRecord.graph_id."""
    key: str
    """CanonicalGraph.key."""
    architecture: str
    """The graph's architecture key."""
    family: str
    """The graph's family."""
    modality: str
    """The graph's modality."""
    license: str
    """The graph's licence, as in ModelRef."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """What a class is close to: its structure family and its cluster of near-duplicates, for splits."""

    KEY: ClassVar[tuple[str, ...]] = ("key",)
    key: str
    """CanonicalGraph.key."""
    structure: str
    """CanonicalGraph.structure: the family of classes that differ in numbers alone."""
    rank: int
    """Place in its family, 0 first: most members first, then by key."""
    contributes: bool
    """Whether the class is among those that its family gives to published splits; the others stay listed."""
    cluster: str
    """Smallest key of its cluster: classes whose shares of common op sequences reach the threshold, transitively."""
    cluster_size: int
    """Number of classes in the cluster."""
    nearest: str
    """Key of the most similar class outside its family; empty if none reaches the threshold."""
    similarity: float
    """Estimated share of op sequences that it has in common with `nearest` (Jaccard); 0 if there is none."""
