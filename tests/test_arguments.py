"""Any public function, any argument, anything: it works without a warning, or one error names the argument."""

# ruff: noqa: C408

import dataclasses
import inspect
import math
import re
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import rrl
from rrl import theory
from rrl.mdp.counts import multinomial_counts
from rrl.second_moment import round_symmetric

RNG = np.random.default_rng
MDP = rrl.LinearMDP.random(n_states=4, n_actions=2, dim=3, horizon=2, rng=RNG(0))
CORE = rrl.g_optimal_design(MDP.features)
X, Y = RNG(1).uniform(-0.5, 0.5, size=(12, 2)), RNG(2).uniform(size=12)
ACTIONS, ENDS = np.arange(12) % 2, np.arange(12) % 5 == 0
WALK = dict(observations=X, actions=ACTIONS, rewards=Y, next_observations=X / 2, terminals=ENDS)
ROUNDED = dict(shared_seed=1, key=("a", 1))


def coins(shared_seed, rng):
    return rrl.hypergrid_round(rng.binomial(100, 0.3) / 100, 0.1, shared_seed=shared_seed).codes


def draws(h, i, n, rng):
    return rng.uniform(size=n), rng.uniform(size=(n, 2, 2)) / 2


def tosses(n):
    assert n < 10**5  # what asks for more is no fault of the arguments
    return np.eye(2)[np.arange(n) % 2], np.arange(n) % 2.0


#: A good call of every public function; what it is given is then replaced, one by one.
CALLS = {
    "shared_uniform": (rrl.shared_uniform, dict(shared_seed=1, key=("a",), shape=3)),
    "shared_normal": (rrl.shared_normal, dict(shared_seed=1, key=("a",), shape=3)),
    "shared_integers": (rrl.shared_integers, dict(shared_seed=1, key=("a",), shape=3, below=6)),
    "shared_permutation": (rrl.shared_permutation, dict(shared_seed=1, key=("a",), n=6)),
    "hypergrid_round": (rrl.hypergrid_round, dict(a=[0.3, -1.2], bin_width=0.5, bounds=(-2.0, 2.0), **ROUNDED)),
    "lattice_round": (rrl.lattice_round, dict(a=[0.3, -1.2], bin_width=0.5, **ROUNDED)),
    "round_symmetric": (round_symmetric, dict(a=np.eye(2), bin_width=0.5, scheme="grid", **ROUNDED)),
    "project_psd": (rrl.project_psd, dict(a=np.eye(2))),
    "ridge_weights": (rrl.ridge_weights, dict(gram=np.eye(2), moment=[1.0, 2.0], penalty=0.1)),
    "barycentric_spanner": (rrl.barycentric_spanner, dict(features=X, bound=1.1)),
    "g_optimal_design": (rrl.g_optimal_design, dict(features=X, tolerance=0.01, max_iterations=1000)),
    "core_set_constant": (
        rrl.core_set_constant,
        dict(core=rrl.CoreSet([0, 1], [0.5, 0.5], 2.0), features=X, version="printed"),
    ),
    "r_lsvi": (
        lambda **given: rrl.r_lsvi(**given),
        dict(mdp=MDP, core_set=CORE, n_samples=100, penalty=0.1, bin_width=0.1, by="draws", rng=RNG(0), scheme="grid")
        | ROUNDED,
    ),
    "r_lsvi of a function": (
        lambda **given: rrl.r_lsvi(**given),
        dict(mdp=draws, core_set=rrl.g_optimal_design(X), n_samples=100, penalty=0.1, bin_width=None, rng=RNG(0))
        | dict(features=X, horizon=2)
        | ROUNDED,
    ),
    "r_qvi": (rrl.r_qvi, dict(mdp=MDP, n_samples=100, bin_width=0.1, rng=RNG(0), **ROUNDED)),
    "r_lsvi_ucb": (
        lambda **given: rrl.r_lsvi_ucb(**given),
        dict(mdp=MDP, n_rounds=3, n_trajectories=5, beta=0.5, penalty=0.1, bin_widths=(0.1, 0.1), rng=RNG(0))
        | dict(by="draws", keep_estimates=True, engine="numpy", growth=1.5)
        | ROUNDED,
    ),
    "policy_actions": (
        rrl.policy_actions,
        dict(policies=[lambda seen: np.zeros(len(seen), int)], observations=X),
    ),
    "clopper_pearson": (rrl.clopper_pearson, dict(successes=1, trials=10, confidence=0.9)),
    "fingerprint": (rrl.fingerprint, dict(codes=[1, 2])),
    "modal_share": (rrl.modal_share, dict(codes=[[1], [2]])),
    "pairwise_share": (rrl.pairwise_share, dict(codes=[[1], [2]])),
    "multinomial_counts": (multinomial_counts, dict(counts=[5], probabilities=[[0.5, 0.5]], rng=RNG(0))),
    "LinearMDP": (
        rrl.LinearMDP,
        dict(features=MDP.features, measures=MDP.measures, rewards=MDP.rewards, initial=MDP.initial),
    ),
    "LinearMDP.tabular": (
        rrl.LinearMDP.tabular,
        dict(transitions=[[[[1.0]] * 2]], rewards=[[[0.5, 1.0]]], initial=[1.0]),
    ),
    "LinearMDP.random": (rrl.LinearMDP.random, dict(n_states=4, n_actions=2, dim=3, horizon=2, rng=RNG(0))),
    "LinearMDP.simplex": (rrl.LinearMDP.simplex, dict(n_states=4, n_actions=2, dim=3, horizon=2, rng=RNG(0))),
    "LinearMDP.chain": (rrl.LinearMDP.chain, dict(n_states=3, horizon=2, slip=0.2)),
    "LinearMDP.river_swim": (rrl.LinearMDP.river_swim, dict(n_states=3, horizon=2)),
    "LinearMDP.combination_lock": (
        rrl.LinearMDP.combination_lock,
        dict(horizon=2, n_actions=2, slip=0.2, rng=RNG(0)),
    ),
    "LinearMDP.boundary_lock": (rrl.LinearMDP.boundary_lock, dict(bin_width=0.1)),
    "LinearMDP.steep_measure": (rrl.LinearMDP.steep_measure, dict(gap=0.1)),
    "LinearMDP.policy_values": (MDP.policy_values, dict(policy=np.zeros((2, 4), int))),
    "LinearMDP.policy_weights": (MDP.policy_weights, dict(policy=np.zeros((2, 4), int))),
    "LinearMDP.occupancy": (MDP.occupancy, dict(policy=np.full((2, 4, 2), 0.5))),
    "LinearMDP.sample": (MDP.sample, dict(h=0, s=[0, 1], a=1, rng=RNG(0))),
    "LinearMDP.sample_start": (MDP.sample_start, dict(n=3, rng=RNG(0))),
    "LinearMDP.sample_counts": (MDP.sample_counts, dict(h=0, counts=np.ones((4, 2), int), rng=RNG(0))),
    "LinearMDP.start_counts": (MDP.start_counts, dict(n=3, rng=RNG(0))),
    "ReplicableScaler": (
        lambda **given: rrl.ReplicableScaler(**given).fit(X).transform(X),
        dict(bin_width=0.5, scheme="grid", **ROUNDED),
    ),
    "ReplicableScaler.fit": (rrl.ReplicableScaler().fit, dict(X=X)),
    "ReplicableScaler.transform": (rrl.ReplicableScaler().fit(X).transform, dict(X=X)),
    "ReplicableScaler.inverse_transform": (rrl.ReplicableScaler().fit(X).inverse_transform, dict(X=X)),
    "ReplicableRidge": (
        lambda **given: rrl.ReplicableRidge(**given).fit(X, Y).predict(X),
        dict(penalty=0.1, bin_width="theorem", epsilon=0.1, delta=0.01, rho=0.1, scheme="grid", **ROUNDED),
    ),
    "ReplicableRidge.fit": (
        lambda **given: rrl.ReplicableRidge(0.1, bin_width=0.1).fit(**given),
        dict(X=X, y=Y, sample_weight=np.ones(12)),
    ),
    "ReplicableRidge.predict": (rrl.ReplicableRidge(0.1).fit(X, Y).predict, dict(X=X)),
    "ReplicableSecondMoment": (
        lambda **given: rrl.ReplicableSecondMoment(**given).fit(X),
        dict(bin_width="theorem", epsilon=0.1, delta=0.01, rho=0.1, n_rounds=2, scheme="grid", **ROUNDED),
    ),
    "ReplicableSecondMoment.fit": (
        lambda **given: rrl.ReplicableSecondMoment(bin_width=0.1).fit(**given),
        dict(X=X, sample_weight=np.ones(12)),
    ),
    "RandomFourierFeatures": (
        lambda **given: rrl.RandomFourierFeatures(**given).fit_transform(X),
        dict(n_features=4, length_scale=0.5, scale=[1.0, 2.0], **ROUNDED),
    ),
    "RandomFourierFeatures.fit": (lambda **given: rrl.RandomFourierFeatures(4).fit(**given), dict(X=X)),
    "RandomFourierFeatures.transform": (rrl.RandomFourierFeatures(4).fit(X).transform, dict(X=X)),
    "ReplicableFittedQ": (
        lambda **given: rrl.ReplicableFittedQ(**given).fit(**WALK).act(X),
        dict(features=rrl.RandomFourierFeatures(4), n_actions=2, n_rounds=2, penalty=0.1, gamma=0.9, bin_width=0.2)
        | dict(scheme="grid")
        | ROUNDED,
    ),
    "ReplicableFittedQ.fit": (
        lambda **given: rrl.ReplicableFittedQ(rrl.RandomFourierFeatures(4), 2, n_rounds=2).fit(**given),
        WALK,
    ),
    "ReplicableFittedQ.act": (
        rrl.ReplicableFittedQ(rrl.RandomFourierFeatures(4), 2).fit(**WALK).act,
        dict(observations=X),
    ),
    "estimate_replicability": (rrl.estimate_replicability, dict(run=coins, n_pairs=2, confidence=0.9, seed=0)),
    "pair_seeds": (rrl.pair_seeds, dict(seed=0, index=2)),
    "anytime_limits": (rrl.anytime_limits, dict(n_disagree=1, n_pairs=10, confidence=0.9)),
    "certification_law": (rrl.certification_law, dict(true_rho=0.1, rho=0.3, confidence=0.9, max_pairs=50)),
    "least_pairs": (rrl.least_pairs, dict(true_rho=0.1, rho=0.3, confidence=0.9)),
    "certify_replicability": (
        rrl.certify_replicability,
        dict(run=coins, rho=0.5, confidence=0.9, max_pairs=3, seed=0),
    ),
    "choose_bin_width": (
        rrl.choose_bin_width,
        dict(run=lambda s, rng, bin_width: [int(rng.random() > bin_width)], bin_widths=[0.5, 1.0, 2.0], rho=0.5)
        | dict(confidence=0.5, n_explore=2, max_pairs=20, seed=1),
    ),
    "pilot_bin_width": (
        rrl.pilot_bin_width,
        dict(estimate=lambda counts: counts / counts.sum(), counts=[400, 600], rho=0.3, rng=RNG(0), n_samples=10**6)
        | dict(ratio=2.0, n_resamples=20)
        | ROUNDED,
    ),
    "adaptive_round": (rrl.adaptive_round, dict(stages=[([0.3, 0.2], 0.01)], bin_width=0.5, scheme="grid", **ROUNDED)),
    "adaptive_ridge": (
        rrl.adaptive_ridge,
        dict(draw=tosses, d=2, penalty=0.5, bin_width=0.9)
        | dict(rho=0.5, label_bound=1.0, target_norm=1.0, scheme="grid", early=0.1, ratio=4)
        | ROUNDED,
    ),
    "adaptive_r_lsvi": (
        rrl.adaptive_r_lsvi,
        dict(mdp=MDP, core_set=CORE, rho=0.5, penalty=0.5, bin_width=0.9, shared_seed=1, rng=RNG(0), by="counts")
        | dict(scheme="grid", early=0.1, ratio=4, key=("a", 1)),
    ),
    "action_agreement": (rrl.action_agreement, dict(actions=[[0, 1], [0, 0]])),
    "td_target": (
        lambda **given: rrl.pqn.td_target(**given),
        dict(reward=Y, next_value=Y, terminated=ENDS, truncated=~ENDS, gamma=0.9),
    ),
    "q_lambda_targets": (
        lambda **given: rrl.pqn.q_lambda_targets(**given),
        dict(rewards=Y, next_values=Y, terminated=ENDS, truncated=~ENDS, gamma=0.9, q_lambda=0.5),
    ),
    "PQNConfig": (lambda **given: rrl.pqn.PQNConfig(**given), {}),
    "rounded_actions": (
        lambda **given: rrl.pqn.agreement.rounded_actions(**given),
        dict(q=np.ones((2, 3, 2)), grid_step=0.4, tie_break="independent", seed=1),
    ),
    "quantise": (lambda **given: rrl.pqn.quantise(**given), dict(q=Y, step=0.4)),
}

FORMULAS = {
    "disagreement_probability": dict(differences=[0.1, 0.2], bin_width=0.5),
    "rounding_disagreement_bound": dict(d1=4, d2=2, distance=0.1, bin_width=0.5, version="printed"),
    "rounding_error_bound": dict(d1=4, d2=2, bin_width=0.5),
    "slack": dict(rho=0.1, delta=0.01),
    "fixed_design_penalty": dict(epsilon=0.1, k=3, theta_norm=2.0),
    "ridge_weight_bound": dict(label_bound=1.0, penalty=0.1),
    "value_weight_bound": dict(d=3, H=4, h=1, version="sharp"),
    "bellman_loss_bound": dict(H=4, epsilon=0.1, version="printed"),
    "bonus_gap_bound": dict(gap=0.01, penalty=0.1, version="printed"),
    "bonus_difference_bound": dict(gap=0.01, penalty=0.1),
    "bonus_ratio_limits": dict(kappa=0.5, projected=False),
    "elliptical_potential_bound": dict(d=3, H=4, T=10, M=7, penalty=0.1),
    "gram_accuracy": dict(penalty=0.1, beta=2.0, H=4, epsilon=0.1, version="printed"),
    "jin_beta": dict(d=3, H=4, K=10, p=0.1, c=1.0),
    "ucb_gap_bound": dict(d=3, H=4, T=10, M=7, beta=2.0, penalty=0.1, delta=0.01, delta_w=0.1, bonus_gap=0.1),
    "ucb_parameters": dict(d=3, H=4, epsilon=0.1, delta=0.01, rho=0.1, version="corrected", beta=2.0),
    "unequal_bin_widths": dict(spread=[1.0, 2.0], bin_width=0.5),
    "cell_inradius": dict(d=3, bin_width=0.5, scheme="lattice"),
    "cell_surface": dict(d=3, bin_width=0.5, scheme="lattice"),
    "cut_rate": dict(d=3, bin_width=0.5, scheme="lattice", direction="uniform"),
    "lattice_rows": dict(d=3, error="worst"),
    "ladder": dict(theorem="4.1"),
    "lattice_scale": dict(d=3, bin_width=0.5),
    "rounding_rms_error": dict(d=3, bin_width=0.5, scheme="lattice"),
    "rotation_limits": dict(d=3),
    "prediction_rounding_error": dict(n_points=9, delta=0.01, bin_width=0.5),
    "typical_rounding_error": dict(d=3, delta=0.01, bin_width=0.5),
    "mean_vector_radius": dict(n_samples=100, delta=0.01, variance=0.5, size=1.0),
    "stopping_stages": dict(n_last=1000, n_first=10, rho=0.1, early=0.1, ratio=4),
    "mean_rows_bound": dict(sizes=[10, 100, 1000], radii=[0.1, 0.01], d=3, bin_width=0.5, scheme="lattice"),
}
#: What the others take, by the names of their arguments.
SYMBOLS = dict(d=3, k=3, H=4, epsilon=0.1, delta=0.01, rho=0.1, penalty=0.1, label_bound=2.0, weight_bound=3.0, t=2)
SYMBOLS |= dict(
    theta_norm=2.0, target_norm=3.0, coordinate_sum=1.5, n_samples=100, bin_width=0.5, n_points=9, early=0.1, log10=True
)
for name in theory.__all__:
    function = getattr(theory, name)
    if inspect.isfunction(function) and name != "ucb_chain":
        names = inspect.signature(function).parameters
        given = FORMULAS.get(name) or {key: SYMBOLS[key] for key in names if key in SYMBOLS}
        FORMULAS[name] = given
        CALLS[f"theory.{name}"] = (function, given)

ANYTHING = [
    None, "x", "", b"x", True, 0, -1, 7, 0.5, -0.0, 2**70, 10**400, math.nan, math.inf, -math.inf, 5e-324, 1e-310,
    1e-200, 1e-160, 1e160, 1e308, -1e308, 2 + 1j, Fraction(1, 3), Decimal("0.3"), np.float32(0.3), np.int64(3),
    np.bool_(True), [], {}, set(), (), (1, 2), [[1.0], [2.0, 3.0]], [None], ["a"], object(), np.zeros(0),
    np.zeros((3, 0)), np.array(0.5), np.array("a"), np.array([1, 2]), np.array([0.5, math.nan]), np.ones((2, 1)),
    np.full((2, 2), 1e308), np.full((2, 2), 1e-320), np.array([1, "a", None], object), np.zeros(2, "M8[s]"),
    RNG(0), rrl, MDP,
]  # fmt: skip


def odd(value):
    """Relatives of a good argument: its shape, its type, its scale or one of its entries is another."""
    if isinstance(value, (bool, str)) or callable(value) or value is None:
        return
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        return
    yield from (array[..., None], array[None], array * 1e308, array * 1e-320, array * 1e160, -array, array.astype(str))
    yield from (array.astype(object), array + 0j, array.tolist(), array.astype(np.float16))
    if array.ndim:
        yield from (array[0], array[:-1], np.concatenate([array, array]), array[:0], array.T)
        for entry in (math.nan, math.inf, 1e308, 0.5, -1.0, 5e-324):
            changed = array.copy()
            changed.flat[-1] = entry
            yield changed


def attempt(function, given):
    """The error of a call, or None; a warning of NumPy's is one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        try:
            function(**given)
        except Exception as error:
            return error
    return None


def complaint(name, argument, error):
    """Why an error is no clear refusal of an argument, or None."""
    allowed = (ValueError, TypeError)
    if name.startswith(("theory.", "adaptive")):
        allowed = (ValueError, TypeError, OverflowError)
    if isinstance(error, AssertionError):
        return None
    if not isinstance(error, allowed):
        return f"{type(error).__name__}: {error}"
    words = [argument, *SAYS.get(argument, ())]
    if not any(re.search(rf"(?<![A-Za-z_]){re.escape(word)}(?![A-Za-z])", str(error)) for word in words):
        return f"names no argument: {error}"
    return None


#: What an error may say in place of the name of an argument: scikit-learn's words, or what is computed from it.
SKLEARN = (
    "Expected 2D array",
    "Found array",
    "Complex data",
    "inhomogeneous",
    "convert string",
    "features",
    "samples",
    "numeric",
    "real number",
)
SAYS = {
    "X": (*SKLEARN, "sample_weight"),
    "y": (*SKLEARN, "bin_width"),
    "observations": SKLEARN,
    "epsilon": ("bin_width",),
    "n_rounds": ("bin_width",),
    "bounds": ("bin_width",),
    "bin_widths": ("bin_width",),
    "core": ("core_set",),
    "n_actions": ("actions",),
    "rewards": ("targets", "bin_width", "reward", "measures", "transitions"),
    "n_features": ("shape",),
    "transitions": ("transition", "measures"),
    "mdp": ("features",),
    "features": ("core_set", "rewards", "transitions", "transition", "reward", "measures"),
    "measures": ("transitions", "transition"),
    "counts": ("estimate", "n_samples"),
    "n_pairs": ("n_disagree",),
    "d": ("draw",),
    "penalty": ("n_last",),
    "bin_width": ("n_last",),
    "early": ("delta",),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning:test_arguments")
@pytest.mark.parametrize("name", CALLS)
def test_anything_works_or_is_refused_by_name(name):
    function, given = CALLS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rrl.PilotWarning)
        function(**given)
    unclear = []
    for argument, value in given.items():
        for other in [*ANYTHING, *odd(value)]:
            error = attempt(function, {**given, argument: other})
            fault = error and complaint(name, argument, error)
            if fault:
                unclear.append(f"{argument}={other!r}: {fault}")
    assert not unclear, "\n".join(unclear)


@pytest.mark.parametrize("name", sorted(CALLS.keys() - {"policy_actions"}))  # its states are the policies' own
def test_masked_entries_are_refused(name):
    """As a plain array, an entry under the mask would count; a mask of no entry is none."""
    function, given = CALLS[name]
    for argument, value in given.items():
        if isinstance(value, np.ndarray) or (isinstance(value, list) and isinstance(value[0], (int, float, list))):
            whole = np.ma.masked_array(value, mask=False)
            assert attempt(function, {**given, argument: whole}) is None
            whole[..., -1] = np.ma.masked
            told = str(attempt(function, {**given, argument: whole}))
            assert f"{argument} has masked entries" in told or "an array with masked entries" in told, (argument, told)


def test_every_public_function_is_called_here():
    functions = {f"theory.{name}" for name in theory.__all__ if inspect.isfunction(getattr(theory, name))}
    functions |= {name for name in rrl.__all__ if inspect.isfunction(getattr(rrl, name))}
    # These run programs or experiments, or take any kind of number; their own tests give them anything.
    assert functions - set(CALLS) == {"theory.ucb_chain", "certify_program", "trade_off", "plot_trade_off"}


def same(one, two):
    """Whether two results are equal, entry by entry and type by type of their numbers."""
    if dataclasses.is_dataclass(one):
        one, two = (vars(result) for result in (one, two))
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(same(one[name], two[name]) for name in one)
    if isinstance(one, (tuple, list)):
        return len(one) == len(two) and all(map(same, one, two))
    return type(one) is type(two) and np.array_equal(one, two)


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("size", [1, 1000])
def test_numbers_of_numpy_are_numbers(name, size):
    """In int64 a product wraps and in float32 it keeps half its digits; both happened in one call of eight."""
    function, given = CALLS[f"theory.{name}"]
    whole = {
        k: v for k, v in given.items() if isinstance(v, int) and not isinstance(v, bool) and k not in ("h", "n_first")
    }
    large = {k: v * size for k, v in whole.items()}
    plain = {k: float(np.float32(v)) if isinstance(v, float) else v for k, v in (given | large).items()}
    for integer in (np.int64, np.int32, np.uint32, np.array):
        kinds = {
            k: integer(v) if k in whole else np.float32(v) if isinstance(v, float) else v for k, v in plain.items()
        }
        assert same(function(**kinds), function(**plain)), integer


def test_formulas_whose_products_wrapped_in_int64():
    sizes = dict(d=300, epsilon=0.1, delta=0.01, rho=0.1, t=1000, version="printed")
    right = theory.second_moment_sample_size(**sizes)
    assert right == theory.second_moment_sample_size(**sizes | dict(d=np.int64(300), t=np.int64(1000))) > 1e29
    assert theory.rounding_error_bound(np.int64(4 * 10**9), np.int64(4 * 10**9), 0.5) == 10**9
    regret = dict(d=4, H=5, beta=1.0, penalty=1.0, delta=0.05)
    wrapped = theory.ucb_gap_bound(T=np.int64(10**6), M=np.int64(10**14), **regret)
    assert wrapped == theory.ucb_gap_bound(T=10**6, M=10**14, **regret)


def test_a_value_beyond_a_float_names_the_call():
    with pytest.raises(
        OverflowError, match=r"fixed_design_penalty\(epsilon=0.1, k=5e-324, theta_norm=1e-200\) is beyond"
    ):
        theory.fixed_design_penalty(0.1, 5e-324, 1e-200)
    # Nested: what a step on the way refuses is not what was given.
    with pytest.raises(OverflowError, match=r"lsvi_penalty\(d=2, k=3, H=1e-160, epsilon=0.1\) is beyond"):
        theory.lsvi_penalty(2, 3, 1e-160, 0.1)
    with pytest.raises(ValueError, match="epsilon must be positive and finite, got inf"):
        theory.lsvi_bin_width(2, 3, math.inf, 0.01, 0.1)
    assert theory.ridge_error_bound(10**30, 0.01, 0.1) == pytest.approx(theory.ridge_error_bound(1e30, 0.01, 0.1))
