"""How the paper's claims on Figure 2 are judged."""

import itertools

import numpy as np
import pytest
from scipy import stats

from rrl.experiments.games.atari import VARIANTS
from rrl.experiments.games.claims import above, judge, t_factor


def row(final=10.0, agreement=0.5, own=None, error=0.01, n=15, kappa=0.2):
    own = agreement if own is None else own
    return {
        "seeds": list(range(n)),
        "final": final,
        "final_error": 1.96 * error,
        "agreement": agreement,
        "jackknife_error": error,
        "agreement_independent": own,
        "independent_error": error,
        "kappa_independent": kappa,
        "expert": [agreement] * n,
    }


def rows(**others):
    return {v: others.get(v, row()) for v in VARIANTS}


def seen(**others):
    return [yes for _, _, yes in judge(rows(**others))]


def test_nothing_differs():
    """Equal variants show no gain; the return is within variance, but no agreement is "kept" that was not there."""
    assert seen() == [False, False, True, False, False]


def test_each_claim_by_itself():
    high = row(agreement=0.9)
    assert seen(quantised=high)[0] and not seen(quantised=high, regularised=high)[0]
    assert seen(quantised=row(final=5))[1]
    assert not seen(both=row(final=5))[2] and seen(both=row(final=20))[2]
    assert seen(quantised=high, both=high)[3]
    assert not seen(quantised=high, both=row(agreement=0.8))[3], "lost in part"
    assert not seen(both=high)[3], "never there"
    assert seen(both=high)[4] and not seen(both=row(agreement=0.9, own=0.5))[4]


def test_words_hold_the_numbers():
    claims = judge(rows(both=row(final=7.5, agreement=0.625, own=0.55)))
    assert len(claims) == 5 and "both 7.50 ± 0.02, 75% of it; regularised 10.00" in claims[2][1]
    assert "0.55 against plain 0.50 and regularised 0.50." in claims[4][1] and "both 0.20" in claims[4][1]
    halves = judge(rows(quantised=row(agreement=0.9), regularised=row(agreement=0.9)))[0]
    assert "above plain: yes, above regularised: not beyond the error" in halves[1] and not halves[2]
    assert "player: plain 0.50, quantised 0.90" in judge(rows(quantised=row(agreement=0.9)))[1][1]


def test_above_keeps_its_level():
    """Under equal means of three runs each, at most 2.5% are above: 20,000 pairs, 5 standard errors allowed."""
    rng, n = np.random.default_rng(0), 20_000
    scores = rng.normal(size=(2, n, 3))
    means, errors = scores.mean(2), scores.std(2, ddof=1) / np.sqrt(3)
    made = [[row(final=means[k, i], error=errors[k, i], n=3) for k in range(2)] for i in range(n)]
    rate = np.mean([above(*pair) for pair in made])
    assert 0.002 < rate < 0.025 + 5 * np.sqrt(0.025 / n)


@pytest.mark.parametrize("n", [2, 3, 15])
def test_t_factor(n):
    assert stats.t.cdf(t_factor(n), n - 1) == pytest.approx(0.975)


def test_two_runs_show_no_agreement():
    """With two runs the error of an agreement is not known: nothing is above anything."""
    two = [row(agreement=a, error=float("inf"), n=2) for a in (0.1, 0.9)]
    assert not any(above(a, b, "agreement") for a, b in itertools.product(two, two))
