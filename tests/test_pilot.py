"""The pilot's bin width: closed forms, the shared list of widths, and laboratories with pilots of their own."""

import warnings

import numpy as np
import pytest
from scipy import stats

from rrl import PilotWarning, hypergrid_round, pilot_bin_width, shared_uniform
from rrl.theory import disagreement_probability

HEADS = np.array([0, 1])


def share(counts):
    return counts @ HEADS / counts.sum()


def own_pilot(seed, shared_seed, n_rows=1000, chance=0.3, **more):
    """One laboratory: its tosses are their own pilot, and it does what a warning leaves it to do."""
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(n_rows, [1 - chance, chance])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PilotWarning)
        return counts, pilot_bin_width(share, counts, rng=rng, shared_seed=shared_seed, **more)


def differ(labs, shared_seed):
    """Whether two laboratories publish different widths or codes."""
    codes = [hypergrid_round(share(c), p.bin_width, shared_seed=shared_seed).codes.item() for c, p in labs]
    return labs[0][1].bin_width != labs[1][1].bin_width or codes[0] != codes[1]


def test_a_coin_s_width_is_that_of_the_normal_law():
    """Spread of the answer over rngs: 1.2% at 4,000 resamples; allowed six times that."""
    pilot = pilot_bin_width(
        share, [700, 300], rho=0.05, rng=np.random.default_rng(1), n_samples=10**6, n_resamples=4000
    )
    assert pilot.smallest == pytest.approx(2 * np.sqrt(0.21 / (np.pi * 10**6)) / 0.05, rel=0.07)
    assert pilot.bin_width == pilot.smallest and pilot.width_risk == 0.0
    assert pilot.predicted == pytest.approx(0.05, rel=1e-4)


def test_several_entries_and_a_large_rho_meet_the_exact_law_averaged_over_fresh_pairs(rng):
    """Not the union bound, which would give a width a third larger; both spreads are about 2%."""
    rows = np.array([[1.0, 0, 0], [0, 3.0, 0], [0, 0, 0.2], [0, 0, 0]])

    def means(counts):
        return (counts @ rows / counts.sum()).reshape(3, 1)

    pilot = pilot_bin_width(means, [2500] * 4, rho=0.6, rng=rng, n_resamples=2000)
    one, two = (rng.multinomial(10_000, [0.25] * 4, size=20_000) @ rows / 10_000 for _ in range(2))
    assert disagreement_probability(one - two, pilot.bin_width).mean() == pytest.approx(0.6, abs=0.02)
    assert np.abs(one - two).sum(axis=1).mean() / 0.6 > 1.2 * pilot.bin_width


def test_equal_entries_meet_the_exact_law_where_the_union_bound_is_far_off():
    """Fifty copies of one number, rho = 0.9: even at half the union bound's width fewer pairs disagree."""
    pilot = pilot_bin_width(lambda c: np.full(50, share(c)), [70, 30], rho=0.9, rng=np.random.default_rng(3))
    assert pilot.predicted == pytest.approx(0.9, rel=1e-4)


def test_half_of_rho_is_kept_for_the_widths():
    shared = own_pilot(1, 0, rho=0.2, n_resamples=64)[1]
    alone = own_pilot(1, None, rho=0.1, n_resamples=64)[1]
    assert shared.smallest == alone.smallest > own_pilot(1, None, rho=0.2, n_resamples=64)[1].smallest


def test_a_number_of_rows_is_one_count_each():
    rows = np.random.default_rng(0).normal(size=50)
    both = [
        pilot_bin_width(lambda c: c @ rows / c.sum(), counts, rho=0.1, rng=np.random.default_rng(2))
        for counts in (50, np.ones(50, dtype=int))
    ]
    assert both[0] == both[1]


@pytest.mark.parametrize("ratio", [1.1, 2.0, 10.0])
def test_the_width_is_the_next_of_the_shared_list(ratio):
    for shared_seed in range(5):
        pilot = own_pilot(1, shared_seed, rho=0.1, ratio=ratio, key=("x",), n_resamples=64)[1]
        step = np.log(pilot.bin_width) / np.log(ratio) - shared_uniform(shared_seed, ("pilot", ("x",)), 1)[0]
        assert step == pytest.approx(round(step), abs=1e-9)
        assert 1 <= pilot.bin_width / pilot.smallest < ratio * (1 + 1e-12)
        assert pilot.predicted <= 0.05 * (1 + 1e-5)


@pytest.mark.parametrize(("ratio", "capped"), [(2.0, False), (1.01, True)])
def test_the_width_risk_is_the_distance_of_two_normal_means_of_eight_parts(monkeypatch, ratio, capped):
    logs = 0.1 * np.arange(8)
    widths = iter(np.exp([0, *logs]))
    monkeypatch.setattr("rrl.pilot._smallest_width", lambda *_: (next(widths), np.full((1, 1), 1e-9)))
    pilot = own_pilot(1, 0, rho=0.2, ratio=ratio)[1]
    distance = stats.foldnorm(0, scale=np.sqrt(2 * np.var(logs, ddof=1) / 8)).mean()
    assert pilot.width_risk == pytest.approx(1 if capped else distance / np.log(ratio))


def test_two_answers_get_different_widths_with_the_stated_probability(acceptance):
    """300 shared seeds, two fixed pilots; alarm 1e-6."""
    first, second = ([own_pilot(lab, r, rho=0.2, n_resamples=8)[1] for r in range(300)] for lab in (1, 2))
    one, two = first[0].smallest, second[0].smallest
    assert {p.smallest for p in first} == {one}
    low, high = acceptance(300, abs(np.log(one / two)) / np.log(2))
    assert 0 < low <= sum(a.bin_width != b.bin_width for a, b in zip(first, second)) <= high < 300


def test_laboratories_with_own_pilots_disagree_as_seldom_as_asked_and_as_predicted(acceptance):
    """250 pairs, rho = 0.2; alarm 1e-6. The width risk is compared with the widths' true spread."""
    rho, apart, risks, logs = 0.2, 0, [], []
    for pair in range(250):
        labs = [own_pilot((pair, lab), pair, rho=rho, n_resamples=96) for lab in range(2)]
        apart += differ(labs, pair)
        risks += [p.width_risk for _, p in labs]
        logs += [np.log(p.smallest) for _, p in labs]
    assert apart <= acceptance(250, rho)[1]
    gap = np.abs(np.subtract(logs[::2], logs[1::2])).mean() / np.log(2)
    assert np.mean(risks) == pytest.approx(gap, rel=0.3)  # the two standard errors are 5% and 2%


def test_without_a_shared_list_no_two_pilots_give_one_width():
    widths = {own_pilot(lab, None, rho=0.2, n_resamples=16)[1].bin_width for lab in range(20)}
    assert len(widths) == 20


def test_a_pilot_too_small_to_judge_its_own_error_says_so():
    """One toss of each kind: some eighth of the pilot has no spread, so nothing is known about the width."""
    with pytest.warns(PilotWarning, match=r"\(predicted\) \+ 1 \(width_risk\), more than rho=0.1"):
        pilot = pilot_bin_width(share, [1, 1], rho=0.1, rng=np.random.default_rng(0), shared_seed=0)
    assert pilot.width_risk == 1.0 and pilot.bin_width > 0 and not pilot.reached


def test_rare_rows_miss_rho_and_every_laboratory_is_told(acceptance):
    """Five rare rows in 200 in the mean: 150 pairs of laboratories, rho = 0.2.

    Were rho kept, so many pairs would be apart with probability 1e-6. A laboratory is not warned if its
    rare rows happen to fall into all eight parts, which one in twenty must not.
    """
    apart, reached, seed = 0, [], 0
    while len(reached) < 300:
        seed += 1
        try:
            labs = [own_pilot((seed, lab), seed, 200, 5 / 200, rho=0.2, n_resamples=64) for lab in (0, 1)]
        except ValueError:  # no rare row at all, which is refused
            continue
        apart += differ(labs, seed)
        reached += [pilot.reached for _, pilot in labs]
    assert apart > acceptance(150, 0.2)[1]
    assert np.mean(reached) <= 0.05


def test_a_pilot_that_suffices_is_seldom_warned_of(acceptance):
    """60 laboratories of 10,000 tosses: if one in twenty were warned, more than allowed are with chance 1e-6."""
    warned = sum(not own_pilot(lab, lab, 10_000, rho=0.2)[1].reached for lab in range(60))
    assert warned <= acceptance(60, 0.05)[1]


def test_a_pilot_that_is_shared_always_reaches_its_rho():
    with warnings.catch_warnings():
        warnings.simplefilter("error", PilotWarning)
        for seed in range(30):
            pilot = pilot_bin_width(share, [95, 5], rho=0.2, rng=np.random.default_rng(seed), n_resamples=32)
            assert pilot.reached and pilot.width_risk == 0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rho": 1.0}, "rho must lie strictly"),
        ({"rho": 9e-301}, "rho must be at least 1e-300, got 9e-301"),
        ({"ratio": 1.0}, "ratio must be finite and above 1, got 1.0"),
        ({"ratio": np.inf}, "ratio must be finite and above 1"),
        ({"n_resamples": 7}, "n_resamples must be an integer >= 8, got 7"),
        ({"n_samples": 0}, "n_samples must be an integer >= 1, got 0"),
        ({"n_samples": 1.5}, "n_samples must be an integer >= 1, got 1.5"),
        ({"counts": 1}, "two rows at least"),
        ({"counts": 0}, "two rows at least"),
        ({"counts": [0, 1]}, "two rows at least"),
        ({"counts": [[5, 5]]}, "one count a row"),
        ({"counts": [5, -1]}, "counts"),
        ({"estimate": lambda counts: np.nan}, r"estimate\(counts\) holds nan"),
        ({"estimate": lambda counts: 1.0}, "the estimate is the same for every resample"),
    ],
)
def test_bad_input_is_refused_by_name(changed, message):
    arguments = {"estimate": share, "counts": [50, 50], "rho": 0.1, "rng": np.random.default_rng(0)} | changed
    with pytest.raises(ValueError, match=message):
        pilot_bin_width(arguments.pop("estimate"), arguments.pop("counts"), **arguments)


def test_randomness_of_the_wrong_kind_is_refused():
    with pytest.raises(TypeError, match="rng must be a numpy"):
        pilot_bin_width(share, [5, 5], rho=0.1, rng=0)
    with pytest.raises(TypeError, match="shared_seed must be an integer"):
        pilot_bin_width(share, [5, 5], rho=0.1, rng=np.random.default_rng(0), shared_seed=0.5)
    with pytest.raises(TypeError, match="key must be a tuple"):
        pilot_bin_width(share, [5, 5], rho=0.1, rng=np.random.default_rng(0), shared_seed=0, key="x")


@pytest.mark.parametrize("given", [{"ratio": 3.0}, {"key": ("a",)}, {"key": 3.5}])
def test_what_one_pilot_for_all_does_not_use_is_refused(given):
    with pytest.raises(ValueError, match="ratio and key are for a shared list of widths: give shared_seed"):
        pilot_bin_width(lambda c: c @ [0, 1] / c.sum(), [5, 5], rho=0.1, rng=np.random.default_rng(0), **given)
