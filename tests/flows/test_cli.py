"""The command line: help that teaches, one red line for a wrong input, rows that a person can read."""

import contextlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.build import Plan, build
from flows.cli import app
from flows.config import BuildConfig
from flows.orchestrate import configured_server
from flows.stages import STAGES
from tests.flows.toy import TOY

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parent.parent.parent
VERBS = ("build", "run", "status", "show", "same", "find", "doctor")


def passnet(*words: str) -> tuple[int, str, str]:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, list(words), prog_name="passnet")
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def toy_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "run"
    config = BuildConfig(settings={"models": {"names": ["a", "b", "key-error", "os-exit"]}})
    build(path, config, Plan(stages=TOY, publish=""))
    return path


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(verb: str) -> None:
    code, out, _ = passnet(verb, "--help")
    assert code == 0
    assert f"passnet {verb}" in out
    assert "--out" in out


def test_all_stages_are_named_in_the_help_of_run() -> None:
    _, out, _ = passnet("run", "--help")
    words = out.replace("│", " ").split()
    assert all(stage.name in " ".join(words) for stage in STAGES)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("build", "--preset", "big"), "error: no preset is called 'big'; the presets are default, small"),
        (("build", "--limit", "0"), "error: limit is the number of models, so it is at least 1, not 0"),
        (("build", "--set", "seed=1"), "error: a setting reads STAGE.FIELD=VALUE, for instance graphs.seed=1, not"),
        (("build", "--out", "/dev/null/x"), "error: cannot write /dev/null/x: a part of the path is a file"),
        (("run", "grphs"), "error: no stage is called 'grphs'; the stages are models, "),
        (
            ("run", "graphs", "--out", "nowhere"),
            "error: nowhere is no run directory: run `passnet build --out nowhere`",
        ),
        (("status", "--out", "nowhere"), "error: nowhere is no run directory"),
        (("show", "models", "--out", "nowhere"), "error: nowhere is no run directory"),
    ],
)
def test_a_wrong_input_is_one_line_and_exit_code_2(words: tuple[str, ...], line: str) -> None:
    code, out, err = passnet(*words)
    assert code == 2
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    assert err.startswith(line)


def test_an_unknown_engine_and_a_wrong_stage_setting_are_one_line(tmp_path: Path) -> None:
    code, _, err = passnet("build", "--engine", "ray", "--out", str(tmp_path / "run"))
    assert (code, err.strip()) == (2, "error: no engine is called 'ray'; the engines are prefect and local")
    code, _, err = passnet("build", "--engine", "local", "--set", "grphs.x=1", "--out", str(tmp_path / "run"))
    assert (code, err.strip()) == (2, "error: settings for grphs: no such stage")


def test_status_shows_the_funnel(toy_run: Path) -> None:
    code, out, _ = passnet("status", "--out", str(toy_run))
    assert code == 0
    assert "configs: 1 failed: build_error" in out
    assert "configs: 1 failed: crash" in out
    assert "not finished: `passnet build` continues it" in out


def test_show_lists_and_prints_one_row(toy_run: Path) -> None:
    _, out, _ = passnet("show", "configs", "--out", str(toy_run))
    assert "arch-a" in out
    assert "arch-b" in out
    _, out, _ = passnet("show", "configs", "arch-b", "--out", str(toy_run))
    assert "class_name: b" in out


def test_show_says_what_to_do_about_a_failure(toy_run: Path) -> None:
    _, out, _ = passnet("show", "configs.failures", "key-error", "--out", str(toy_run))
    assert "kind: build_error" in out
    assert "what to do: read the detail" in out


def test_show_of_nothing_says_what_there_is(toy_run: Path) -> None:
    code, _, err = passnet("show", "configs", "zzz", "--out", str(toy_run))
    assert code == 2
    assert "no row of 'configs' has a key or name that begins with 'zzz'" in err
    code, _, err = passnet("show", "graphs", "--out", str(toy_run))
    assert code == 2
    assert "has no rows in 'graphs'" in err


def test_doctor_prints_json_and_needs_no_network() -> None:
    code, out, _ = passnet("doctor", "--json")
    found = json.loads(out)
    assert code in (0, 1)
    assert found["python"]["ok"]
    assert "hub" not in found
    assert {"torch", "c++ compiler", "disk", "memory", "prefect server"} <= set(found)


def test_the_prefect_server_is_the_one_that_was_configured(tmp_path: Path) -> None:
    profiles = tmp_path / "profiles.toml"
    profiles.write_text('active = "team"\n[profiles.team]\nPREFECT_API_URL = "http://team:4200/api"\n[profiles.none]\n')
    assert configured_server({"PREFECT_HOME": str(tmp_path)}) == "http://team:4200/api"
    assert configured_server({"PREFECT_HOME": str(tmp_path), "PREFECT_PROFILE": "none"}) == ""
    assert configured_server({"PREFECT_API_URL": "http://x/api", "PREFECT_HOME": str(tmp_path)}) == "http://x/api"
    assert configured_server({"PREFECT_HOME": str(tmp_path / "absent")}) == ""


def test_a_build_without_a_terminal_prints_quiet_lines(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from rich.console import Console; from flows.progress import watcher\n"
        "from flows.build import Plan, build; from flows.config import BuildConfig; from tests.flows.toy import TOY\n"
        "with watcher(Console(stderr=True)) as w: build(Path(sys.argv[1]), BuildConfig(), Plan(stages=TOY, publish='',"
        " observer=w))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, str(tmp_path / "run")]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.splitlines() == ["models: List.", "configs: 7 rows. Work.", "members: Group."]
    main, other = pty.openpty()
    with subprocess.Popen(command, cwd=ROOT, env=env, stderr=other):
        os.close(other)
        printed = b""
        with contextlib.suppress(OSError):  # how a terminal ends whose other side is closed
            while piece := os.read(main, 1 << 16):
                printed += piece
    text = printed.decode()
    os.close(main)
    assert "configs" in text
    assert "7/7" in text
