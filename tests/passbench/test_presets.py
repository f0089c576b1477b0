"""Every preset against a second implementation of the score, written from the definitions in 50 digits."""

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from passbench.presets import CLASS_MAPS, CLASSES, DEFAULT, PRESETS, WEIGHT_SETS, chosen
from passbench.published_log import parse_log, rescore
from passbench.score import VERDICT_CLASS, Outcome, scored
from schemas.rows import Verdict

pytestmark = pytest.mark.plain

DEFINED = {
    # name: (p, b, {class: tolerated from}, {level: weight})
    "published": (0, Fraction(1, 10),
                  {"accuracy": 1, "non_finite": 1, "mismatch": 3, "runtime": 3, "compile": 3}, "new"),
    "paper": (Fraction(1, 10), Fraction(1, 10),
              {"accuracy": 1, "non_finite": 1, "mismatch": 1, "runtime": 2, "compile": 3}, "new"),
    "passnet": (0, Fraction(1, 1000),
                {"accuracy": 1, "non_finite": 1, "mismatch": 1, "runtime": 3, "compile": 3}, "new"),
    "graphnet": (0, Fraction(1, 10),
                 {"accuracy": 1, "non_finite": 1, "mismatch": 1, "runtime": 3, "compile": 3}, "new"),
    "older": (0, Fraction(1, 10), {"accuracy": 1, "non_finite": 1, "mismatch": 3, "runtime": 3, "compile": 3}, "old"),
}  # fmt: skip
NEW = {-10: "0.001", -9: "0.001", -8: "0.001", -7: "0.001", -6: "0.001", -5: "1", -4: "1", -3: "1", -2: "0.8",
       -1: "0.64", 0: "0.512", 1: "0.4096", 2: "0.32768", 3: "0.262144", 4: "0.001"}  # fmt: skip
OLD = {-7: "0.13", -6: "0.40", **dict.fromkeys(range(-5, 5), "0.48")}


def second(outcomes, name):
    """AS by the definition, subgraph by subgraph, in 50 digits."""
    p, b, tolerated, weights = DEFINED[name]
    table = {level: Fraction(text) for level, text in (NEW if weights == "new" else OLD).items()}
    with mpmath.workdps(50):
        total = mpmath.mpf(0)
        for level, weight in table.items():
            logs = mpmath.mpf(0)
            for start, speed, kind in outcomes:
                if start is not None and start <= min(level, 1):
                    factor = 1 if speed >= 1 else 1 + mpmath.mpf(p.numerator) / p.denominator
                    logs += factor * mpmath.log(mpmath.mpf(speed))
                elif not (level >= 1 and kind in tolerated and tolerated[kind] <= level):
                    logs += mpmath.log(mpmath.mpf(b.numerator) / b.denominator)
            total += mpmath.mpf(weight.numerator) / weight.denominator * logs / len(outcomes)
        whole = sum(table.values())
        return float(mpmath.exp(total * whole.denominator / whole.numerator))


SUBGRAPHS = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(-10, 5)), st.floats(0.01, 100), st.sampled_from(CLASSES)),
    min_size=1,
    max_size=14,
)


@pytest.mark.parametrize("name", sorted(PRESETS))
@given(subgraphs=SUBGRAPHS)
def test_every_preset_is_its_definition(name, subgraphs):
    outcomes = [Outcome(correct_from=start, speedup=speed, error_class=kind) for start, speed, kind in subgraphs]
    assert math.isclose(scored(outcomes, PRESETS[name]), second(subgraphs, name), rel_tol=1e-12)


def test_the_default_is_that_of_the_newest_published_results():
    assert DEFAULT == "published" and (PRESETS[DEFAULT].p, PRESETS[DEFAULT].b) == (0.0, 0.1)
    assert all(math.isclose(math.fsum(weights.values()), 1.0) for weights in WEIGHT_SETS.values())
    assert VERDICT_CLASS[Verdict.WRONG_SHAPE] == VERDICT_CLASS[Verdict.WRONG_DTYPE] == "mismatch"
    published, own = CLASS_MAPS["published"], CLASS_MAPS["default"]
    assert published["mismatch"] == published["runtime"] == 3 and own["mismatch"] == own["accuracy"] == 1


def test_settings_can_be_chosen_freely_and_are_named():
    found = chosen("published", p=0.2, b=0.5, classes="accuracy=2, mismatch=4")
    assert (found.p, found.b, found.name) == (0.2, 0.5, "published, changed")
    assert (found.tolerated_from["accuracy"], found.tolerated_from["mismatch"], found.tolerated_from["runtime"]) == (
        2,
        4,
        3,
    )
    assert chosen("paper", p=0.1) == PRESETS["paper"] and chosen("passnet", classes="paper").class_map == "paper"
    outcome = [Outcome(correct_from=None, speedup=1.0, error_class="accuracy")]
    assert scored(outcome, found) < scored(outcome, chosen("published", b=0.5))
    for bad in ({"p": -1.0}, {"b": 0.0}, {"b": 2.0}, {"classes": "colour=1"}, {"classes": "accuracy"}):
        with pytest.raises(ValueError, match=r"p must|b must|class map"):
            chosen("published", **bad)
    with pytest.raises(ValueError, match="published, paper"):
        chosen("newest")


LOG = """[Processing] g1
[Datatype][eager]: float32
[Datatype][compiled]: float32
{extra}
[Correctness][all_close_atol_1.00E-05_rtol_1.30E-06]: 1
{levels}
[Speedup][e2e]: 2.0
"""


def test_a_line_of_an_error_counts_as_published_counts_it():
    levels = "\n".join(
        f"[Correctness][all_close_atol_{10.0**t:.2E}_rtol_{10.0 ** (5.886 / 5 * t):.2E}]: 1"
        for t in range(-10, 6)
        if t != -5
    )
    clean, noisy = (parse_log(LOG.format(levels=levels, extra=extra)) for extra in ("", "UserError: try again"))
    assert [record.verdict for record in (*clean, *noisy)] == [Verdict.PASSED] * 2
    assert math.isclose(rescore(clean, PRESETS["published"]).task_score, 2.0)
    assert math.isclose(rescore(noisy, PRESETS["passnet"]).task_score, 2.0)
    assert math.isclose(rescore(noisy, PRESETS["published"]).task_score, second([(None, 1.0, "runtime")], "published"))
