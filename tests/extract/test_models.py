"""The pick of models: strata, seeds, selections, and the hand-kept tables behind them."""

import subprocess
import sys

import pytest

from extract.catalog import OTHER, STRATA, load_catalog, place
from extract.models import ModelsConfig, matches, pick
from schemas.rows import ModelRef

pytestmark = pytest.mark.plain


def ref(name: str, modality: str) -> ModelRef:
    family = name.split("/")[0]
    return ModelRef(
        model=name, source="installed", name=name, revision="r", library="transformers", family=family,
        modality=modality, pipeline_tag="", license="apache-2.0", gated=False, downloads=0, tags=(),
    )  # fmt: skip


CURATED = [ref(name, stratum) for stratum, names in load_catalog().defaults.items() for name in names]
POOL = [
    *CURATED,
    *[ref(f"extra{k}/Extra{k}Model", STRATA[k % len(STRATA)]) for k in range(200)],
    *[ref(f"odd{k}/Odd{k}Model", OTHER) for k in range(5)],
]


def names(**settings) -> list[str]:
    return [row.name for row in pick(POOL, config=ModelsConfig(**settings), catalog=load_catalog())]


def test_every_stratum_has_curated_names_and_no_name_stands_twice():
    catalog = load_catalog()
    assert tuple(catalog.defaults) == STRATA
    assert all(len(found) >= 4 for found in catalog.defaults.values())
    assert len({row.name for row in CURATED}) == len(CURATED)


def test_default_pick_is_curated_and_spread_over_all_strata():
    chosen = pick(POOL, config=ModelsConfig(), catalog=load_catalog())
    assert len(chosen) == 40
    curated = {row.name for row in CURATED}
    assert {row.name for row in chosen} <= curated
    counts = [sum(row.modality == stratum for row in chosen) for stratum in STRATA]
    assert max(counts) - min(counts) <= 1


def test_pick_does_not_depend_on_the_order_of_the_pool():
    forwards = names(limit=100, seed=3)
    backwards = pick(POOL[::-1], config=ModelsConfig(limit=100, seed=3), catalog=load_catalog())
    assert forwards == [row.name for row in backwards]


def test_seed_reorders_only_what_is_not_curated():
    assert names(limit=40, seed=0) == names(limit=40, seed=1)
    assert names(limit=150, seed=0) != names(limit=150, seed=1)


def test_a_larger_limit_only_adds():
    assert names(limit=90)[:40] == names(limit=40)


def test_models_of_no_stratum_come_last():
    everything = names(limit=10_000)
    assert len(everything) == len(POOL)
    assert all(name.startswith("odd") for name in everything[-5:])


def test_select_takes_globs_on_either_side_of_the_slash():
    assert names(select=("bert",)) == ["bert/BertModel"]
    assert names(select=("resnet50",)) == ["timm/resnet50"]
    assert names(select=("timm/*",)) and all(name.startswith("timm/") for name in names(select=("timm/*",)))
    assert matches("bert/BertModel", "bert*") and not matches("roberta/RobertaModel", "bert*")


def test_select_of_nothing_names_close_matches_in_one_line():
    with pytest.raises(ValueError, match=r"no model is named 'bret'.*close: .*bert") as caught:
        names(select=("bert", "bret"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("settings", [{"sources": ("hub?",)}, {"limit": 0}])
def test_settings_that_mean_nothing_are_refused(settings):
    with pytest.raises(ValueError):
        ModelsConfig(**settings)


def test_families_are_placed_by_the_first_glob_that_fits():
    table = load_catalog().families
    assert place("qwen2_moe", table) == "moe"
    assert place("falcon_mamba", table) == "state-space"
    assert place("no_such_family", table) is None


def test_importing_the_listing_stages_loads_no_torch():
    code = "import sys, extract.models, extract.configs, extract.failures; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
