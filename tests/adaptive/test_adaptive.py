"""Stopping early: the rule by brute force, edges, the promise at the stopping time, and what it saves."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rrl import (
    LinearMDP,
    ReplicableRidge,
    adaptive_r_lsvi,
    adaptive_ridge,
    adaptive_round,
    g_optimal_design,
    hypergrid_round,
    lattice_round,
    r_lsvi,
    theory,
)
from rrl.adaptive.lsvi import _as_counts, _hoeffding, _looks
from rrl.adaptive.ridge import _sums

schemes = pytest.mark.parametrize("scheme", ["grid", "lattice"])
ROUND = {"grid": hypergrid_round, "lattice": lattice_round}


def hoeffding(n, miss):
    return math.sqrt(math.log(2 / miss) / (2 * n))


# The rule.


def gap(estimate, rounded, scheme):
    """Distance to each neighbour's side of the boundary, from the squared distances to both centres."""
    step = np.array(list(product([-1, 0, 1], repeat=3)))
    step = step[np.abs(step).sum(axis=1) > 0].astype(float)
    if scheme == "lattice":
        step = (step - step.sum(axis=1, keepdims=True) / 6) * theory.lattice_scale(3, rounded.bin_width)
    others = ((estimate - rounded.values - step) ** 2).sum(axis=1)
    return ((others - ((estimate - rounded.values) ** 2).sum()) / (2 * np.linalg.norm(step, axis=1))).min()


@given(
    hnp.arrays(np.float64, (4, 3), elements=st.floats(-10, 10)),
    hnp.arrays(np.float64, (4, 3), elements=st.floats(0, 0.6)),
    st.integers(0, 2**32),
    st.sampled_from(["grid", "lattice"]),
    st.booleans(),
)
def test_it_stops_at_the_first_region_that_lies_in_one_cell(estimates, radii, seed, scheme, box):
    """A ball by its distance from the neighbours' cells; a box by its corners, on the lattice by the ball around it."""
    radii = radii if box else radii[:, 0]
    result = adaptive_round(zip(estimates, radii), 1.0, shared_seed=seed, scheme=scheme)
    corners = np.array(list(product([-1, 1], repeat=3)))
    for number, (estimate, radius) in enumerate(zip(estimates, radii), 1):
        rounded = ROUND[scheme](estimate, 1.0, shared_seed=seed)
        if box and scheme == "grid":
            shift = rounded.offsets
            inside = len(np.unique(np.floor(estimate + radius * corners - shift), axis=0)) == 1
            close = np.abs(0.5 - np.abs(estimate - rounded.values) - radius).min()
        else:
            room = gap(estimate, rounded, scheme) - np.linalg.norm(radius)
            inside, close = room > 0, abs(room)
        if number < result.n_stages or (number == result.n_stages and close > 1e-9):
            assert close <= 1e-9 or inside == (number == result.n_stages and result.settled)
    last = ROUND[scheme](estimates[result.n_stages - 1], 1.0, shared_seed=seed)
    for name in ("codes", "values", "offsets"):
        np.testing.assert_array_equal(getattr(result, name), getattr(last, name))
    assert result.settled or result.n_stages == 4


def test_no_stage_is_asked_for_that_is_not_reached():
    asked = []

    def stages():
        for radius in (9.0, 0.1, 0.01):
            asked.append(radius)
            yield [hypergrid_round([0.0], 1.0, shared_seed=3).values[0]], radius

    result = adaptive_round(stages(), 1.0, shared_seed=3)
    assert asked == [9.0, 0.1] and result.n_stages == 2 and result.settled


@schemes
def test_an_estimate_on_an_edge_is_never_settled_and_the_last_one_is_rounded_all_the_same(scheme):
    """The last lies on an edge as well."""
    width = 0.5
    middle = ROUND[scheme](np.zeros(2), width, shared_seed=1)
    face = np.array([width / 2, 0])
    if scheme == "lattice":  # half way to the next lattice point
        step = np.array([1.0, 0.0]) - 1 / (np.sqrt(3) * (1 + np.sqrt(3)))
        face = theory.lattice_scale(2, width) * step / 2
    result = adaptive_round([(middle.values + face, 1e-12)] * 3, width, shared_seed=1, scheme=scheme)
    assert not result.settled and result.n_stages == 3
    assert adaptive_round([(middle.values + 0.9 * face, 1e-12)] * 3, width, shared_seed=1, scheme=scheme).n_stages == 1


def test_in_one_dimension_both_schemes_are_one(rng):
    for seed in range(50):
        stages = [(rng.normal(size=1), 0.4 / 2**k) for k in range(5)]
        one, two = (adaptive_round(stages, 1.0, shared_seed=seed, scheme=s) for s in ("grid", "lattice"))
        assert one.codes == two.codes and one.n_stages == two.n_stages


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([], "stages must hold at least one"),
        ([([0.0], -1)], "radius must be >= 0, got .* at stage 1"),
        ([([0.0], np.nan)], "radius must be >= 0"),
        ([([0.0], 9.0), ([0.0, 0.0], 9.0)], "all estimates must have one length, got 2 at stage 2 after 1"),
        ([([0.0], [0.1, 0.2])], "a stage must be a vector and a radius"),
        ([(0.0, 0.1)], "a stage must be a vector"),
        ([([np.nan], 0.1)], "a holds nan"),
        ([([0.0], 0.1, 0.1)], "stages must be pairs"),
        ([np.array([0.0, 0.1])], "stages must be pairs"),
    ],
)
def test_bad_stages_are_refused_by_name(stages, message):
    with pytest.raises(ValueError, match=message):
        adaptive_round(stages, 1.0, shared_seed=0)


def test_bad_arguments_are_refused_before_a_row_is_drawn():
    def stages():
        raise AssertionError
        yield

    with pytest.raises(ValueError, match="scheme must be"):
        adaptive_round(stages(), 1.0, shared_seed=0, scheme="hexagon")
    with pytest.raises(ValueError, match="bin_width must be positive"):
        adaptive_round(stages(), -1.0, shared_seed=0)
    with pytest.raises(TypeError, match="shared_seed"):
        adaptive_round(stages(), 1.0, shared_seed=0.5)


# Coins: the promise, at the worst distribution for it, and the mean number of rows.


def coin_run(chance, width, sizes, miss, seed, rng, shrink=1.0):
    """Codes and number of tosses of a run; each coin's radius is Hoeffding's."""
    heads, drawn = np.zeros(len(chance)), 0

    def stages():
        nonlocal heads, drawn
        for n in sizes:
            heads, drawn = heads + rng.binomial(n - drawn, chance), n
            yield heads / n, shrink * hoeffding(n, miss / len(chance))

    result = adaptive_round(stages(), width, shared_seed=seed)
    return result.codes, drawn


def coin_stages(d, width, rho):
    """The last stage for mean distances 1 / sqrt(pi N) between two runs and 1 / (2 sqrt(N)) to the target."""
    last = (d * (0.5 + 0.5 / math.sqrt(math.pi)) / (width * 0.9 * rho)) ** 2
    return theory.stopping_stages(last, math.log(40 * d / rho) / 2 / (width / 2) ** 2, rho)


@pytest.mark.parametrize(("d", "rho"), [(1, 0.3), (3, 0.1), (1, 0.99)])
def test_coins_keep_rho_and_their_mean_number_of_rows(d, rho, acceptance):
    """4,000 pairs; alarm 1e-6 for rho, six standard errors for the mean."""
    pairs, width = 4000, 0.1
    sizes, miss = coin_stages(d, width, rho)
    rng, differ, tosses = np.random.default_rng(5), 0, []
    for seed in range(pairs):
        runs = [coin_run(np.full(d, 0.5), width, sizes, miss, seed, rng) for _ in range(2)]
        differ += bool((runs[0][0] != runs[1][0]).any())
        tosses += [n for _, n in runs]
    assert differ <= acceptance(pairs, rho)[1]
    assert differ > 0.1 * rho * pairs  # fair coins come near the bound
    radii = [hoeffding(n, miss / d) for n in sizes[:-1]]
    assert np.mean(tosses) - 6 * np.std(tosses) / np.sqrt(len(tosses)) <= theory.mean_rows_bound(sizes, radii, d, width)


def test_radii_that_are_too_short_break_the_promise(acceptance):
    """The same measurement with a tenth of each radius: far above rho, so it can tell."""
    sizes, miss = coin_stages(1, 0.1, 0.02)
    rng = np.random.default_rng(6)
    differ = 0
    for seed in range(1000):
        runs = [coin_run([0.5], 0.1, sizes, miss, seed, rng, shrink=0.1)[0] for _ in range(2)]
        differ += bool(runs[0] != runs[1])
    assert differ > acceptance(1000, 0.02)[1]


def test_who_stops_early_has_the_target_s_cell_and_disagrees_with_none_that_did(acceptance):
    """Given the stopping times: pairs that both stopped early differ with probability at most early rho; alarm 1e-6."""
    d, width, rho, target = 2, 0.1, 0.02, np.array([0.4, 0.55])
    sizes, miss = coin_stages(d, width, rho)
    rng, wrong, both, apart = np.random.default_rng(7), 0, 0, 0
    for seed in range(3000):
        runs = [coin_run(target, width, sizes, miss, seed, rng) for _ in range(2)]
        cell = hypergrid_round(target, width, shared_seed=seed).codes
        wrong += sum(n < sizes[-1] and (codes != cell).any() for codes, n in runs)
        if max(n for _, n in runs) < sizes[-1]:
            both += 1
            apart += (runs[0][0] != runs[1][0]).any()
    assert wrong <= acceptance(6000, miss * (len(sizes) - 1))[1] and apart <= acceptance(3000, 0.1 * rho)[1]
    assert both > 500


# Ridge.


def coins_as_rows(d, chance, rng):
    """Inputs e_i, labels -1 and 1: a draw of ridge rows by their counts."""
    X, y = np.repeat(np.eye(d), 2, axis=0), np.tile([-1.0, 1.0], d)
    chances = np.stack([chance, 1 - chance], axis=1).ravel() / d
    return lambda n: (X, y, rng.multinomial(n, chances))


@schemes
def test_ridge_publishes_what_replicable_ridge_does_on_the_rows_drawn(scheme):
    rng, rows = np.random.default_rng(1), []
    draw = coins_as_rows(3, np.array([0.3, 0.5, 0.6]), rng)

    def kept(n):
        rows.append(draw(n))
        return rows[-1]

    result = adaptive_ridge(kept, 3, penalty=0.1, bin_width=0.2, rho=0.05, shared_seed=4, key=("a",), scheme=scheme)
    ridge = ReplicableRidge(0.1, bin_width=0.2, shared_seed=4, key=("a",), scheme=scheme)
    ridge.fit(rows[0][0], rows[0][1], sample_weight=sum(counts for _, _, counts in rows))
    np.testing.assert_array_equal(ridge.codes_, result.codes)
    np.testing.assert_allclose(ridge.coef_, result.coef)
    np.testing.assert_allclose(ridge.unrounded_coef_, result.unrounded_coef)
    assert result.n_samples == sum(counts.sum() for _, _, counts in rows) and result.n_stages == len(rows)
    assert len(result.fingerprint()) == 64 and (result.settled or result.n_samples >= result.fixed_samples)


@pytest.mark.parametrize("seed", range(5))
def test_ridge_without_chance_stops_where_the_formulas_say(seed):
    """Input 1 and label 1/2 for ever: the Gram matrix is 1, the weight 1 / (2 (1 + penalty)), at every look."""
    penalty, width, rho = 0.1, 0.02, 0.01
    rows = (np.ones((1, 1)), [0.5])
    settings = {"penalty": penalty, "bin_width": width, "rho": rho, "shared_seed": seed}
    result = adaptive_ridge(lambda n: (*rows, [n]), 1, **settings)
    weight = 0.5 / (1 + penalty)
    edge = width / 2 - abs(weight - hypergrid_round([weight], width, shared_seed=seed, key=("ridge", ())).values[0])

    def radius(n, miss):
        return theory.ridge_gradient_radius(n, miss, penalty) / (1 + penalty)

    # The first look is the smallest of these numbers at which a radius can fit into half a cell.
    first = next(2**k for k in range(60) if radius(2**k, 0.1 * rho / 2) <= width / 2)
    last, _ = theory.ridge_last_stage(1, width, rho, penalty)
    stages = theory.stopping_stages(last, first, rho)
    sizes = [n for n in stages.sizes if radius(n, stages.miss) < edge] or [stages.sizes[-1]]
    assert (result.n_samples, result.n_stages) == (sizes[0], stages.sizes.index(sizes[0]) + 1)
    assert result.unrounded_coef == pytest.approx([weight])


def test_counts_that_floats_do_not_hold_are_taken(rng):
    """Their sum as floats is not the number of rows in about 1% of all draws of this size."""
    n = 3 * 70001 * 4**18
    counts = (rng.multinomial(n, rng.dirichlet(np.ones(8))) for _ in range(10**5))
    odd = next(c for c in counts if c.astype(np.float64).sum() != n)
    gram, moment = _sums(lambda _: (np.eye(8), np.ones(8), odd), n, 8)
    assert np.allclose(moment / odd, 1, rtol=1e-15) and np.allclose(gram, np.diag(moment), rtol=1e-15)
    with pytest.raises(ValueError, match=r"rows, got 1\.44"):
        _sums(lambda _: (np.eye(8), np.ones(8), np.full(8, n // 8 * (1 + 1e-11))), n, 8)


def test_single_rows_are_as_good_as_counts():
    def draw(n):
        rng = np.random.default_rng(n)
        X = rng.uniform(-0.5, 0.5, size=(n, 2))
        return X, np.sign(rng.uniform(-1, 1, n) + X[:, 0])

    result = adaptive_ridge(draw, 2, penalty=0.5, bin_width=0.6, rho=0.5, shared_seed=1)
    assert result.n_samples < result.fixed_samples * 3


@schemes
def test_ridge_keeps_rho_and_saves_what_the_book_says(scheme, acceptance):
    """D = 4, 400 pairs a rho; at least 3 times fewer rows at .01 and 10 times at .003, at alarm 1e-6 for rho."""
    for rho, saving in ((0.1, 0.5), (0.01, 3), (0.003, 10)):
        rng, differ, drawn = np.random.default_rng(2), 0, []
        for seed in range(400):
            draw = coins_as_rows(4, rng.uniform(0.25, 0.75, 4), rng)
            settings = {"penalty": 0.1, "bin_width": 0.1, "rho": rho, "shared_seed": seed, "scheme": scheme}
            runs = [adaptive_ridge(draw, 4, **settings) for _ in range(2)]
            differ += bool((runs[0].codes != runs[1].codes).any())
            drawn += [run.n_samples for run in runs]
        assert differ <= acceptance(400, rho)[1]
        fixed = runs[0].fixed_samples
        assert fixed == pytest.approx(theory.ridge_last_stage(4, 0.1, rho, 0.1, scheme=scheme)[1])
        assert fixed / (np.mean(drawn) + 2 * np.std(drawn) / np.sqrt(len(drawn))) >= saving


def test_where_no_early_stage_fits_the_fixed_number_is_drawn():
    rng = np.random.default_rng(3)
    result = adaptive_ridge(coins_as_rows(2, np.full(2, 0.5), rng), 2, penalty=2.0, bin_width=0.3, rho=0.9)
    assert result.n_samples == math.ceil(result.fixed_samples) and result.n_stages == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"d": 0}, "d must be a whole number >= 1"),
        ({"penalty": 0.0}, "penalty must be positive"),
        ({"bin_width": -1.0}, "bin_width must be positive"),
        ({"rho": 1.0}, "rho must lie strictly"),
        ({"early": 0.0}, "early must lie strictly"),
        ({"ratio": 1}, "ratio must be an integer of at least 2, got 1"),
        ({"label_bound": -1.0}, "label_bound must be positive"),
        ({"target_norm": -1.0}, "target_norm must be a finite number >= 0"),
        ({"scheme": "hexagon"}, "scheme must be"),
        ({"draw": lambda n: (np.ones((n, 3)), np.ones(n))}, r"draw must return X of shape \(rows, 2\)"),
        ({"draw": lambda n: (np.ones((5, 2)), np.ones(5))}, "must return .* rows, got 5 in 5 rows"),
        ({"draw": lambda n: (np.ones((1, 2)), [1.0], [n + 1])}, "rows, got"),
        ({"draw": lambda n: (np.full((1, 2), np.nan), [1.0], [n])}, "X'X holds nan"),
        ({"draw": lambda n: (np.ones((1, 2)), [np.inf], [n])}, "X'y holds inf"),
    ],
)
def test_bad_arguments_of_ridge_are_refused_by_name(changed, message):
    arguments = {"draw": None, "d": 2, "penalty": 0.1, "bin_width": 0.2, "rho": 0.1} | changed
    with pytest.raises(ValueError, match=message):
        adaptive_ridge(arguments.pop("draw"), arguments.pop("d"), **arguments)


# R-LSVI.


def small_model(horizon=3):
    mdp = LinearMDP.random(n_states=10, n_actions=3, dim=3, horizon=horizon, rng=np.random.default_rng(1))
    return mdp, g_optimal_design(mdp.features)


SETTINGS = {"penalty": 1e-3, "bin_width": 0.2, "shared_seed": 1}


@schemes
def test_r_lsvi_stage_by_stage_keeps_rho_and_saves(scheme, acceptance):
    """200 pairs a rho, alarm 1e-6; fixed numbers grow like 1 / rho^2, the mean like 1 / rho or less."""
    mdp, core = small_model()
    mean = {}
    for rho in (0.1, 0.01, 0.001):
        rng, differ, drawn = np.random.default_rng(4), 0, []
        for seed in range(200):
            settings = SETTINGS | {"shared_seed": seed, "rho": rho, "scheme": scheme}
            runs = [adaptive_r_lsvi(mdp, core, rng=rng, **settings) for _ in range(2)]
            differ += runs[0].fingerprint() != runs[1].fingerprint()
            drawn += [run.n_samples for run in runs]
        assert differ <= acceptance(200, rho)[1]
        mean[rho] = np.mean(drawn)
        assert runs[0].fixed_samples.sum() > (10 if rho < 0.01 else 1 if rho < 0.1 else 0) * mean[rho]
    assert mean[0.001] < 30 * mean[0.01] and mean[0.01] < 30 * mean[0.1]


@schemes
def test_r_lsvi_s_weights_are_those_of_r_lsvi_at_the_same_cells(scheme):
    mdp, core = small_model()
    one = adaptive_r_lsvi(mdp, core, rho=0.01, rng=np.random.default_rng(0), scheme=scheme, **SETTINGS)
    two = r_lsvi(mdp, core, n_samples=10**14, rng=np.random.default_rng(9), scheme=scheme, **SETTINGS)
    np.testing.assert_array_equal(one.codes, two.codes)
    np.testing.assert_array_equal(one.weights, two.weights)
    np.testing.assert_array_equal(one.policy, two.policy)
    assert one.n_samples == one.stage_samples.sum() and one.settled.all()
    # Nothing is random in the labels of the last stage, so a draw of each pair settles it.
    assert one.stage_samples[-1] == one.fixed_samples[-1] == len(core.indices)


@schemes
def test_two_calls_of_one_seed_are_told_apart_by_their_key_as_r_lsvi_s_are(scheme):
    """The codes of a width of 1e-3 say where the grid lies; without a key they are as they were."""
    mdp, core = small_model(horizon=2)
    settings = SETTINGS | {"bin_width": 1e-3, "scheme": scheme}
    codes = {}
    for key in ((), ("second", 2)):
        one = adaptive_r_lsvi(mdp, core, rho=0.3, rng=np.random.default_rng(0), key=key, **settings)
        two = r_lsvi(mdp, core, n_samples=10**16, rng=np.random.default_rng(9), key=key, **settings)
        np.testing.assert_array_equal(one.weights, two.weights)
        codes[key] = one.weights
    assert not np.array_equal(*codes.values())
    unnamed = adaptive_r_lsvi(mdp, core, rho=0.3, rng=np.random.default_rng(0), **settings)
    np.testing.assert_array_equal(unnamed.weights, codes[()])
    with pytest.raises(TypeError, match="key must be a tuple"):
        adaptive_r_lsvi(mdp, core, rho=0.3, rng=np.random.default_rng(0), key=["a"], **settings)


def test_draws_one_by_one_and_a_model_as_a_function_do_as_well():
    mdp, core = small_model(horizon=2)
    by_draws = adaptive_r_lsvi(mdp, core, rho=0.3, rng=np.random.default_rng(0), by="draws", **SETTINGS)
    expected = r_lsvi(mdp, core, n_samples=10**14, rng=np.random.default_rng(9), **SETTINGS)
    np.testing.assert_array_equal(by_draws.codes, expected.codes)

    pairs = np.divmod(np.arange(mdp.n_states * mdp.n_actions), mdp.n_actions)

    def model(h, i, n, rng):
        s, a = pairs[0][i], pairs[1][i]
        following = mdp.sample(h, np.full(n, s), a, rng)
        return (rng.random(n) < mdp.rewards_table[h, s, a]) * 1.0, mdp.features[following]

    settings = SETTINGS | {"bin_width": 1.5}
    as_function = adaptive_r_lsvi(
        model, core, rho=0.5, rng=np.random.default_rng(0), features=mdp.features, horizon=2, **settings
    )
    expected = r_lsvi(mdp, core, n_samples=10**14, rng=np.random.default_rng(9), **settings)
    np.testing.assert_array_equal(as_function.codes, expected.codes)
    assert as_function.policy is None and as_function.stage_samples.min() > 1000

    def too_large(h, i, n, rng):
        rewards, following = model(h, i, n, rng)
        return 50 * rewards, following

    with pytest.raises(ValueError, match=r"rewards must lie in \[0, 1\], got 0 to 50"):
        adaptive_r_lsvi(
            too_large, core, rho=0.5, rng=np.random.default_rng(0), features=mdp.features, horizon=2, **settings
        )


def test_a_ratio_of_numpy_is_a_number():
    mdp, core = small_model()
    settings = SETTINGS | {"bin_width": 1e-3}
    one, two = (
        adaptive_r_lsvi(mdp, core, rho=1e-4, rng=np.random.default_rng(0), ratio=ratio, **settings)
        for ratio in (4, np.int8(4))
    )
    np.testing.assert_array_equal(one.codes, two.codes)


@schemes
def test_the_samples_without_stopping_by_hand(scheme):
    """Two orthogonal pairs, equally often: a weight is half a mean label over 1/2 + penalty; labels in [0, H + 1]."""
    H, penalty, width, rho = 2, 0.3, 0.5, 0.2
    run = adaptive_r_lsvi(
        lambda h, i, n, rng: (rng.random(n), np.zeros((n, 1, 2))),
        g_optimal_design(np.eye(2)),
        features=np.eye(2),
        horizon=H,
        rho=rho,
        penalty=penalty,
        bin_width=width,
        shared_seed=0,
        rng=np.random.default_rng(0),
        scheme=scheme,
    )
    spread = (H + 1) * np.sqrt(0.5) / (0.5 + penalty)
    cut = 2 * spread / width
    if scheme == "lattice":
        cut = np.sqrt(2) * spread * theory.cut_rate(2, width, "lattice", "worst")
    assert run.fixed_samples == pytest.approx((cut / (np.sqrt(2) * rho / H)) ** 2)
    assert run.unrounded_weights.shape == run.weights.shape == (H, 2)
    assert (np.linalg.norm(run.unrounded_weights - run.weights, axis=1) <= width / np.sqrt(2)).all()


def test_the_radius_of_several_means_and_the_kind_of_counts():
    # log(2 d / miss) / 2 = 4 for d = 3.
    assert _hoeffding(3, 6 * math.exp(-8)) == pytest.approx(2)
    assert _as_counts(np.array([2**63 - 1], object)).dtype == np.int64
    assert _as_counts(np.array([1, 2**63], object)).tolist() == [1.0, 2.0**63]


def test_counts_beyond_int64_are_drawn_in_the_normal_limit():
    mdp, core = small_model()
    settings = SETTINGS | {"bin_width": 1e-5}
    run = adaptive_r_lsvi(mdp, core, rho=1e-5, rng=np.random.default_rng(0), early=0.5, ratio=2, **settings)
    assert run.fixed_samples[0] > 1e20 and np.isfinite(run.weights).all()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rho": 0.0}, "rho must lie strictly"),
        ({"penalty": 0.0}, "penalty must be positive"),
        ({"bin_width": 0.0}, "bin_width must be positive"),
        ({"scheme": "hexagon"}, "scheme must be"),
        ({"ratio": 2.5}, "ratio must be an integer"),
        ({"early": 1.0}, "early must lie strictly"),
        ({"by": "rows"}, "by must be"),
    ],
)
def test_bad_arguments_of_r_lsvi_are_refused_by_name(changed, message):
    mdp, core = small_model()
    with pytest.raises(ValueError, match=message):
        adaptive_r_lsvi(mdp, core, rng=np.random.default_rng(0), **(SETTINGS | {"rho": 0.1} | changed))


@given(
    st.lists(st.floats(0.01, 1), min_size=3, max_size=6),
    st.floats(0.02, 0.9),
    st.floats(0.05, 2.0),
    st.sampled_from(["grid", "lattice"]),
    st.integers(0, 1000),
)
def test_the_last_look_is_enough_for_the_shares_that_whole_counts_have(nu, rho, width, scheme, seed):
    """Mean distances from each label's variance, at most a quarter of the squared span, for the counts as drawn."""
    nu, span, penalty, early, ratio = np.array(nu) / np.sum(nu), 2.0, 0.01, 0.2, 3
    design = np.random.default_rng(seed).normal(size=(len(nu), 3))
    design /= np.linalg.norm(design, axis=1, keepdims=True)
    counts, n_looks, miss, fixed = _looks(design, nu, span, penalty, width, rho, scheme, early, ratio)
    last = (counts * ratio ** (n_looks - 1)).astype(float)
    total = last.sum()
    inverse = np.linalg.inv((design * (last / total)[:, None]).T @ design + penalty * np.eye(3))
    deviation = np.sqrt(((inverse @ design.T / total) ** 2) @ last) * span / 2
    cuts = deviation.sum() / width
    if scheme == "lattice":
        cuts = np.linalg.norm(deviation) * theory.cut_rate(3, width, scheme, "worst")
    if n_looks == 1:
        assert np.sqrt(2) * cuts <= rho * (1 + 1e-9)
    else:
        assert (1 + 1 / np.sqrt(2)) * cuts <= (1 - early) * rho * (1 + 1e-9)
        assert 2 * miss * (n_looks - 1) == pytest.approx(early * rho)
        # No look is too early: its region can fit into a cell, but for what whole counts change.
        radius = 2 * deviation * np.sqrt(total / counts.sum() * np.log(6 / (early * rho / 2)) / 2)
        largest = radius.max() if scheme == "grid" else np.linalg.norm(radius)
        assert largest <= 1.5 * theory.cell_inradius(3, width, scheme)
    assert fixed > 0 and (counts >= 1).all()
