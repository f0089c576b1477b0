"""The page of a run: it stands alone, its figures are those of the rows, and charts keep to their frames."""

import re
from xml.etree import ElementTree

import pytest

from data.chart import Bar, Dot, bars, cumulative, scatter
from data.store import Part, RunDirectory
from data.svg import Axis, shortened
from flows.mining_page import page
from fusion_mining.longtail import LongTailConfig, classify
from schemas.arrow import to_table
from schemas.rows import Environment
from tests.fusion_mining.test_longtail import PIECES, profile
from tests.fusion_mining.test_mine import class_row
from tests.schemas.drafts import Draft

pytestmark = pytest.mark.plain
PLACE = Environment(
    environment="e", device="cpu", processor="a <processor>", cores=2, threads=1, python="3.11", torch="2.14",
    triton="", system="Linux",
)  # fmt: skip


@pytest.fixture
def run(tmp_path):
    store = RunDirectory(tmp_path / "run")
    store.create()
    profiles = [profile("a", 1.5), profile("b", 0.5), profile("c", 1.0)]
    rows = list(classify(profiles=profiles, subgraphs=PIECES, classes=[None] * 9, config=LongTailConfig()))
    tables = {"profiles": profiles, "subgraphs": PIECES, "environments": [PLACE], "longtail": rows}
    store.write_parts([Part(table=n, index=0, data=to_table(r, type(r[0]))) for n, r in tables.items()])
    return store


def test_the_page_loads_nothing_and_states_the_share(run):
    text = page(run)
    assert not re.search(r"(src|href)=|url\(|@import", text)
    assert "33.3%" in text and "1 of 3" in text
    assert "a &lt;processor&gt;" in text and "<processor>" not in text
    for drawing in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(drawing)
    assert text.count("<svg") >= 4


def test_the_page_counts_the_ops_that_are_in_no_class(run):
    assert "0 ops, 0 calls in all" in page(run)
    d = Draft()
    y = d.call("torch.unheard_of<T>", d.call("torch.unheard_of<T>", d.input()))
    row = class_row(d.graph(d.call("torch.exp", y)))
    run.write_parts([Part(table="classes", index=0, data=to_table([row], type(row)))])
    text = page(run)
    assert "1 ops, 2 calls in all" in text
    assert "<td>torch.unheard_of&lt;T&gt;</td><td>2</td><td>1</td>" in text


def test_a_run_without_measurements_says_what_to_do(tmp_path):
    store = RunDirectory(tmp_path / "run")
    store.create()
    with pytest.raises(ValueError, match=r"nothing is measured in .*passnet"):
        page(store)


def numbers(text, name):
    return [float(value) for value in re.findall(rf' {name}="([-\d.]+)"', text)]


def test_marks_stay_inside_the_frame_in_order():
    dots = [Dot(x=10.0**k, y=1.0 + k, label=str(k), group="ab"[k % 2]) for k in range(6)]
    text = scatter(dots, Axis(title="x", log=True), Axis(title="y"))
    places = numbers(text, "cx")[:6]
    assert places == sorted(places) and places[0] >= 64 and places[-1] <= 624
    heights = numbers(text, "cy")[:6]
    assert heights == sorted(heights, reverse=True)
    assert text.count("<title>") == 6


def test_a_bar_is_as_long_as_its_value():
    axis = Axis(title="share", low=0.0, high=1.0, percent=True)
    text = bars(
        [Bar(label="a & b", value=0.5, low=0.25, high=0.75), Bar(label="c", value=1.0, low=0.5, high=1.0)], axis
    )
    first, second = numbers(text, "width")[:2]
    assert second == pytest.approx(2 * first, rel=0.01)
    assert "a &amp; b" in text and "50%" in text


def test_the_step_curve_ends_at_all_pieces_and_empty_charts_say_so():
    text = cumulative([2.0, 0.5, 1.0], Axis(title="speed-up", log=True), {1.0: "eager"})
    last = re.search(r'class="line c0" points="([^"]*)"', text)[1].split()[-1]
    assert float(last.split(",")[1]) == 12.0
    assert "nothing to draw" in scatter([], Axis(title="x"), Axis(title="y")) + bars([], Axis(title="x"))


def test_numbers_are_shortened():
    assert [shortened(v) for v in (0.04, 1234.0, 35e6, 2e9, 0.0)] == ["0.04", "1.23k", "35M", "2G", "0"]
