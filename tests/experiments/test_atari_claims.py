"""How the paper's claims on Figure 2 are judged."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from rrl.book.claims import STATUSES
from rrl.book.figure2 import verdict_table
from rrl.experiments.games.atari import VARIANTS
from rrl.experiments.games.claims import (
    CLAIMS,
    MARGIN,
    VERDICTS,
    Finding,
    all_of,
    compare_variants,
    decide,
    figure_status,
    judge,
)
from rrl.experiments.games.intervals import mean_interval


def row(final=10.0, agreement=0.5, own=None, state=0.1, ties=0.0, error=0.01, n=15):
    own = agreement if own is None else own
    ends = {
        f"{name}_interval": (max(0.0, value - error), min(1.0, value + error))
        for name, value in (("agreement", agreement), ("own", own))
    }
    ends |= {f"{name}_interval": (value - error, value + error) for name, value in (("state", state), ("ties", ties))}
    parts = {"final": final, "agreement": agreement, "own": own, "state": state, "ties": ties}
    return parts | ends | {"seeds": list(range(n)), "final_interval": (max(0.0, final - error), final + error)}


def rows(**others):
    return {v: others.get(v, row()) for v in VARIANTS}


def verdicts(**others):
    return {key: word for key, (word, _) in judge(rows(**others)).items()}


def test_an_interval_that_holds_both_answers_tells_nothing():
    """Every place of an interval beside a bar, its ends at it included."""
    grid = np.linspace(-1, 1, 9)
    for low, high, bar in itertools.product(grid, grid, (-0.5, 0.0, 0.25)):
        if low <= high:
            word = decide(low, high, bar)
            assert word in VERDICTS
            assert (word == "supported") == (low > bar) and (word == "contradicted") == (high < bar)
            assert (word == "cannot tell") == (low <= bar <= high)
    for words in itertools.product(VERDICTS, repeat=2):
        joint = all_of(words)
        assert (joint == "supported") == (set(words) == {"supported"})
        assert (joint == "contradicted") == ("contradicted" in words)


def test_nothing_differs():
    """Equal variants: nothing is raised, and whether that is none or little cannot be told; the return is kept."""
    found = verdicts()
    assert found == dict.fromkeys(found, "cannot tell") | {"kept": "supported"}
    assert set(found) == {key for key, *_ in CLAIMS}


def test_each_claim_by_itself():
    high, low = row(agreement=0.9), row(agreement=0.1)
    assert verdicts(quantised=high)["raises"] == "supported" == verdicts(quantised=high)["insufficient"]
    assert verdicts(quantised=low)["raises"] == "contradicted" == verdicts(quantised=low)["insufficient"]
    assert verdicts(quantised=high, regularised=high)["insufficient"] == "cannot tell"
    assert verdicts(quantised=row(ties=0.2))["gaps"] == "supported"
    assert verdicts(quantised=row(ties=-0.2))["gaps"] == "contradicted"
    assert verdicts(quantised=row(final=5))["wrong"] == "supported"
    assert verdicts(quantised=row(final=15))["wrong"] == "contradicted"
    # A loss is more than a tenth.
    for final, word in ((5, "contradicted"), (8.9, "contradicted"), (9.1, "supported"), (20, "supported")):
        assert verdicts(both=row(final=final))["kept"] == word
    assert verdicts(both=row(final=9.0))["kept"] == "cannot tell"
    assert verdicts(quantised=high, both=high)["benefit"] == "supported"
    assert verdicts(quantised=high, both=row(agreement=0.7))["benefit"] == "contradicted", "lost in part"
    assert verdicts(quantised=low, both=low)["benefit"] == "contradicted", "never there"
    assert verdicts(both=row(agreement=0.9, own=0.4))["beyond ties"] == "contradicted"
    assert verdicts(both=row(state=0.3))["beyond habits"] == "supported"


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_runs(n):
    """One run tells nothing; two say nothing of agreement; three see what is as large as their interval."""
    wide = {"agreement_interval": (0.0, 1.0), "own_interval": (0.0, 1.0)}
    wide |= {"state_interval": (-1.0, 1.0), "ties_interval": (-1.0, 1.0)}
    few = {v: row(agreement=a, n=n) for v, a in zip(VARIANTS, (0.1, 0.9, 0.1, 0.9), strict=True)}
    for k, found in enumerate(few.values()):
        found |= {"final_interval": mean_interval([10.0 + k + j for j in range(n)])} | (wide if n < 3 else {})
    words = {key: word for key, (word, _) in judge(few).items()}
    if n < 3:
        assert set(words.values()) == {"cannot tell"}
        assert all(bool(found) == (n > 1) for _, found in judge(few).values())
    else:
        assert words["raises"] == "supported" == words["benefit"] and words["wrong"] == "cannot tell"


def test_a_variant_that_is_missing_tells_nothing():
    part = {v: row() for v in ("plain", "both")}
    assert {word for word, _ in judge(part).values()} == {"cannot tell"}
    assert "no two runs" in verdict_table({"A": judge(part)}).to_html()


def test_the_smallest_difference_is_the_arm_towards_the_bar():
    seen = Finding("x", 0.3, 0.1, 0.4)
    assert seen.smallest == pytest.approx(0.2) and seen.verdict == "supported"
    lost = Finding("x", -0.3, -0.5, -0.2, -0.1)
    assert lost.smallest == pytest.approx(0.1) and lost.verdict == "contradicted"
    # Moved to just beyond it, a difference of this size is seen.
    moved = Finding("x", 0.2001, 0.0001, 0.3001)
    assert moved.verdict == "supported"


def test_returns_are_relative_and_never_more_than_all_is_lost():
    found = compare_variants(rows(both=row(final=2.0, error=5.0)), "both")["final"]
    assert found.value == pytest.approx(-0.8) and found.low == -1.0
    (loss,) = judge(rows(quantised=row(final=2.0, error=5.0)))["wrong"][1]
    assert loss.value == pytest.approx(0.8) and loss.high == 1.0


def test_equal_scores_tell_nothing_and_no_score_is_no_return():
    """Two runs of equal return have no spread to judge by; beside plain runs that scored nothing there is no share."""
    same = {v: row(final=f, error=0.0, n=2) for v, f in zip(VARIANTS, (10.0, 8.9, 10.0, 8.9), strict=True)}
    for words in (same, {v: row(final=0.0, error=0.0) for v in VARIANTS}):
        found = {key: (word, found) for key, (word, found) in judge(words).items() if key in ("wrong", "kept")}
        assert {word for word, _ in found.values()} == {"cannot tell"}
        assert all(np.isinf(finding.smallest) for _, (finding,) in found.values())
    text = verdict_table({"A": judge({v: row(final=0.0, error=0.0) for v in VARIANTS})}).data["A"]
    assert text[3] == "<strong>? cannot tell</strong><br>no return to compare"


def test_a_gain_may_be_more_than_all():
    found = compare_variants(rows(both=row(final=30.0, error=12.0)), "both")["final"]
    assert found.value == pytest.approx(2.0) and found.verdict == "supported"
    assert found.smallest == pytest.approx(found.value - found.low) and found.smallest > 1


def test_any_two_variants_are_compared():
    found = compare_variants(rows(both=row(final=5, agreement=0.9), regularised=row(final=20)), "both", "regularised")
    assert found["final"].value == pytest.approx(-0.75) and found["agreement"].value == pytest.approx(0.4)


def test_verdicts_keep_their_level():
    """Under equal means of three runs, a difference is seen at most 5% of the time: 20,000 pairs, 5 standard errors."""
    rng, n = np.random.default_rng(0), 20_000
    scores = 50 + rng.normal(size=(n, 2, 3))
    seen = 0
    for one, other in scores:
        pair = rows(
            plain=row(final=other.mean()) | {"final_interval": mean_interval(other)},
            both=row(final=one.mean()) | {"final_interval": mean_interval(one)},
        )
        seen += compare_variants(pair, "both")["final"].verdict != "cannot tell"
    assert 0.004 < seen / n < 0.05 + 5 * np.sqrt(0.05 / n)


def test_the_table_says_the_deciding_number_and_what_would_have_been_seen():
    found = judge(rows(both=row(final=7.4, agreement=0.55), quantised=row(agreement=0.6)))
    brief, full = (dict(verdict_table({"A": found}, brief=b).data.to_numpy()) for b in (True, False))
    assert len(brief) == len(CLAIMS) == len(full)
    (kept, wrong, state), words = [next(k for k in brief if w in k) for w in ("nine", "wrong", "about the")], full
    assert brief[kept] == "<strong>✗ contradicted</strong><br>−26% of the return"
    assert brief[state] == "<strong>? cannot tell</strong><br>+0.00; told from +0.01"
    pair = row(agreement=0.9) | {"agreement_interval": (0.0, 1.0)}
    one = verdict_table({"A": judge(rows(quantised=pair, plain=pair, regularised=pair))}).data
    assert one["A"][1] == "<strong>? cannot tell</strong><br>+0.00; told from +0.91"
    # Two runs see nothing, however their values fall.
    two = pair | {"seeds": [0, 1], "own_interval": (0.0, 1.0), "state_interval": (-1.0, 1.0)}
    for value, text in ((0.9, "+0.00"), (0.2, "+0.70"), (1.0, "−0.10")):
        few = rows(quantised=two, plain=two | {"agreement": value})
        assert verdict_table({"A": judge(few)}).data["A"][1].endswith(f"<br>{text}; no difference would tell")
    low = pair | {"agreement": 0.05}
    one = verdict_table({"A": judge(rows(quantised=pair, plain=low))}).data
    assert one["A"][1] == "<strong>? cannot tell</strong><br>+0.85; no difference would tell"
    assert "from −26% to −26%" in words[kept] and "told from −10%" in words[kept]
    assert "+0% of the return" in words[wrong]


@pytest.mark.parametrize("bar", [0.0, -0.1])
@pytest.mark.parametrize("value", [0.07, 0.004, -0.03, -0.35])
def test_what_is_told_from_would_decide(value, bar):
    """The same interval around that value ends at the bar."""
    finding = Finding("", value, value - 0.2, value + 0.4, bar)
    shift = finding.decisive - value
    ends = finding.low + shift, finding.high + shift
    assert min(abs(end - bar) for end in ends) < 1e-12 and finding.decisive != bar
    beyond = 1e-9 if value >= bar else -1e-9
    assert decide(*(end + beyond for end in ends), bar) == ("supported" if beyond > 0 else "contradicted")


def test_a_value_next_to_what_would_decide_has_another_digit():
    near = Finding("", 0.0350, 0.0350 - 0.0363, 0.1)
    text = verdict_table({"A": {key: ("cannot tell", [near]) for key, *_ in CLAIMS}}).data["A"][0]
    assert text.endswith("<br>+0.035; told from +0.036")


def test_the_figure_s_status():
    """Supported at reduced scale is measured; only the paper's scale refutes; anything else cannot tell."""
    yes, no = judge(rows(quantised=row(agreement=0.9), both=row(agreement=0.9))), judge(rows(both=row(final=1.0)))
    short = SimpleNamespace(total_steps=500_000, seeds=range(5))
    full = SimpleNamespace(total_steps=10_000_000, seeds=range(15))
    games = ("mspacman", "breakout")
    assert figure_status({}, {}) == "cannot tell"
    assert figure_status({"breakout": yes}, {"breakout": full}) == "cannot tell"
    for study, words in (
        (short, ("measured at reduced scale", "cannot tell")),
        (full, ("holds as printed", "refuted")),
    ):
        same = dict.fromkeys(games, study)
        assert figure_status(dict.fromkeys(games, yes), same) == words[0]
        assert figure_status({"mspacman": yes, "breakout": no}, same) == words[1]
        assert set(words) <= set(STATUSES)
    assert figure_status(dict.fromkeys(games, judge(rows())), dict.fromkeys(games, full)) == "cannot tell"
    assert MARGIN == 0.1  # the page says a tenth
