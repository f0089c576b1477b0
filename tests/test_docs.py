"""The documents are true: generated blocks are fresh, every verb is documented and has help, every path exists."""

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from benchmarks.readme import replaced, stages_block
from flows.cli import app as passnet
from passbench.cli import app as passbench

pytestmark = pytest.mark.plain
ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
APPS = {"passnet": get_command(passnet), "passbench": get_command(passbench)}
VERBS = [(app, verb) for app, command in APPS.items() for verb in command.commands]  # type: ignore[attr-defined]


def shell_lines() -> list[str]:
    blocks = re.findall(r"```bash\n(.*?)```", README, re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def test_the_stage_table_is_fresh():
    assert replaced(README, "stages", stages_block()) == README, "run python -m benchmarks.readme --write"


@pytest.mark.parametrize(("app", "verb"), VERBS)
def test_every_verb_is_in_the_readme_and_has_help(app: str, verb: str):
    command = APPS[app].commands[verb]  # type: ignore[attr-defined]
    assert command.help and len(command.help) > 20
    assert f"{app} {verb}" in README
    for parameter in command.params:
        assert getattr(parameter, "help", None), f"{app} {verb} {parameter.name} has no help"


@pytest.mark.parametrize("line", [x for x in shell_lines() if x.split()[0] in APPS])
def test_every_command_of_the_readme_parses(line: str):
    app, verb, *rest = shlex.split(line, comments=True)
    command = APPS[app].commands[verb]  # type: ignore[attr-defined]
    command.make_context(verb, rest, resilient_parsing=False)


def test_every_make_target_and_path_of_the_readme_exists():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`?make (\w+)", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for path in re.findall(r"`((?:[a-z_]+/)+[a-z_]+(?:\.\w+)?)`", README):
        assert (ROOT / path).exists(), path
    for folder in re.findall(r"^([a-z_]+)/  +", README, re.MULTILINE):
        assert (ROOT / folder).is_dir(), folder


def test_the_project_names_no_machine():
    for path in ROOT.rglob("*"):
        hidden = any(
            part.startswith(".") or part in ("runs", "build", "__pycache__") for part in path.parts[len(ROOT.parts) :]
        )
        if hidden or path.suffix not in (".py", ".md", ".toml", ".txt") or "egg-info" in str(path):
            continue
        text = path.read_text(encoding="utf-8")
        for banned in ("/" + "work/", "/" + "root/"):
            assert banned not in text, f"{path.relative_to(ROOT)} names {banned}"
