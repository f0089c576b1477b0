"""What charts are made of: ticks inside their axis and few, places in order, texts escaped."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from data.svg import Axis, Frame, cut, words

pytestmark = pytest.mark.plain
FRAME = Frame(width=520, height=300, left=56)


@given(
    low=st.floats(1e-6, 1e6),
    factor=st.floats(1.0, 1e7),
    log=st.booleans(),
    inside=st.lists(st.floats(0, 1), max_size=5),
)
@example(low=0.3, factor=1.0, log=False, inside=[])
@example(low=0.1, factor=3.0, log=False, inside=[])
def test_ticks_are_few_and_values_keep_their_order(low, factor, log, inside):
    scale = FRAME.across(Axis(title="x", log=log), [low, low * factor])
    ticks = scale.ticks()
    assert len(ticks) <= 14 and all(scale.low <= tick <= scale.high for tick in ticks)
    places = [scale.at(low * factor**share) for share in sorted(inside)]
    assert places == sorted(places) and all(56 <= place <= 504 for place in places)
    assert scale.at(scale.low - 1.0) == 56 and scale.at(scale.high + 1.0) == 504


def test_ends_that_are_given_hold_and_a_legend_needs_two_names():
    across, up, grid = FRAME.axes(Axis(title="a <b>"), Axis(title="share", low=0.0, high=1.0, percent=True), [(3, 0.2)])
    assert (up.low, up.high, up.text(0.25), across.low, across.high) == (0.0, 1.0, "25%", 2.5, 3.5)
    assert "a &lt;b&gt;" in grid and ">40%<" in grid
    assert FRAME.legend([("one", "c0")]) == "" and FRAME.legend([("one", "c0"), ("two", "c1")]).count("circle") == 2


def test_texts_are_cut_and_escaped():
    assert cut("abcdef", 4) == "abc\u2026" and cut("abcd", 4) == "abcd"
    assert words(1, 2, "<x>") == '<text class="tick" x="1.0" y="2.0" text-anchor="start">&lt;x&gt;</text>'
