"""The laws of identity on random programs: 500 graphs, or as many as PASSNET_LAW_GRAPHS says.

    PASSNET_LAW_GRAPHS=20000 pytest tests/schemas/test_identity_laws.py        # the long form, some minutes

Every program is written in another way (same bytes, same keys at every level) and edited once; whether the edit is told
apart is what networkx says, both ways.
"""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup.audit import isomorphic
from schemas.canonical import canonicalize
from schemas.forms import LEVELS
from schemas.graph import Graph, check
from schemas.normal import normalised
from tests.schemas.programs import edited, program, rewritten

pytestmark = pytest.mark.slow
GRAPHS = int(os.environ.get("PASSNET_LAW_GRAPHS", "500"))
SEEDS = st.integers(0, 2**63 - 1)


def keys_of(graph: Graph) -> list[str]:
    form = canonicalize(graph)
    assert not form.capped
    return [*(getattr(form.keys, level) for level in LEVELS)]


def bodies_of(graph: Graph) -> tuple[str, str]:
    return canonicalize(graph).body, canonicalize(normalised(graph, "inference")).key


@given(SEEDS)
@settings(max_examples=GRAPHS, deadline=None)
def test_identity_holds_its_laws(seed: int):
    graph = program(seed)
    check(graph)
    same, other = rewritten(graph, seed + 1), rewritten(edited(graph, seed + 2), seed + 3)
    check(same)
    assert keys_of(same) == keys_of(graph)
    assert bodies_of(same) == bodies_of(graph)
    assert canonicalize(canonicalize(same).graph).blob == canonicalize(graph).blob
    verdicts = [a == b for a, b in zip(keys_of(graph), keys_of(other), strict=True)]
    assert verdicts == sorted(verdicts), "equal at one level is equal at all later ones"
    assert verdicts[0] == isomorphic(graph, other)
    assert not verdicts[0] or bodies_of(graph) == bodies_of(other)
