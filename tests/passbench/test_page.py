"""The report page: self-contained, escaped, with every part; highlighting and graph pictures lose no text."""

import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from typer.testing import CliRunner

from passbench.cli import app
from passbench.diagram import diagram
from passbench.entries import read_entries
from passbench.highlight import highlighted
from passbench.page import page
from passbench.score import PRESETS
from tests.passbench.stored_results import rows_of, task_named, write

pytestmark = pytest.mark.plain

GRAPH = {
    "before": [["x", "input", []], ["add", "operator.add", ["x"]], ["relu", "torch.relu", ["add"]],
               ["output", "output", ["relu"]]],
    "after": [["x", "input", []], ["fused", "add_relu", ["x"]], ["output", "output", ["fused"]]],
}  # fmt: skip
SOURCE = 'import torch\n\n\n@torch.fx.wrap\ndef f(x):  # a <b> & "c"\n    return x + 1.5  # end\n'
VOID = {"meta", "br", "hr"}


class Balance(HTMLParser):
    """Collects tags that are never closed, and every attribute that names something outside."""

    def __init__(self):
        super().__init__()
        self.open, self.wrong, self.outside = [], [], []

    def handle_starttag(self, tag, attrs):
        self.outside += [value for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]
        self.outside += [tag] * (tag in ("script", "link", "iframe", "img", "object"))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def made(folder):
    rows = rows_of("t0", [1.5, 0.8, 2.0, "INTEGRITY", "WRONG_VALUE", 1.1, 1.0, 1.2, 1.3])
    rows[3] = replace(rows[3], rule="ghost", detail="<script>alert(1)</script>")
    rows = [replace(row, inductor_speedup=1.25) for row in rows]
    times = [{"index": 0, "side": "candidate", "eager_us": [10.0, 10.1, 10.2, 9.9, 10.0] * 3, "side_us": [7.0] * 15}]
    numerics = [{"index": 0, "error": 2e-7, "eager_error": 1e-7}]
    write(folder, task_named("t0", 9), rows, timings=times, numerics=numerics)
    for path, text in (("submission/fuse.py", SOURCE), ("artifacts/000/graph.json", json.dumps(GRAPH)),
                       ("artifacts/000/inductor.py", "kernel = '<generated>'\n")):  # fmt: skip
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return read_entries(folder, PRESETS["passnet"])


def test_a_page_needs_nothing_else_and_is_well_formed(tmp_path):
    text = page(made(tmp_path / "a"))
    found = Balance()
    found.feed(text)
    assert found.wrong == found.open == found.outside == []
    assert "url(" not in text and "@import" not in text and "http" not in re.sub(r"http-equiv", "", text)


def test_every_part_is_there_and_says_what_the_rows_say(tmp_path):
    text = page(made(tmp_path / "a"))
    for part in ("Error-aware speed-up", "fast_p", "Subgraphs", "Integrity", "Environment", "Every subgraph",
                 "Graph before and after", "Passes", "Generated kernels"):  # fmt: skip
        assert f"<h2>{part}</h2>" in text, part
    assert "PASSED 7" in text and "INTEGRITY(ghost)" in text and "landlock" in text and "Abacus 3" in text
    assert 'class="band one"' in text and text.count('class="whisker one"') == 7
    assert "2.00×" in text  # the error against eager's own
    assert "prefers-color-scheme:dark" in text


def test_a_page_without_speeds_says_what_gives_them_and_draws_no_axis(tmp_path):
    rows = [replace(row, speed_measured=False, speedup=None) for row in rows_of("t0", [1.0, 1.0])]
    write(tmp_path / "a", task_named("t0", 2), rows)
    text = page(read_entries(tmp_path / "a", PRESETS["passnet"], unit_speed=True))
    assert text.count("No row has a speed, which needs a GPU here") == 2 and "passbench run --device cuda" in text
    assert "Left out for want of it: speed-up, over Inductor, capped score. No figure: error, noise.</p>" in text
    assert "speed-up over eager" not in text and "<span>–</span>" not in text
    write(tmp_path / "b", task_named("t0", 2), [replace(row, inductor_speedup=1.25) for row in rows])
    text = page(read_entries(tmp_path / "b", PRESETS["passnet"], unit_speed=True))
    assert "measures it. Diamond: default Inductor." in text and "speed-up over eager" in text
    assert "No figure: error, noise. Inductor alone: 1.25×" in text
    write(tmp_path / "c", task_named("t0", 2), rows_of("t0", ["WRONG_VALUE", "OOM"]))
    text = page(read_entries(tmp_path / "c", PRESETS["passnet"]))
    assert "No row has a speed: only a correct subgraph is timed, and none is." in text


def test_text_of_a_submission_never_becomes_markup(tmp_path):
    text = page(made(tmp_path / "a"))
    assert "<script" not in text and "&lt;script&gt;" in text and "&lt;generated&gt;" in text


@pytest.mark.parametrize("source", [SOURCE, "def (:\n  '''open\n<x>", "", "\tif x:\n  y", "x = '\\\n'\n", "é = 'ü'\n"])
def test_highlighting_keeps_every_character(source):
    plain = re.sub(r"</?i[^>]*>", "", highlighted(source))
    assert html.unescape(plain) == source


def test_highlighting_marks_keywords_strings_comments():
    found = highlighted(SOURCE)
    assert "<i class=k>def</i>" in found and "<i class=n>1.5</i>" in found and "<i class=c># end</i>" in found


def test_the_graph_picture_marks_what_went_and_what_came():
    found = diagram(GRAPH)
    assert found.count('class="node gone"') == 2 and found.count('class="node made"') == 1
    assert found.count('class="node kept"') == 4 and "before: 4 nodes" in found and "after: 3 nodes" in found
    long = [["x", "input", []], *([f"n{k}", "torch.relu", [f"n{k - 1}" if k else "x"]] for k in range(300))]
    assert "273 not drawn" in diagram({"before": long, "after": long})
    with pytest.raises(ValueError, match="outline"):
        diagram({"before": [["x"]], "after": []})


def test_several_tasks_make_one_page_and_several_submissions_none(tmp_path):
    for k in range(9):
        write(tmp_path / f"t{k}", task_named(f"t{k}", 2), rows_of(f"t{k}", [1.0 + k / 10, 1.2]))
    out = tmp_path / "page.html"
    done = CliRunner().invoke(app, ["report", str(tmp_path), "-o", str(out)])
    assert done.exit_code == 0 and "9 tasks" in out.read_text() and "<h2>Tasks</h2>" in out.read_text()
    write(tmp_path / "other", task_named("t9", 1), rows_of("t9", [1.0], submission="other"))
    done = CliRunner().invoke(app, ["report", str(tmp_path), "-o", str(out)])
    assert done.exit_code == 2 and "one submission, 2 were given" in done.output


def test_a_task_that_the_harness_failed_on_is_shown_as_void(tmp_path):
    rows = rows_of("t0", [1.5, "HARNESS_ERROR"])
    write(tmp_path / "t0", task_named("t0", 2), rows)
    write(tmp_path / "t1", task_named("t1", 2), rows_of("t1", [1.5, 1.2]))
    for folder in (tmp_path, tmp_path / "t0"):
        text = page(read_entries(folder, PRESETS["passnet"], unit_speed=True))
        assert "the harness failed on 1 of 2 subgraphs" in text and "<b>score</b><span>void</span>" in text
    assert "<b>score</b><span>void</span>" not in page(read_entries(tmp_path / "t1", PRESETS["passnet"]))
