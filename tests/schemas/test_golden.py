"""Real graphs with frozen keys: identity is the same under every version of torch, hash seed and process."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from benchmarks.golden import GRAPHS, RECIPES, keys_of, stored_graphs, stored_keys
from schemas.canonical import canonicalize
from schemas.forms import LEVELS
from schemas.graph import Graph, check
from schemas.normal import normalised

pytestmark = pytest.mark.plain
ROOT = Path(__file__).resolve().parents[2]
FEW = ("timm/vgg11", "bert-4-layers-hidden-states", "mixtral/MixtralModel", "whisper/WhisperModel")


@cache
def golden() -> dict[str, Graph]:
    return dict(stored_graphs())


def test_the_files_hold_what_the_recipes_say():
    labels = [recipe.label for recipe in RECIPES]
    assert list(golden()) == labels == list(stored_keys())
    assert len(labels) >= 60
    assert GRAPHS.stat().st_size < 1_000_000


def test_real_graphs_have_their_frozen_keys_at_every_level():
    frozen = stored_keys()
    wrong = [label for label, graph in golden().items() if keys_of(graph) != frozen[label]]
    assert not wrong, f"other keys: {wrong}; a change of identity raises TABLE_VERSION and is frozen with --rekey"


def test_no_real_graph_meets_the_bound_of_the_search():
    forms = [canonicalize(graph) for graph in golden().values()]
    assert not any(form.capped for form in forms)


@pytest.mark.parametrize("seed", ["0", "1"])
def test_keys_do_not_depend_on_process_or_hash_seed(seed: str):
    code = (
        "import json; from benchmarks.golden import *\n"
        f"print(json.dumps({{k: keys_of(g) for k, g in stored_graphs() if k in {FEW!r}}}))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(done.stdout) == {label: stored_keys()[label] for label in FEW}


# --- golden pairs ---------------------------------------------------------------------------------------------------
def agreement(left: str, right: str) -> list[str]:
    """The keys that two golden graphs share."""
    a, b = stored_keys()[left], stored_keys()[right]
    return [name for name in a if a[name] == b[name]]


def test_resnet50_of_timm_and_of_transformers_are_one_after_normalisation():
    assert agreement("timm/resnet50", "resnet/ResNetForImageClassification") == ["inference"]


def test_bert_with_and_without_hidden_states_differ_as_graphs_and_agree_as_bodies():
    assert agreement("bert-4-layers", "bert-4-layers-hidden-states") == ["body"]


def test_the_two_gelus_of_gemma_differ_in_all_but_topology():
    assert agreement("gemma-2-layers", "gemma-2-layers-erf") == ["topology"]


@pytest.mark.parametrize(
    ("left", "right"), [("timm/regnetx_006", "timm/regnetx_008"), ("timm/regnetx_320", "timm/regnetx_080")]
)
def test_regnets_with_permuted_stages_differ_at_every_level(left: str, right: str):
    assert agreement(left, right) == []


def test_normalising_twice_is_normalising_once_and_legal():
    for graph in golden().values():
        once = normalised(graph, "inference")
        check(once)
        assert normalised(once, "inference") == once


def test_unknown_normalisations_are_refused():
    with pytest.raises(ValueError, match="captured, inference"):
        normalised(golden()["timm/vgg11"], "everything")


def test_every_level_is_frozen():
    assert all(set(keys) == {*LEVELS, "body", "inference"} for keys in stored_keys().values())
