"""The Hub source against a stand-in Hub over real HTTP: listing, resume, faults, budgets, rebuilds."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from extract.hub import HubConfig, HubModel, collect_hub, read_listing, update_listing
from extract.hub_session import Budget, Policy, Session, TransientError
from schemas.rows import Failure, FailureKind
from tests.hub.population import BASES, FAULTS, Model, population
from tests.hub.server import HubServer, Settings

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parent.parent.parent
POLICY = Policy(timeout_s=3.0, backoff_s=0.05)
KNOWN = frozenset(base["model_type"] for base in BASES)
EXPECTED = {
    "malformed_json": FailureKind.MALFORMED_CONFIG, "huge": FailureKind.TOO_LARGE, "gated": FailureKind.GATED,
    "missing_config": FailureKind.MISSING_CONFIG, "private": FailureKind.REMOVED, "disabled": FailureKind.DISABLED,
}  # fmt: skip
"""What becomes of each fault that does not pass; models with any other give their configuration."""


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))


def collect(hub: HubServer, folder: Path, **settings) -> tuple[list[HubModel | Failure], Session]:
    refresh = settings.pop("refresh", False)
    config = HubConfig(**{"endpoint": hub.endpoint, "policy": POLICY, "page_size": 50, **settings})
    with Session(policy=config.policy, budget=Budget()) as session:
        rows = collect_hub(folder=folder, config=config, session=session, refresh=refresh, known_types=KNOWN)
        return list(rows), session


def expected_kind(model: Model) -> FailureKind | None:
    remote = "auto_map" in model.listed["config"]
    return EXPECTED.get(model.fault, FailureKind.REMOTE_CODE if remote else None)


def name_of(row: HubModel | Failure) -> str:
    return row.name if isinstance(row, Failure) else row.ref.name


def test_every_model_is_a_configuration_or_a_failure_of_the_right_kind(tmp_path: Path):
    models = population(size=160, seed=3, faults=0.06)
    assert {model.fault for model in models} == {"", *FAULTS}
    with HubServer(models, Settings(stall_s=3.5)) as hub:
        rows, session = collect(hub, tmp_path)
        assert [name_of(row) for row in rows] == [model.name for model in models]
        for row, model in zip(rows, models, strict=True):
            assert (row.kind if isinstance(row, Failure) else None) is expected_kind(model), model
            if isinstance(row, HubModel):
                assert row.config.encode() == model.config
                assert row.ref.revision == model.sha and row.ref.tags == tuple(model.listed["tags"])
        clean = [hub.resolved[model.name] for model in models if not model.fault]
        assert max(clean) == 2
        assert session.counts["api"] == hub.counts["list"]
        assert hub.counts["info"] == hub.counts["tree"] == 0
        spent = {m.name: hub.resolved[m.name] - hub.wasted[m.name] for m in models if m.fault != "wrong_length"}
        assert max(spent.values()) == 2

        before = sum(hub.counts.values())
        again, session = collect(hub, tmp_path)
        assert again == rows
        assert sum(hub.counts.values()) == before and not session.counts

        listed, session = collect(hub, tmp_path, refresh=True)
        assert listed == rows and set(session.counts) == {"api"}


def test_a_new_commit_is_fetched_and_the_old_ones_are_not(tmp_path: Path):
    models = population(size=20, seed=0, faults=0.0)
    with HubServer(models) as hub:
        collect(hub, tmp_path)
    moved = population(size=20, seed=1, faults=0.0)[7]
    with HubServer([*models[:7], moved, *models[8:]]) as hub:
        rows, _ = collect(hub, tmp_path, refresh=True)
        assert set(hub.resolved) <= {moved.name}
        assert rows[7].ref.revision == moved.sha


def test_a_server_that_stays_down_is_a_network_failure_and_the_next_run_asks_again(tmp_path: Path):
    (model,) = population(size=1, seed=0, faults=0.0)
    broken = Model(**{**{f: getattr(model, f) for f in Model.__slots__}, "fault": "error_503", "bad_answers": 4})
    with HubServer([broken]) as hub:
        policy = Policy(attempts=3, backoff_s=0.01, timeout_s=1.0)
        (row,), session = collect(hub, tmp_path, policy=policy)
        assert isinstance(row, Failure) and row.kind is FailureKind.NETWORK and "HTTP 503" in row.message
        assert session.counts["resolver"] == 3
        (row,), _ = collect(hub, tmp_path, policy=policy)
        assert isinstance(row, HubModel)


def test_filters_reach_the_server_and_limit_and_since_end_the_listing_early(tmp_path: Path):
    models = population(size=240, seed=0, faults=0.0)
    with HubServer(models) as hub:
        rows, _ = collect(hub, tmp_path, task="fill-mask", license="mit")
        found = [row.ref for row in rows if isinstance(row, HubModel)]
        assert found and {(ref.pipeline_tag, ref.license) for ref in found} == {("fill-mask", "mit")}
        hub.counts.clear()
        rows, _ = collect(hub, tmp_path, limit=60)
        assert len(rows) == 60 and hub.counts["list"] == 2
        hub.counts.clear()
        rows, _ = collect(hub, tmp_path, since="2026-11-01")
        dates = {model.listed["lastModified"][:7] for model in models if model.name in set(map(name_of, rows))}
        assert dates == {"2026-11", "2026-12"} and hub.counts["list"] == 1
        assert not hub.resolved.keys() - {model.name for model in models}


def test_listing_survives_bad_pages(tmp_path: Path):
    with HubServer(population(size=120, seed=0, faults=0.0), Settings(spoil_pages=4)) as hub:
        config = HubConfig(endpoint=hub.endpoint, page_size=50, policy=POLICY)
        with Session(policy=POLICY, budget=Budget()) as session:
            home = update_listing(folder=tmp_path, config=config, session=session)
        assert len(list(read_listing(home, config))) == 120
        assert session.counts["api"] == 4 + 3


KILLED = """
import sys
from pathlib import Path
from extract.hub import HubConfig, update_listing
from extract.hub_session import Budget, Policy, Session
config = HubConfig(endpoint=sys.argv[2], page_size=10)
with Session(policy=config.policy, budget=Budget()) as session:
    update_listing(folder=Path(sys.argv[1]), config=config, session=session)
"""


def test_a_listing_goes_on_after_kill_9(tmp_path: Path):
    models = population(size=200, seed=0, faults=0.0)
    with HubServer(models, Settings(page_delay_s=0.1)) as hub:
        command = [sys.executable, "-c", KILLED, str(tmp_path), hub.endpoint]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with subprocess.Popen(command, env=environment) as child:
            deadline = time.monotonic() + 60
            while hub.counts["list"] < 7 and child.poll() is None and time.monotonic() < deadline:
                time.sleep(0.01)
            child.send_signal(signal.SIGKILL)
        assert child.returncode == -signal.SIGKILL
        (cursor,) = tmp_path.glob("listing-*/cursor.json")
        assert 5 <= json.loads(cursor.read_text())["pages"] < 20
        subprocess.run(command, env=environment, check=True, timeout=60)
        assert hub.counts["list"] <= 21
        config = HubConfig(endpoint=hub.endpoint, page_size=10)
        names = [entry["id"] for entry in read_listing(cursor.parent, config)]
        assert names == [model.name for model in models]


def test_threads_keep_to_the_budget_that_the_server_states(tmp_path: Path):
    models = population(size=40, seed=0, faults=0.0)
    settings = Settings(quotas={"resolvers": 30, "api": 100}, window_s=2.0)
    with HubServer(models, settings) as hub:
        rows, session = collect(hub, tmp_path, threads=4)
        assert all(isinstance(row, HubModel) or row.kind is FailureKind.REMOTE_CODE for row in rows)
        assert hub.counts["limited"] <= 2 * 4, Counter(session.counts)


def test_a_link_to_another_host_is_not_followed(tmp_path: Path):
    with HubServer(population(size=30, seed=0, faults=0.0)) as elsewhere:
        with HubServer(population(size=30, seed=0, faults=0.0)) as hub:
            hub.link_base = elsewhere.endpoint
            rows, _ = collect(hub, tmp_path, page_size=10)
        assert len(rows) == 30 and not elsewhere.counts


def test_the_stand_in_speaks_to_the_library_s_own_client():
    from huggingface_hub import HfApi

    models = population(size=30, seed=0, faults=0.0)
    with HubServer(models, Settings(page_size=10)) as hub, Session(policy=POLICY, budget=Budget()):
        api = HfApi(endpoint=hub.endpoint)
        assert [found.id for found in api.list_models(expand=["sha"])] == [model.name for model in models]
        assert hub.counts["list"] == 3
        assert api.model_info(models[3].name).sha == models[3].sha
        assert [found.path for found in api.list_repo_tree(models[3].name)] == ["config.json"]


def test_a_session_asks_nothing_but_models_and_files():
    from huggingface_hub import get_session

    with HubServer([]) as hub, Session(policy=POLICY, budget=Budget()) as session:
        with pytest.raises(TransientError, match="not asked"):
            get_session().get(f"{hub.endpoint}/api/agent-harnesses")
        assert not session.counts and not hub.counts
