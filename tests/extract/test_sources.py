"""Sources beside the installed libraries, through the stages that use them: a Hub over real HTTP, sample folders."""

from pathlib import Path

import pytest

from data.store import RunDirectory
from extract.configs import ConfigsConfig, resolve_configs
from extract.models import ModelsConfig, list_models
from extract.trace import TraceConfig, trace
from flows.build import Plan, build
from flows.config import BuildConfig
from schemas.rows import ConfigLink, Failure, FailureKind, GraphRecord, ModelConfig, ModelRef
from tests.hub.population import population
from tests.hub.server import HubServer, Settings

pytestmark = pytest.mark.build
SAMPLES = Path(__file__).parent / "samples"


def built(path: Path, stage: str, config: BuildConfig) -> RunDirectory:
    build(path, config, Plan(engine="local", only=stage))
    return RunDirectory(path)


def test_a_build_lists_a_hub_and_traces_each_configuration_once(tmp_path, monkeypatch):
    models = population(size=40, seed=1, faults=0.03)
    with HubServer(models, Settings(stall_s=12.0)) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
        monkeypatch.setenv("PASSNET_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
        config = BuildConfig(limit=40, settings={"models": {"sources": ["hub"]}})
        built(tmp_path / "run", "models", config)
        store = built(tmp_path / "run", "configs", config)
        asked = sum(hub.counts.values())
        built(tmp_path / "again", "models", config)
        assert sum(hub.counts.values()) == asked, "a rebuild asks for nothing"
    refs, links = store.read_table("models"), store.read_table("links")
    failures = [*store.iter_rows("models.failures"), *store.iter_rows("configs.failures")]
    assert len(refs) + store.count("models.failures") == 40 and not any(
        row.kind is FailureKind.UNKNOWN for row in failures
    )
    assert len(links) + store.count("configs.failures") == len(refs)
    assert 0 < store.count("configs") < len(links), "fine-tunes of one configuration share an architecture"
    row = store.read_table("configs")[0]
    assert row.library == "transformers" and row.class_name[0].isupper() and "_name_or_path" not in row.config


def test_sample_folders_become_graphs_without_running_their_code():
    refs = list(list_models(config=ModelsConfig(sources=("graphs",), samples=str(SAMPLES))))
    assert [row.name for row in refs] == sorted(path.name for path in SAMPLES.iterdir() if path.is_dir())
    assert all(isinstance(row, ModelRef) and row.source == "graphs" for row in refs)
    rows = list(resolve_configs(models=refs, config=ConfigsConfig()))
    links = [row for row in rows if isinstance(row, ConfigLink)]
    configs = [row for row in rows if isinstance(row, ModelConfig)]
    assert len(links) == len(refs) and len(configs) == len({row.revision for row in refs})
    for row in configs:
        (found,) = trace(row, TraceConfig(samples=str(SAMPLES)))
        assert isinstance(found, GraphRecord), found
        assert found.capture == "sample" and found.num_ops > 0


def test_a_malformed_sample_is_a_failure_of_one_line(tmp_path):
    folder = tmp_path / "bad"
    folder.mkdir()
    (folder / "model.py").write_text("import os\nos.abort()\n")
    (ref,) = list_models(config=ModelsConfig(sources=("graphs",), samples=str(tmp_path)))
    row = next(item for item in resolve_configs(models=[ref], config=ConfigsConfig()) if isinstance(item, ModelConfig))
    (failure,) = trace(row, TraceConfig(samples=str(tmp_path)))
    assert isinstance(failure, Failure) and failure.kind is not FailureKind.UNKNOWN
    assert failure.message and "\n" not in failure.message


def test_settings_of_sources_are_checked():
    with pytest.raises(ValueError, match="--samples FOLDER"):
        ModelsConfig(sources=("graphs",))
    with pytest.raises(ValueError, match="unknown source"):
        ModelsConfig(sources=("elsewhere",))
    with pytest.raises(ValueError, match="no folder of samples"):
        list(list_models(config=ModelsConfig(sources=("graphs",), samples="/no/such/folder")))
