"""Figure 1: the simulator against Gymnasium, the batch against the estimator, the records against both."""

import builtins
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from scipy.stats import t as student

from rrl import RandomFourierFeatures, ReplicableFittedQ, fingerprint, modal_share, pairwise_share
from rrl.datasets import cartpole as load_cartpole
from rrl.datasets import cartpole_random, cartpole_step
from rrl.experiments.cartpole import sim
from rrl.experiments.cartpole import study as cartpole
from rrl.experiments.cartpole.fit import batched_fitted_q, cut_blocks, positive_parts
from rrl.experiments.cartpole.results import gather, interval, table
from rrl.experiments.cartpole.sim import play, start_states
from rrl.experiments.cli import EXPERIMENTS
from rrl.experiments.provenance import clock_seconds
from rrl.experiments.store import RunStore
from rrl.packing import unpack_array

RECORDS = RunStore(Path(__file__).parents[2] / "book" / "results" / "cartpole")
SMALL = cartpole.Settings(
    n_runs=4, fractions=(0.2, 0.6), penalties=(0.01, 0.3), n_features=8, n_blocks=20, n_episodes=4
)


@pytest.fixture(scope="module")
def data():
    return cartpole.load("standin")


@pytest.fixture(scope="module")
def rows():
    return cartpole_random(3_000, np.random.default_rng(8))


def random_policies(n, half=3, seed=0):
    """Policies that balance for a while: a good direction, disturbed at random."""
    rng = np.random.default_rng(seed)
    frequencies = rng.normal(size=(4, half))
    frequencies[:, 0] = (0.05, 0.2, 1.0, 1.0)
    differences = rng.normal(size=(n, 2 * half)) * rng.choice([0.03, 0.3, 3.0], size=(n, 1))
    differences[:, half] += 1
    return frequencies, differences


# The simulator.


@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_states_rewards_and_ends_are_gymnasiums_bit_for_bit(engine):
    gymnasium = pytest.importorskip("gymnasium")
    frequencies, differences = random_policies(12)
    starts = start_states(3, seed=5)
    env = gymnasium.make("CartPole-v1")
    ends = set()
    for difference in differences:
        for e in range(3):
            seen, _ = env.reset(seed=5 + e)
            assert (env.unwrapped.state == starts[e]).all()
            states, total, over = [], 0.0, False
            while not over:
                angles = seen.astype(float) @ frequencies
                value = np.concatenate([np.cos(angles), np.sin(angles)]) @ difference
                seen, reward, terminated, truncated, _ = env.step(int(value > 0))
                states.append(np.array(env.unwrapped.state))
                total, over = total + reward, terminated or truncated
            ends.add((terminated, truncated))
            # Every prefix of the episode, through the time limit: its last state and its length.
            for limit in sorted({1, 2, max(1, len(states) // 2), len(states), 500}):
                found = play(frequencies, difference[None], starts[e : e + 1], max_steps=limit, engine=engine)
                steps = min(limit, len(states))
                assert found.lengths[0, 0] == steps
                assert (found.states[0, 0] == states[steps - 1]).all()
            assert found.lengths[0, 0] == total
    assert {(True, False), (False, True)} <= ends  # falls and time limits both occurred


def test_both_engines_play_alike():
    pytest.importorskip("numba")
    frequencies, differences = random_policies(60, half=8, seed=1)
    starts = start_states(9, seed=0)
    compiled, plain = (play(frequencies, differences, starts, engine=e) for e in ("numba", "numpy"))
    assert (compiled.lengths == plain.lengths).all() and (compiled.states == plain.states).all()
    assert compiled.margin == pytest.approx(plain.margin, abs=1e-12)
    assert plain.margin > 1e-11  # no tie was near, so that the comparison above is fair
    assert len(np.unique(plain.lengths)) > 50


def test_actions_are_those_of_the_estimator(rows):
    features = RandomFourierFeatures(8, shared_seed=2, scale=[1, 1, 0.1, 1]).fit(rows.observations)
    q = ReplicableFittedQ(features, 2, penalty=0.01).fit(
        rows.observations, rows.actions, rows.rewards, rows.next_observations, rows.terminals
    )
    starts = start_states(5, seed=3)
    found = play(features.frequencies_, q.weights_[1:] - q.weights_[:1], starts, max_steps=1, engine="numpy")
    expected, _ = cartpole_step(starts, q.act(starts.astype(np.float32)))
    assert (found.states[0] == expected).all()


def test_numba_may_be_missing(monkeypatch):
    real = builtins.__import__

    def without_numba(name, *args, **kwargs):
        if name == "numba":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_numba)
    sim._compiled.cache_clear()
    try:
        frequencies, differences = random_policies(2)
        assert play(frequencies, differences, start_states(1, 0), max_steps=3).lengths.tolist() == [[3], [3]]
        with pytest.raises(ImportError, match=r"-rl\[experiments\]"):
            play(frequencies, differences, start_states(1, 0), engine="numba")
    finally:
        sim._compiled.cache_clear()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"engine": "jax"}, "engine must be"),
        ({"differences": np.zeros((2, 5))}, r"differences has shape \(2, 5\), expected \(n_policies, 6\)"),
        ({"differences": np.full((2, 6), np.nan)}, "not finite"),
    ],
)
def test_simulator_refuses_bad_input(change, message):
    frequencies, differences = random_policies(2)
    arguments = {"frequencies": frequencies, "differences": differences, "starts": start_states(1, 0), **change}
    with pytest.raises(ValueError, match=message):
        play(**arguments)


# The batch.


def one_by_one(data, settings, draw, sample, penalty, rounded=True):
    """The readable estimator on the rows of one sample."""
    parts, _ = cartpole.samples(data, settings, draw)
    rows = np.sort(np.concatenate([np.tile(part, times) for part, times in zip(parts, sample)]))
    sub = data.take(rows)
    q = ReplicableFittedQ(
        cartpole.feature_map(data, settings, draw),
        2,
        n_rounds=settings.n_rounds,
        penalty=penalty,
        gamma=settings.gamma,
        bin_width=settings.bin_width if rounded else None,
        shared_seed=draw,
    )
    return q.fit(sub.observations, sub.actions, sub.rewards, sub.next_observations, sub.terminals)


@pytest.mark.parametrize("sampling", ["rows", "episodes", "replacement"])
def test_batch_gives_the_codes_of_the_estimator(rows, sampling):
    settings = replace(SMALL, sampling=sampling)
    weights, codes, _ = cartpole.fit_draw(rows, settings, 3)
    _, choice = cartpole.samples(rows, settings, 3)
    for f in range(2):
        for r in range(4):
            for p, penalty in enumerate(settings.penalties):
                q = one_by_one(rows, settings, 3, choice[f, r], penalty)
                assert (q.history_codes_ == codes[:, f, r, p]).all()
                assert (q.weights_ == weights[f, r, p]).all()
                plain = one_by_one(rows, settings, 3, choice[f, r], penalty, rounded=False)
                np.testing.assert_allclose(plain.weights_, weights[f, r, 2 + p], atol=1e-9)
            baseline = one_by_one(rows, settings, 3, choice[f, r], 0.0, rounded=False)
            np.testing.assert_allclose(baseline.weights_, weights[f, r, 4], rtol=1e-4, atol=1e-4)


def test_batch_at_the_papers_size_gives_the_codes_of_the_estimator(data):
    settings = cartpole.Settings(n_runs=2, fractions=(0.1, 0.8), penalties=(1e-3, 0.1))
    _, codes, _ = cartpole.fit_draw(data, settings, 5)
    _, choice = cartpole.samples(data, settings, 5)
    for f, r, p in [(0, 0, 0), (0, 1, 1), (1, 0, 1)]:
        q = one_by_one(data, settings, 5, choice[f, r], settings.penalties[p])
        assert (q.history_codes_ == codes[:, f, r, p]).all()


def test_sum_form_is_the_mean_form_divided_by_the_rows(rows):
    features = cartpole.feature_map(rows, SMALL, 0)
    blocks = cut_blocks(rows, features, 0.99, [np.arange(len(rows))])
    n = blocks.counts[0]
    arguments = {"n_rounds": 1, "bin_width": 0.2, "shared_seed": 0}
    total = batched_fitted_q(blocks, [[1]], [50.0], [False], sums=True, **arguments).weights[0, 0, 0]
    for action in (0, 1):
        mean = batched_fitted_q(blocks, [[1]], [50.0 / n[action]], [False], **arguments).weights[0, 0, 0]
        np.testing.assert_allclose(total[action], mean[action], rtol=1e-10)


def test_one_step_from_the_runs_own_path_is_the_run(rows):
    parts, choice = cartpole.samples(rows, SMALL, 0)
    blocks = cut_blocks(rows, cartpole.feature_map(rows, SMALL, 0), 0.99, parts)
    arguments = {"n_rounds": 4, "bin_width": 0.2, "shared_seed": 0}
    own = batched_fitted_q(blocks, choice[0, :1], SMALL.penalties, [True, True], **arguments)
    again = batched_fitted_q(blocks, choice[0, :1], SMALL.penalties, [True, True], path=own.weights[:, 0], **arguments)
    assert (again.codes == own.codes).all()


@given(st.integers(0, 10**6))
@hypothesis_settings(max_examples=15)
def test_positive_parts_by_brute_force(seed):
    rng = np.random.default_rng(seed)
    rows = cartpole_random(60, rng)
    features = RandomFourierFeatures(4, shared_seed=seed).fit(rows.observations)
    parts = np.array_split(rng.permutation(60), 3)
    blocks = cut_blocks(rows, features, 0.9, parts)
    choice = rng.integers(0, 3, size=(2, 3))
    vectors = rng.normal(size=(2, 2, 4))
    vectors[1, 0] = vectors[0, 1]  # an equal pair, worked out once
    found = positive_parts(blocks, choice, vectors)
    phi = features.transform(rows.observations)
    following = features.transform(rows.next_observations) * 0.9 * ~rows.terminals[:, None]
    for s in range(2):
        index = np.concatenate([np.tile(part, times) for part, times in zip(parts, choice[s])]).astype(int)
        for c in range(2):
            gain = np.maximum(following[index] @ vectors[s, c], 0)
            for a in (0, 1):
                mine = rows.actions[index] == a
                np.testing.assert_allclose(found[s, c, a], phi[index[mine]].T @ gain[mine], atol=1e-9)


def test_terminal_rows_are_not_bootstrapped_and_unknown_states_do_no_harm(rows):
    features = cartpole.feature_map(rows, SMALL, 0)
    blind = replace(rows, next_observations=np.where(rows.terminals[:, None], np.nan, rows.next_observations))
    parts = [np.arange(len(rows))]
    one, two = (cut_blocks(each, features, 0.99, parts) for each in (rows, blind))
    assert (one.cross == two.cross).all() and rows.terminals.any()
    for action in (0, 1):
        ended = rows.terminals[one.rows[0][action]]
        assert (one.following[0][action][ended] == 0).all()
        assert (one.following[0][action][~ended] != 0).any(axis=1).all()


def test_a_sample_without_an_action_is_refused(rows):
    pushes = rows.take(rows.actions == 1)
    blocks = cut_blocks(pushes, cartpole.feature_map(rows, SMALL, 0), 0.99, [np.arange(len(pushes))])
    with pytest.raises(ValueError, match="no row of one of the actions"):
        batched_fitted_q(blocks, [[1]], [0.1], [True], n_rounds=1, bin_width=0.2, shared_seed=0)


# The samples.


def test_samples_differ_between_runs_and_not_between_calls(data):
    for sampling in ("rows", "episodes", "replacement"):
        settings = replace(SMALL, sampling=sampling)
        parts, choice = cartpole.samples(data, settings, 7)
        again = cartpole.samples(data, settings, 7)[1]
        assert (choice == again).all()
        assert len(np.unique(choice.reshape(8, -1), axis=0)) == 8
        assert (choice != cartpole.samples(data, settings, 8)[1]).any()
        assert sorted(np.concatenate(parts)) == list(range(len(data)))
        assert (choice.sum(axis=2) == [[4] * 4, [12] * 4]).all()
        assert (choice.max() > 1) == (sampling == "replacement")
        if sampling == "episodes":
            owners = [set(data.episodes[part]) for part in parts]
            assert sum(map(len, owners)) == data.n_episodes


def test_fresh_runs_share_no_data_and_the_features(data):
    small = data.take(np.arange(4_000))
    settings = replace(SMALL, sampling="fresh", n_runs=3, fractions=(0.5,))
    (weights, codes, steps), _ = cartpole.fit_fresh(small, settings, [0, 1])
    assert weights.shape == (1, 3, 5, 2, 8) and codes.shape == (5, 1, 3, 5, 2, 8) and steps.shape == (5, 1, 3, 2, 2, 8)
    assert len(np.unique(weights[0, :, 2].reshape(3, -1), axis=0)) == 3
    # Codes belong to their weights: the same grid for every run.
    offsets = weights[0, :, :2] - 0.2 * (codes[-1, 0, :, :2] + 0.5)
    np.testing.assert_allclose(offsets - offsets[:1], 0, atol=1e-12)


# Units and records.


def test_units_name_everything_and_refuse_unknown_names(data):
    every = cartpole.units("full", "all", data=data)
    names = [str(sorted(unit.items(), key=str)) for unit in every]
    assert len(set(names)) == len(every) and {unit["study"] for unit in every} == set(cartpole.STUDIES)
    assert all(unit["sha256"] == data.sha256 and unit["source"] == "standin" for unit in every)
    figure = cartpole.units("full", data=data)
    settings = figure[0]["settings"]
    assert settings["n_runs"] == 100 and len(settings["fractions"]) >= 8 and len(settings["penalties"]) >= 4
    assert settings["bin_width"] == 0.2 and settings["n_rounds"] == 5 and len(figure) >= 8
    with pytest.raises(ValueError, match="scale must be 'full' or 'quick', got 'huge'"):
        cartpole.units("huge", data=data)
    with pytest.raises(ValueError, match="study must be 'all' or one of"):
        cartpole.units("full", "nothing", data=data)


def test_tuning_never_sees_the_figures_data_or_draws(data):
    tuning = [unit for unit in cartpole.units("full", "all", data=data) if unit["study"].startswith("tuning")]
    figures = {d for u in cartpole.units("full", "all", data=data) if u not in tuning for d in u["draws"]}
    assert tuning and all(unit["settings"]["data"] == "replay" for unit in tuning)
    assert not figures & {draw for unit in tuning for draw in unit["draws"]}
    small = data.take(np.arange(2_000))
    other = cartpole.other_data(small, replace(SMALL, data="replay"))
    assert other.source == "replay" and len(other) == 2_000
    assert cartpole.other_data(small, replace(SMALL, data="random")).source == "random"
    assert cartpole.other_data(small, SMALL) is small


def tiny_units(data, n=2):
    settings = {**vars(SMALL), "fractions": (0.1, 0.5)}
    unit = cartpole.units("quick", data=data)[0]
    return [{**unit, "draws": [draw], "settings": settings} for draw in range(n)]


def test_a_unit_is_measured_as_documented(data):
    (unit,) = tiny_units(data, 1)
    result = {name: unpack_array(part)[0] for name, part in cartpole.compute(unit, source="standin").items()}
    settings = replace(SMALL, fractions=(0.1, 0.5))
    weights, codes, _ = cartpole.fit_draw(data, settings, 0)
    features = cartpole.feature_map(data, settings, 0)
    starts = start_states(4, 0)
    for c, f, r in [(0, 0, 0), (1, 1, 3), (4, 1, 2)]:
        w = weights[f, r, c]
        assert result["steps"][c, f, r] == play(features.frequencies_, w[1:] - w[:1], starts).lengths.sum()
    for p, f, r in [(0, 0, 0), (1, 1, 3)]:
        assert result["weights"][p, f, r] == int(fingerprint(codes[-1, f, r, p])[:8], 16)
        assert result["paths"][p, f] == pytest.approx(pairwise_share(codes[:, f, :, p].swapaxes(0, 1)))
    # Equal weights make equal policies, and labels point to the first run of each kind.
    same = (codes[-1, :, :, :2].reshape(2, 4, 1, 2, -1) == codes[-1, :, :, :2].reshape(2, 1, 4, 2, -1)).all(axis=-1)
    label = result["policies"][:2]
    for f, one, two, p in np.argwhere(same):
        assert label[p, f, one] == label[p, f, two] <= one
    assert ((0 <= result["predicted"]) & (result["predicted"] <= 1)).all()
    assert (result["predicted"][1] <= result["predicted"][0] + 1e-6).all()
    assert ((0.3 < result["matches"]) & (result["matches"] < 1)).all()
    assert result["spread"].shape == (2, 5, 3)
    assert result["spread"][1, 4, 1] == pytest.approx(np.median(weights[1, :, 4].std(axis=0)), rel=1e-6)
    assert result["modal"].shape == (2, 2, 8) and result["margin"] > 1e-12


def test_result_does_not_depend_on_jobs_and_resumes(data, tmp_path):
    units = tiny_units(data)
    work = partial(cartpole.compute, source="standin")
    alone = RunStore(tmp_path / "one").run(units, work, progress=False)
    pair = RunStore(tmp_path / "two").run(units, work, jobs=2, progress=False)
    assert [r["result"] for r in alone] == [r["result"] for r in pair]
    study = gather(alone)
    assert study.returns.shape == (2, 5, 2) and study.modal.shape == (2, 2, 2)
    names = study.arrays["weights"]
    assert study.modal[1, 0, 1] == modal_share(names[1, 0, 1])
    assert study.pairwise[1, 0, 1] == pairwise_share(names[1, 0, 1])
    lines = table(study)
    assert len(lines) == 2 * 2 + 2 and lines[0]["return"] == pytest.approx(study.returns[:, 0, 0].mean())
    assert lines[-1]["penalty"] is None


def test_units_of_other_data_are_refused(data):
    unit = {**tiny_units(data, 1)[0], "sha256": "0" * 64}
    with pytest.raises(ValueError, match="the unit is about data with SHA-256 0000"):
        cartpole.compute(unit, source="standin")


def test_main_fills_a_store_from_a_file(tmp_path, monkeypatch):
    whole = load_cartpole("standin")
    part = whole.take(np.arange(6_000))
    path = tmp_path / "mine.npz"
    np.savez(
        path,
        observations=part.observations,
        actions=part.actions,
        rewards=part.rewards,
        terminals=part.terminals,
        timeouts=part.timeouts,
    )
    tiny = {"n_runs": 3, "fractions": (0.5,), "penalties": (0.1,), "n_features": 4, "n_episodes": 2}
    monkeypatch.setitem(cartpole.STUDIES, "figure", (tiny, range(2)))
    records = cartpole.main("full", folder=tmp_path / "runs", source=path, progress=False)
    assert len(records) == 2 and {r["unit"]["source"] for r in records} == {"file"}
    assert gather(records).returns.shape == (2, 3, 1)


def test_interval_is_students():
    mean, half = interval([[1.0, 5.0], [2.0, 5.0], [6.0, 5.0]])
    assert mean.tolist() == [3.0, 5.0]
    assert half == pytest.approx([student.ppf(0.975, 2) * np.sqrt(7 / 3), 0])
    with pytest.raises(ValueError, match="at least two draws, got 1"):
        interval([1.0])


def test_gather_refuses_nothing_and_mixtures():
    with pytest.raises(ValueError, match="no records to gather"):
        gather([])
    with pytest.raises(ValueError, match="different settings"):
        gather([{"unit": {"settings": {"a": 1}}}, {"unit": {"settings": {"a": 2}}}])


def test_recorded_results_are_whole_and_recomputed_ones_agree(data):
    """Every draw of the book's figure, one run of it through the readable estimator: the same ten each time."""
    units = cartpole.units("full", data=data)
    records = [RECORDS.load(unit) for unit in units]
    assert all(records), "book/results/cartpole lacks records: run 'rrl run cartpole --scale full --data standin'"
    assert all(record["provenance"]["commit"] for record in records)
    settings = cartpole.Settings()
    for record in records:
        (draw,) = record["unit"]["draws"]
        rng = np.random.default_rng([4, draw])
        names = unpack_array(record["result"]["weights"])[0]
        _, choice = cartpole.samples(data, settings, draw)
        f, r, p = (rng.integers(n) for n in (len(settings.fractions), settings.n_runs, len(settings.penalties)))
        q = one_by_one(data, settings, draw, choice[f, r], settings.penalties[p])
        assert names[p, f, r] == int(fingerprint(q.codes_)[:8], 16)


def test_the_command_line_says_how_long_the_recorded_figure_took(data):
    seconds = clock_seconds(RECORDS.load(unit)["provenance"] for unit in cartpole.units("full", data=data))
    assert 2 * 60 < seconds < 3600 and "full scale takes minutes" in EXPERIMENTS["cartpole"]


@pytest.mark.parametrize("sampling", ["rows", "episodes", "replacement"])
def test_samples_are_made_of_blocks_that_all_draws_share(data, sampling):
    """As chapter 9 says; a block of rows is a random set of them, so its mean varies like one over as many rows."""
    settings = cartpole.Settings(sampling=sampling, n_runs=3)
    parts, choice = cartpole.samples(data, settings, 0)
    others, other_choice = cartpole.samples(data, settings, 1)
    assert all((one == two).all() for one, two in zip(parts, others)) and (choice != other_choice).any()
    assert len(parts) == 200 and np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(data)))
    assert (choice.sum(axis=2) == np.round(200 * np.array(settings.fractions))[:, None]).all()
    assert (choice.max() > 1) == (sampling == "replacement")
    means = np.array([data.observations[part, 2].mean() for part in parts])
    ratio = means.var(ddof=1) * len(data) / 200 / data.observations[:, 2].var()
    # Of 200 blocks: standard error 10%, allowed five times that. Rows of one episode resemble each other.
    assert ratio > 1.5 if sampling == "episodes" else abs(ratio - 1) < 0.5
