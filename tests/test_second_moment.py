"""Algorithm 3 and the projection: brute force, optimality, streams, refusals, Theorem 3.3 at its own N."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from rrl import ReplicableSecondMoment, hypergrid_round, project_psd, theory
from rrl.second_moment import round_symmetric

# None of scikit-learn's checks is expected to fail; a new version that adds one shows here.
EXPECTED_FAILURES = {}


@parametrize_with_checks(
    [
        ReplicableSecondMoment(),
        ReplicableSecondMoment(bin_width=0.05, n_rounds=2),
        ReplicableSecondMoment(bin_width=None),
    ],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def state(estimator):
    """Every attribute as bytes, to see whether anything changed."""
    return {name: pickle.dumps(value) for name, value in vars(estimator).items()}


matrices = st.integers(1, 6).flatmap(
    lambda d: st.tuples(st.integers(0, 2**32), st.sampled_from([1e-6, 1.0, 1e8])).map(
        lambda pair: np.random.default_rng(pair[0]).normal(scale=pair[1], size=(d, d))
    )
)


# The projection.


@given(matrices)
def test_the_projection_is_symmetric_positive_semidefinite_and_idempotent(a):
    p = project_psd(a)
    np.testing.assert_array_equal(p, p.T)
    scale = np.abs(np.linalg.eigvalsh((a + a.T) / 2)).max()
    assert np.linalg.eigvalsh(p)[0] >= -1e-13 * scale
    np.testing.assert_array_equal(project_psd(p), p)
    assert not np.signbit(p[p == 0]).any()


@given(matrices, st.integers(0, 2**32))
def test_no_positive_semidefinite_matrix_is_nearer_and_the_optimality_conditions_hold(a, seed):
    p, scale = project_psd(a), np.abs(a).max()
    # Moreau: a = P - N with P, N >= 0 and <P, N> = 0 for the symmetric part of a.
    n = p - (a + a.T) / 2
    assert np.linalg.eigvalsh(n)[0] >= -1e-12 * scale
    assert abs((p * n).sum()) <= 1e-11 * scale**2
    distance = np.linalg.norm(p - a)
    rng = np.random.default_rng(seed)
    for spread in (1e-3, 1e-1, 1.0):
        root = rng.normal(scale=spread, size=p.shape)
        for candidate in (p + scale * root @ root.T, p * (1 - spread / 2), scale * root @ root.T):
            assert np.linalg.norm(candidate - a) >= distance * (1 - 1e-12)


@given(matrices, st.integers(0, 2**32), st.floats(0, 3))
def test_the_projection_brings_no_two_matrices_further_apart(a, seed, step):
    b = a + step * np.abs(a).max() * np.random.default_rng(seed).normal(size=a.shape)
    assert np.linalg.norm(project_psd(a) - project_psd(b)) <= np.linalg.norm(a - b) + 1e-12 * np.abs(b).max()


def test_the_projection_in_two_dimensions_by_hand():
    # Eigenvalues 3 and -1 of [[1, 2], [2, 1]]: what remains is 3/2 everywhere.
    np.testing.assert_allclose(project_psd([[1, 2], [2, 1]]), np.full((2, 2), 1.5), rtol=1e-14)
    np.testing.assert_array_equal(project_psd([[-1, 0], [0, -2]]), np.zeros((2, 2)))
    np.testing.assert_array_equal(project_psd([[-3.0]]), [[0.0]])
    np.testing.assert_array_equal(project_psd([[-0.0, 0.0], [-0.0, 1.0]]), [[0.0, 0.0], [0.0, 1.0]])
    assert not np.signbit(project_psd([[-0.0, -0.0], [-0.0, 1.0]])).any()


def test_large_entries_do_not_overflow_but_an_eigenvalue_may():
    large = np.array([[1.5e308, 1.0], [1.0, 1.0]])
    np.testing.assert_array_equal(project_psd(large), large)
    with pytest.raises(ValueError, match="an eigenvalue of a overflows"):
        project_psd([[1.7e308, 1.7e308], [1.7e308, -1.7e308]])


@pytest.mark.parametrize(
    ("a", "message"),
    [
        ([1.0, 2.0], "a must be a square matrix"),
        ([[1.0, 2.0]], "a must be a square matrix"),
        (np.empty((0, 0)), "a must be a square matrix"),
        ([["a"]], "a must hold real numbers"),
        ([[1j]], "Complex data not supported: a"),
        ([[np.inf]], r"a holds inf at index \(0, 0\)"),
    ],
)
def test_no_square_matrix_of_finite_numbers_is_refused_by_name(a, message):
    for call in (project_psd, lambda m: round_symmetric(m, 0.1, shared_seed=0)):
        with pytest.raises(ValueError, match=message):
            call(a)


def test_case_19_a_nan_in_either_triangle_and_an_empty_sample_are_refused():
    for a, index in (
        (np.full((2, 2), np.nan), "0, 0"),
        (np.array([[1, np.nan], [0.5, 2]]), "0, 1"),
        (np.array([[1, 0.5], [np.nan, 2]]), "1, 0"),
    ):
        with pytest.raises(ValueError, match=rf"a holds nan at index \({index}\)"):
            project_psd(a)
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        ReplicableSecondMoment().fit(np.empty((0, 3)))


def test_case_20_asymmetric_integer_and_good_matrices():
    np.testing.assert_allclose(project_psd(np.array([[1.0, 5.0], [0.0, 1.0]])), np.full((2, 2), 1.75), rtol=1e-14)
    integers = np.array([[2, 1], [1, 2]])
    np.testing.assert_array_equal(project_psd(integers), [[2.0, 1.0], [1.0, 2.0]])
    np.testing.assert_array_equal(integers, [[2, 1], [1, 2]])
    b = np.random.default_rng(0).normal(size=(102, 30))
    a = b @ b.T + 1e-4 * np.eye(102)
    p = project_psd(a)
    np.testing.assert_allclose(p, a, rtol=1e-12, atol=1e-12 * np.abs(a).max())
    np.testing.assert_array_equal(p, p.T)
    np.testing.assert_array_equal(project_psd(p), p)


# Rounding a symmetric matrix.


def test_round_symmetric_rounds_the_upper_triangle_mirrors_and_projects(rng):
    a = rng.normal(size=(4, 4))
    a = a @ a.T
    matrix, codes = round_symmetric(a, 0.5, shared_seed=6, key=("k",))
    rounded = hypergrid_round(
        [a[i, j] for i in range(4) for j in range(i, 4)], 0.5, shared_seed=6, key=("second_moment", ("k",))
    )
    np.testing.assert_array_equal(codes, rounded.codes)
    full, values = np.zeros((4, 4)), iter(rounded.values)
    for i in range(4):
        for j in range(i, 4):
            full[i, j] = full[j, i] = next(values)
    np.testing.assert_array_equal(matrix, project_psd(full))
    # Only the upper triangle is read.
    np.testing.assert_array_equal(round_symmetric(np.triu(a), 0.5, shared_seed=6, key=("k",))[0], matrix)


# The estimator.


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 12), st.integers(1, 3))
@settings(max_examples=50)
def test_the_unrounded_estimate_is_the_mean_of_outer_products_by_brute_force(seed, d, n, rounds):
    X = np.random.default_rng(seed).normal(size=(n, d))
    model = ReplicableSecondMoment(bin_width=0.1, n_rounds=rounds, shared_seed=2).fit(X)
    brute = rounds * sum(np.outer(x, x) for x in X) / n
    np.testing.assert_allclose(model.unrounded_second_moment_, brute, rtol=1e-12, atol=1e-14)
    matrix, codes = round_symmetric(model.unrounded_second_moment_, 0.1, shared_seed=2)
    np.testing.assert_array_equal(model.second_moment_, matrix)
    np.testing.assert_array_equal(model.codes_, codes)
    assert model.codes_.shape == (d * (d + 1) // 2,)
    plain = ReplicableSecondMoment(bin_width=None, n_rounds=rounds).fit(X)
    np.testing.assert_array_equal(plain.second_moment_, model.unrounded_second_moment_)
    assert plain.codes_ is None and plain.bin_width_ is None


def test_a_coarse_grid_needs_the_projection_and_the_codes_are_of_before_it():
    X = np.random.default_rng(0).uniform(-1, 1, size=(50, 4))
    projected = 0
    for seed in range(20):
        model = ReplicableSecondMoment(bin_width=1.0, shared_seed=seed).fit(X)
        assert np.linalg.eigvalsh(model.second_moment_)[0] > -1e-12
        upper = hypergrid_round(
            model.unrounded_second_moment_[np.triu_indices(4)], 1.0, shared_seed=seed, key=("second_moment", ())
        )
        np.testing.assert_array_equal(model.codes_, upper.codes)
        projected += not np.array_equal(model.second_moment_[np.triu_indices(4)], upper.values)
    assert projected > 10


@given(st.lists(st.integers(1, 199), max_size=6, unique=True).map(sorted), st.integers(0, 100))
@settings(max_examples=50)
def test_any_split_into_batches_gives_the_codes_of_one_fit(cuts, seed):
    X = np.random.default_rng(1).uniform(-0.5, 0.5, size=(200, 3))
    whole = ReplicableSecondMoment(bin_width=0.004, shared_seed=seed, n_rounds=2).fit(X)
    stream = ReplicableSecondMoment(bin_width=0.004, shared_seed=seed, n_rounds=2)
    for part in np.split(X, cuts):
        stream.partial_fit(part)
    np.testing.assert_array_equal(stream.codes_, whole.codes_)
    np.testing.assert_array_equal(stream.second_moment_, whole.second_moment_)
    assert stream.n_samples_seen_ == 200


@pytest.mark.parametrize(("name", "version"), [("theorem", "corrected"), ("printed", "printed")])
def test_named_bin_widths_are_the_theorems(name, version):
    model = ReplicableSecondMoment(bin_width=name, epsilon=0.3, delta=0.02, rho=0.2).fit(np.eye(3))
    assert model.bin_width_ == theory.second_moment_bin_width(3, 0.3, 0.02, 0.2, version=version)
    assert ReplicableSecondMoment().fit(np.eye(3)).bin_width_ == theory.second_moment_bin_width(3, 0.1, 0.01, 0.1)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble, np.int8, np.int64, np.uint8, np.bool_, object])
def test_any_real_type_gives_the_codes_of_its_float64_copy(kind):
    X = np.random.default_rng(0).integers(0, 2, size=(100, 3)).astype(kind)
    if np.dtype(kind).kind not in "bO":
        X = X * kind(100)
    ours, copy = (ReplicableSecondMoment(bin_width=0.01).fit(x) for x in (X, X.astype(np.float64)))
    np.testing.assert_array_equal(ours.codes_, copy.codes_)
    np.testing.assert_array_equal(ours.second_moment_, copy.second_moment_)


def test_layouts_read_only_memory_maps_lists_and_data_frames(tmp_path, rng, monkeypatch):
    X = rng.uniform(-1, 1, size=(100, 3))
    codes = ReplicableSecondMoment(bin_width=0.01).fit(X).codes_
    X.flags.writeable = False
    np.save(tmp_path / "X.npy", X)
    forms = (
        X,
        np.asfortranarray(X),
        np.load(tmp_path / "X.npy", mmap_mode="r"),
        X.tolist(),
        pd.DataFrame(X, columns=list("abc")),
    )
    for block in (2**20, 7):
        monkeypatch.setattr("rrl._estimators.BLOCK_ENTRIES", block)
        for form in forms:
            np.testing.assert_array_equal(ReplicableSecondMoment(bin_width=0.01).fit(form).codes_, codes)


def test_parameters_clone_repr_and_pickle(rng):
    X = rng.uniform(-1, 1, size=(100, 3))
    model = ReplicableSecondMoment(bin_width=0.1, shared_seed=4, n_rounds=2, key=("a", 1)).fit(X)
    assert repr(model) == "ReplicableSecondMoment(bin_width=0.1, key=('a', 1), n_rounds=2, shared_seed=4)"
    copy = clone(model)
    assert not hasattr(copy, "codes_") and copy.get_params() == model.get_params()
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.partial_fit(X).codes_, model.partial_fit(X).codes_)
    assert loaded.n_samples_seen_ == 200
    other = [clone(model).set_params(**change).fit(X).second_moment_ for change in ({"shared_seed": 5}, {"key": ()})]
    assert not any(np.array_equal(matrix, copy.fit(X).second_moment_) for matrix in other)


X0 = np.arange(12.0).reshape(4, 3) / 12
BAD_CALLS = [
    (X0 * np.nan, None, "Input X contains NaN"),
    (X0 + np.inf, None, "Input X contains infinity"),
    (np.empty((0, 3)), None, r"0 sample\(s\)"),
    (np.empty((4, 0)), None, r"0 feature\(s\)"),
    (np.arange(4.0), None, "Expected 2D array, got 1D"),
    (X0 + 1j, None, "Complex data not supported"),
    (X0 * 1e200, None, "X'X overflows float64"),
    (X0, [1, -1, 1, 1], "sample_weight must be finite, non-negative"),
    (X0, 0, "sample_weight must be finite, non-negative and not all zero"),
    (X0 * 1e-9, np.full(4, 1e308), "the sum of sample_weight overflows"),
]


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize(("X", "weight", "message"), BAD_CALLS, ids=[bad[2] for bad in BAD_CALLS])
def test_bad_data_are_refused_and_nothing_changes(method, used, X, weight, message):
    model = ReplicableSecondMoment(bin_width=0.1)
    if used:
        model.fit(X0)
    before = state(model)
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(X, sample_weight=weight)
    assert state(model) == before


def test_the_sum_over_rounds_may_not_overflow():
    with pytest.raises(ValueError, match="n_rounds times the mean of x x' overflows"):
        ReplicableSecondMoment(bin_width=None, n_rounds=1000).fit([[1e153]], sample_weight=[100]).fit([[1e153]])


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("bin_width", 0, ValueError),
        ("bin_width", "paper", ValueError),
        ("bin_width", [0.1], ValueError),
        ("epsilon", -1, ValueError),
        ("delta", 0.05, ValueError),
        ("delta", None, ValueError),
        ("rho", 0.02, ValueError),
        ("n_rounds", 0, ValueError),
        ("n_rounds", 1.5, ValueError),
        ("shared_seed", 0.5, TypeError),
        ("key", "a", TypeError),
    ],
)
def test_bad_parameters_are_refused_by_name_and_nothing_changes(name, value, error):
    model = ReplicableSecondMoment().fit(X0[:, :2]).set_params(**{name: value})
    before = state(model)
    with pytest.raises(error, match=name):
        model.fit(X0)
    assert state(model) == before


# Theorem 3.3 at its own sample size.


@pytest.mark.parametrize("t", [1, 3])
@pytest.mark.parametrize("version", ["corrected", "printed"])
def test_theorem_3_3_holds_at_its_own_sample_size_for_the_sum_over_t_distributions(t, version):
    """M draws from each of t distributions on one finite support are t multinomial draws of weights.

    The exact upper limits at confidence 1 - 1e-6 must lie below rho = .25 and delta = .05: with 300
    pairs and 600 runs that leaves room for 40 disagreements and 7 failures, so a rate of .25 or .05 would
    pass with probability 1e-6 at most.
    """
    d, epsilon, delta, rho, pairs = 2, 0.3, 0.05, 0.25, 300
    rng = np.random.default_rng(t)
    support = rng.normal(size=(9, d))
    support /= np.linalg.norm(support, axis=1, keepdims=True)
    laws = rng.dirichlet(np.ones(9), size=t)
    target = (support.T * laws.sum(axis=0)) @ support
    per_round = int(np.ceil(theory.second_moment_sample_size(d, epsilon, delta, rho, t=t, version=version) / t))
    assert 10**4 < per_round < 10**9
    bin_width = "theorem" if version == "corrected" else "printed"
    model = ReplicableSecondMoment(bin_width=bin_width, epsilon=epsilon, delta=delta, rho=rho, n_rounds=t)
    differ = failures = 0
    for seed in range(pairs):
        runs = [
            clone(model)
            .set_params(shared_seed=seed)
            .fit(support, sample_weight=sum(rng.multinomial(per_round, law) for law in laws))
            for _ in range(2)
        ]
        differ += not np.array_equal(runs[0].codes_, runs[1].codes_)
        failures += sum(np.linalg.norm(run.second_moment_ - target) > epsilon for run in runs)
    assert beta.isf(1e-6, differ + 1, pairs - differ) < rho
    assert beta.isf(1e-6, failures + 1, 2 * pairs - failures) < delta


def test_erratum_e8_the_target_is_the_sum_of_the_rounds_not_their_mean():
    rng = np.random.default_rng(0)
    support, t, m = np.eye(3), 3, 10**6
    laws = rng.dirichlet(np.ones(3), size=t)
    means = np.array([np.diag(law) for law in laws])
    model = ReplicableSecondMoment(bin_width=1e-3, n_rounds=t)
    for law in laws:
        model.partial_fit(support, sample_weight=rng.multinomial(m, law))
    assert np.linalg.norm(model.second_moment_ - means.sum(axis=0)) < 0.01
    assert np.linalg.norm(model.second_moment_ - means.mean(axis=0)) > 1


def test_disagreement_follows_the_exact_law_at_a_small_sample_size(acceptance):
    rng = np.random.default_rng(3)
    support = rng.normal(size=(5, 2)) / 2
    trials, law, differ = 1000, [], 0
    for seed in range(trials):
        runs = [
            ReplicableSecondMoment(bin_width=0.1, shared_seed=seed).fit(
                support, sample_weight=rng.multinomial(1000, [0.2] * 5)
            )
            for _ in range(2)
        ]
        gap = (runs[0].unrounded_second_moment_ - runs[1].unrounded_second_moment_)[np.triu_indices(2)]
        law.append(theory.disagreement_probability(gap, 0.1))
        differ += not np.array_equal(runs[0].codes_, runs[1].codes_)
    # A sum of independent events has at most the spread of a binomial with the mean probability.
    low, high = acceptance(trials, np.mean(law))
    assert 0.1 < np.mean(law) < 0.9
    assert low <= differ <= high
