"""Lemmas of Appendices A and D that no function of rrl stands for, by enumeration and along runs.

The samples of Appendix A have four rows with two possible values each, so that all samples and all
signs can be listed, and every expectation is exact.
"""

import math
from itertools import product

import numpy as np
import pytest

from rrl import LinearMDP, clopper_pearson, r_lsvi_ucb, ridge_weights, theory
from rrl.lsvi_ucb.data import bonus

N = 4
CHOICES = np.array(list(product((0, 1), repeat=N)))  # all samples, as which value each row took
SIGNS = 2 * CHOICES - 1


@pytest.fixture(params=range(20))
def rows(request):
    """Values x, y of shape (2, N), their chances, and a finite set of weights; blocks of two rows are alike."""
    rng = np.random.default_rng(request.param)
    x, y = (np.repeat(rng.uniform(-1, 1, size=(2, 2)), 2, axis=1) for _ in range(2))
    chance = np.repeat(rng.uniform(0.1, 0.9, size=2), 2)
    theta = rng.uniform(-2, 2, size=rng.integers(1, 6))
    return x, y, chance, theta


def of_samples(values):
    """Values (2, N, ...) of each row in each of the samples, shape (samples, N, ...)."""
    return values[CHOICES, np.arange(N)]


def chances(chance):
    """Probability of each sample."""
    return np.where(CHOICES == 1, chance, 1 - chance).prod(axis=1)


def mean(values, chance):
    """Expectation of each row's value, shape (N, ...)."""
    weights = chance.reshape(-1, *(1,) * (values.ndim - 2))
    return (1 - weights) * values[0] + weights * values[1]


def symmetrised(loss, chance):
    """Both sides of Lemma A.1 without its factor 2: largest gap to the mean, and with signs."""
    seen = of_samples(loss)
    gap = (mean(loss, chance) - seen).mean(axis=1).max(axis=1)  # the largest over the weights
    signed = (np.einsum("kn,snt->skt", SIGNS, seen) / N).max(axis=2).mean(axis=1)
    return chances(chance) @ gap, chances(chance) @ signed


def test_lemma_a_1_for_blocks_of_different_distributions(rows):
    x, y, chance, theta = rows
    gap, signed = symmetrised((x[..., None] * theta - y[..., None]) ** 2, chance)
    assert gap <= 2 * signed + 1e-12


def test_the_factor_two_of_lemma_a_1_is_nearly_reached_by_rare_rows():
    rare = np.stack([np.zeros((N, 2)), np.ones((N, 2)) * [1, -1]])
    gap, signed = symmetrised(rare, np.full(N, 0.001))
    assert 1.99 < gap / signed <= 2


@pytest.mark.parametrize("delta", [0.9, 0.5, 0.1, 0.01])
def test_proposition_a_1_with_its_corrected_term_holds_with_its_probability(rows, delta):
    x, y, chance, theta = rows
    gradient = (x[..., None] * theta - y[..., None]) * x[..., None]
    seen = of_samples(gradient)
    gap = np.abs((mean(gradient, chance) - seen).mean(axis=1)).max(axis=1)
    signed = np.abs(np.einsum("kn,snt->skt", SIGNS, seen)).max(axis=2).mean(axis=1)
    bound = 4 / N * signed + 4 * np.abs(gradient).max() * math.log(1 / delta) / N
    assert chances(chance)[chances(chance) @ gap <= bound + 1e-12].sum() >= 1 - delta


def chain_rule(x, y, theta):
    """Both sides of Theorem A.1 for the square loss: left, corrected right, printed right."""
    inner = x[:, None] * theta
    outer = inner - y[:, None]
    left = np.abs(SIGNS @ (outer * x[:, None])).max(axis=1).mean() / 2
    steep, reach = np.abs(x).max(), np.abs(outer).max()
    first = steep * (SIGNS @ outer).max(axis=1).mean()
    corrected = first + reach * np.abs(SIGNS @ x).mean()
    return left, corrected, first + reach * np.abs(SIGNS @ inner).max(axis=1).mean()


def test_theorem_a_1_holds_with_the_gradient_of_the_inner_function(rows):
    x, y, _, theta = rows
    left, corrected, _ = chain_rule(x[0], y[0], theta)
    assert left <= corrected + 1e-12


def test_erratum_e13_theorem_a_1_fails_as_printed_where_the_only_weight_is_zero(rows):
    x, y, _, _ = rows
    left, corrected, printed = chain_rule(x[0], y[0], np.zeros(1))
    assert abs(printed) < 1e-12 < left <= corrected


def test_theorem_a_2_at_its_own_sample_size_for_means_and_not_for_sums():
    # A test that the theorem passes at its true failure probability, far below delta, on a fixed seed.
    B, epsilon, delta, n_samples = 1.5, 0.2, 0.05, 2_000
    n = math.ceil(100 * (B + 1) ** 2 * math.log(2 / delta) / epsilon**2)
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1, 1, size=(2, 5))
    p = rng.dirichlet(np.ones(5))
    off = rng.multinomial(n, p, size=n_samples) / n - p
    gap = np.max([np.abs(2 * (off @ (theta * x**2 - x * y))) for theta in (-B, B)], axis=0)  # linear in theta
    assert clopper_pearson(int((gap > epsilon).sum()), n_samples)[1] <= delta
    assert (n * gap > epsilon).mean() > 0.9


@pytest.mark.parametrize("seed", range(20))
def test_lemma_a_2_bounds_the_weights_by_the_gradient(seed):
    rng = np.random.default_rng(seed)
    d, n, penalty = int(rng.integers(1, 6)), int(rng.integers(1, 50)), 10 ** rng.uniform(-4, 1)
    x, y, p = rng.normal(size=(9, d)), rng.normal(size=9), rng.dirichlet(np.ones(9))
    share = rng.multinomial(n, p) / n
    target, found = (ridge_weights((x.T * w) @ x, x.T @ (w * y), penalty) for w in (p, share))
    gradient = 2 * (x.T * p) @ (x @ found - y) + 2 * penalty * found
    assert np.linalg.norm(found - target) <= np.linalg.norm(gradient) / (2 * penalty) * (1 + 1e-9)


def explore(mdp, n_rounds, n_trajectories, bin_widths, penalty, beta=1.0):
    return r_lsvi_ucb(
        mdp,
        n_rounds=n_rounds,
        n_trajectories=n_trajectories,
        bin_widths=bin_widths,
        beta=beta,
        penalty=penalty,
        shared_seed=3,
        rng=np.random.default_rng(3),
        keep_estimates=True,
    )


@pytest.mark.parametrize("n_trajectories", [1, 100])
def test_lemma_d_1_the_bonus_of_the_theorem_covers_every_residual(n_trajectories):
    mdp = LinearMDP.random(n_states=5, n_actions=3, dim=3, horizon=3, rng=np.random.default_rng(1))
    width, penalty, n_rounds = 0.05, 0.5, 40
    run = explore(mdp, n_rounds, n_trajectories, (width, 1e-7), penalty)
    beta = theory.jin_beta(mdp.dim, mdp.horizon, n_rounds * n_trajectories, 0.1)
    needed = []
    for t in range(1, n_rounds):
        later = np.zeros(mdp.n_states)
        for h in reversed(range(mdp.horizon)):
            residual = mdp.features @ run.weights[t, h] - mdp.rewards_table[h] - mdp.transitions[h] @ later
            length = bonus(mdp.features, run.inverses[t, h], 1.0)
            needed.append(((np.abs(residual) - math.sqrt(mdp.dim) * width / 2) / length).max())
            later = np.maximum(run.q_values(t, h, mdp.features).max(axis=1), 0)
    assert 0 < max(needed) <= beta


@pytest.mark.parametrize("penalty", [1.0, 0.05])
def test_corollary_d_1_rounded_norms_stay_below_twice_the_potential(penalty):
    mdp = LinearMDP.random(n_states=5, n_actions=3, dim=3, horizon=3, rng=np.random.default_rng(1))
    n_rounds = 60
    allowed = penalty * mdp.dim * math.log((penalty + n_rounds) / penalty) / (2 * n_rounds)
    run = explore(mdp, n_rounds, 10**12, (0.01, 2 * allowed / mdp.dim), penalty)
    norms = [
        (mdp.occupancy(policy)[h] * bonus(mdp.features, run.inverses[t, h], 1.0)).sum()
        for t, policy in enumerate(run.policies)
        for h in range(mdp.horizon)
    ]
    assert sum(norms) <= 2 * theory.elliptical_potential_bound(mdp.dim, mdp.horizon, n_rounds, 1, penalty)
