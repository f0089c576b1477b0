"""benchmarks.identity_versions: a real capture keeps its keys, one changed op is reported with its place."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import identity_versions
from benchmarks.golden import stored_graphs, stored_keys

pytestmark = pytest.mark.torch
LABEL = "mixtral/MixtralModel"


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["identity_versions", *arguments])
    identity_versions.main()


def test_a_capture_of_the_installed_torch_has_the_frozen_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    pytest.importorskip("transformers")
    other = tmp_path / "other.json"
    frozen = {"torch": "0", "transformers": "0", "keys": {LABEL: stored_keys()[LABEL]}, "failed": {}}
    other.write_text(json.dumps(frozen), encoding="utf-8")
    run(monkeypatch, "--write", str(tmp_path / "a.json"), "--compare", str(other), "--only", LABEL, "--json")
    found = json.loads(capsys.readouterr().out)
    assert (found["compared"], found["equal_exact"], found["equal_inference"]) == (1, 1, 1)
    assert found["missing"] == [] and found["differing"] == {} and found["failed"] == {}
    assert found["golden_checked"] == found["golden_equal"] == len(stored_keys())
    written = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert written["keys"] == frozen["keys"]
    assert found["torch"] == written["torch"] != found["other"]


def test_a_changed_op_is_counted_and_shown():
    graph = dict(stored_graphs())[LABEL]
    place = next(place for place, node in enumerate(graph.nodes) if "softmax" in node.target)
    nodes = list(graph.nodes)
    nodes[place] = replace(nodes[place], target="torch.nn.functional.log_softmax")
    changed = replace(graph, nodes=tuple(nodes))
    side = {"torch": "a", "transformers": "a", "failed": {}}
    ours = {**side, "keys": {LABEL: identity_versions.keys_of(changed)}}
    theirs = {**side, "keys": {LABEL: stored_keys()[LABEL], "only-there": {}}}
    found = identity_versions.report(ours, theirs, {LABEL: changed})
    assert (found["compared"], found["equal_exact"], found["equal_structure"]) == (1, 0, 0)
    assert found["missing"] == ["only-there"]
    assert "exact" in found["differing"][LABEL]["levels"]
    assert any("log_softmax" in line for line in found["differing"][LABEL]["first"] if line.startswith("  A"))


@pytest.mark.parametrize("text", ["", "[]", '{"torch": "2"}'])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, text: str):
    path = tmp_path / "bad.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="write it with --write"):
        identity_versions.read_file(path)
