"""The stages and radii of chapter 12's early stopping."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrl import theory


@given(st.floats(1, 1e18), st.floats(1, 1e6), st.floats(1e-6, 0.999), st.floats(0.001, 0.9), st.integers(2, 10))
def test_stages_are_multiples_reach_the_last_and_share_their_part_of_rho(n_last, n_first, rho, early, ratio):
    sizes, miss = theory.stopping_stages(n_last, n_first, rho, early, ratio)
    assert all(b == ratio * a for a, b in pairwise(sizes))
    assert sizes[-1] >= n_last and sizes[-1] - n_last <= ratio ** (len(sizes) - 1)
    assert 2 * miss * max(len(sizes) - 1, 1) == pytest.approx(early * rho)
    assert len(sizes) == 1 or sizes[0] >= n_first
    assert sizes[-1] / ratio ** len(sizes) < max(n_first, 1) * (1 + 1 / sizes[0])


def test_the_mean_of_rows_by_hand():
    """Grid in two dimensions: an edge is within r with probability at most 4 r / alpha; lattice by its surface."""
    assert theory.mean_rows_bound([10, 40], [0.01], 2, 0.1) == pytest.approx(10 + 30 * 0.4)
    assert theory.mean_rows_bound([10, 40], [1.0], 2, 0.1) == 40
    assert theory.mean_rows_bound([10], [], 2, 0.1) == 10
    share = 0.01 * theory.cell_surface(2, 0.1, "lattice")
    assert theory.mean_rows_bound([10, 40], [0.01], 2, 0.1, "lattice") == pytest.approx(10 + 30 * share)


def test_mean_rows_grow_like_one_over_rho():
    """Ridge, d = 4: a decade of rho multiplies the fixed number by 100, the bound on the mean by at most 15."""
    mean = []
    for rho in (1e-4, 1e-5, 1e-6):
        last, fixed = theory.ridge_last_stage(4, 0.1, rho, 0.1)
        sizes, miss = theory.stopping_stages(last, 10**6, rho)
        radii = [theory.ridge_gradient_radius(n, miss, 0.1) / 0.1 for n in sizes[:-1]]
        mean.append(theory.mean_rows_bound(sizes, radii, 4, 0.1))
        assert fixed == pytest.approx(8.0e6 * (0.1 / rho) ** 2, rel=0.01)
    assert (np.divide(mean[1:], mean[:-1]) < 15).all()


@pytest.mark.parametrize("scheme", ["grid", "lattice"])
def test_the_last_stage_has_target_and_both_estimates_in_one_cell(scheme):
    """Rho from the mean distances Y / (penalty sqrt(N)) to the target and sqrt(2) times that between two."""
    last, fixed = theory.ridge_last_stage(5, 0.2, 0.03, 0.4, 1.5, scheme, early=0.2)
    rate = theory.cut_rate(5, 0.2, scheme, "worst")
    distance = 1.5 / 0.4
    assert rate * np.sqrt(2) * distance / np.sqrt(fixed) == pytest.approx(0.03)
    assert rate * (2 * distance + np.sqrt(2) * distance) / 2 / np.sqrt(last) == pytest.approx(0.8 * 0.03)


# The radii.


@pytest.mark.parametrize(("d", "n"), [(1, 50), (5, 400), (40, 100)])
def test_a_mean_of_vectors_stays_within_its_radius(d, n, acceptance):
    """Means of e_i, -e_i and zeros, 20,000 of them; alarm 1e-6."""
    rng, trials = np.random.default_rng(d), 20_000
    # Number of +e_i and -e_i, and of zeros.
    chance = np.append(np.full(2 * d, 0.3 / (2 * d)), 0.7)
    counts = rng.multinomial(n, chance, size=trials)
    norm = np.linalg.norm(counts[:, :d] - counts[:, d : 2 * d], axis=1) / n
    for delta in (0.3, 0.01):
        radius = theory.mean_vector_radius(n, delta, 0.3, 1.0)
        assert (norm > radius).sum() <= acceptance(trials, delta)[1]
        assert radius < 3 * np.quantile(norm, 1 - delta)
    # Far above the scatter it is Bernstein's: -log of the chance is N t^2 / (2 (v + b t / 3)).
    t = theory.mean_vector_radius(n, 1e-30, 0.3, 1.0)
    assert n * t**2 / (2 * (0.3 + t / 3)) == pytest.approx(np.log(2e30))


def test_the_ridge_radius_covers_the_gradient_of_unbounded_targets(acceptance):
    """Two rows that pull apart: (Gram + penalty) times the error, 20,000 samples; alarm 1e-6."""
    X, y, chance = np.array([[1.0, 0.0], [0.6, 0.8]]), np.array([1.0, -1.0]), np.array([0.7, 0.3])
    penalty, n, trials = 0.05, 300, 20_000
    gram, moment = (X * chance[:, None]).T @ X, X.T @ (chance * y)
    target = np.linalg.solve(gram + penalty * np.eye(2), moment)
    share = np.random.default_rng(0).multinomial(n, chance, size=trials) / n
    grams, moments = np.einsum("tk,ki,kj->tij", share, X, X) + penalty * np.eye(2), share @ (X * y[:, None])
    error = np.linalg.solve(grams, moments[..., None])[..., 0] - target
    norm = np.linalg.norm(np.einsum("tij,tj->ti", grams, error), axis=1)
    for delta in (0.3, 0.01):
        for target_norm in (None, np.linalg.norm(target)):
            radius = theory.ridge_gradient_radius(n, delta, penalty, target_norm=target_norm)
            assert (norm > radius).sum() <= acceptance(trials, delta)[1]
    assert np.linalg.norm(target) <= theory.ridge_weight_bound(1.0, penalty)


def test_a_first_stage_has_at_least_a_row():
    assert theory.stopping_stages(1000, 1e-3, 0.1).sizes == theory.stopping_stages(1000, 1, 0.1).sizes
    assert theory.stopping_stages(1000, 1e-3, 0.1).sizes[-1] < 4 * 1000


GOOD = {
    "cell_inradius": {"d": 3, "bin_width": 0.1},
    "stopping_stages": {"n_last": 100.0, "n_first": 10.0, "rho": 0.1, "early": 0.1, "ratio": 4},
    "mean_vector_radius": {"n_samples": 9, "delta": 0.1, "variance": 1.0, "size": 1.0},
    "ridge_gradient_radius": {"n_samples": 9, "delta": 0.1, "penalty": 0.1, "label_bound": 1.0, "target_norm": 1.0},
    "ridge_last_stage": {"d": 3, "bin_width": 0.1, "rho": 0.1, "penalty": 0.1, "label_bound": 1.0, "early": 0.1},
    "mean_rows_bound": {"sizes": [1, 4], "radii": [0.1], "d": 2, "bin_width": 0.1},
}


@pytest.mark.parametrize(("name", "argument"), [(name, a) for name, good in GOOD.items() for a in good])
def test_every_bad_argument_is_refused_by_name(name, argument):
    formula = getattr(theory, name)
    formula(**GOOD[name])
    for bad in (-1, np.inf, np.nan):
        bad = [bad] if argument == "radii" else [bad, 4] if argument == "sizes" else bad
        if argument == "radii" and bad == [np.inf]:
            continue
        with pytest.raises(ValueError, match=argument):
            formula(**{**GOOD[name], argument: bad})
    if argument == "sizes":
        with pytest.raises(ValueError, match="radii must be one fewer than sizes"):
            formula(**{**GOOD[name], argument: [1, 4, 16]})
