"""Foreign text made plain: whatever it holds, a file, a table and a terminal take it."""

import unicodedata

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.text import MAX_MARKS, plain

pytestmark = pytest.mark.plain


@pytest.mark.parametrize(
    "text, found",
    [
        ("a plain text: 1 < 2 µs, naïve 注意 😀", "a plain text: 1 < 2 µs, naïve 注意 😀"),
        ("bad \ud800 text", "bad � text"),
        ("\x1b[2J\x1b]0;title\x07", "�[2J�]0;title�"),
        ("a\x00b\x7fc\x9bd", "a�b�c�d"),
        ("a\tb\nc\r\nd", "a b c  d"),
        ("\u202eevil\u2066x\u200b", "�evil�x�"),
        ("one\u2028two\ue000\uffff", "one�two��"),
    ],
)
def test_what_is_not_plain_is_replaced_and_the_rest_stays(text, found):
    assert plain(text) == found


def test_a_long_text_is_cut_and_marks_do_not_pile_up():
    assert plain("x" * 10, 4) == "xxx…" and plain("xxxx", 4) == "xxxx" and plain("x" * 10, 0) == "…"
    assert plain("a" + "\u0301" * 100) == "a" + "\u0301" * MAX_MARKS


@given(st.text(st.characters(), max_size=40), st.integers(1, 30))
def test_any_text_becomes_one_that_everything_holds(text, limit):
    found = plain(text, limit)
    assert len(found) <= limit and plain(found) == found
    assert found.encode("utf-8").decode("utf-8") == found == pa.array([found])[0].as_py()
    assert not any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in found)
