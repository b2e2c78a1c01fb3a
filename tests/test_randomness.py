"""The shared random string: golden values, an independent generator, distinct and uniform streams."""

import hashlib
import itertools
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rrl import (
    LinearMDP,
    ReplicableRidge,
    g_optimal_design,
    r_lsvi,
    r_lsvi_ucb,
    randomness,
    shared_integers,
    shared_normal,
    shared_permutation,
    shared_uniform,
)
from rrl._checks import check_key, check_seed
from rrl.datasets import cartpole_play, cartpole_random, cartpole_replay
from rrl.mdp.counts import multinomial_counts

# Copied once from a verified run: a change of any digit breaks every recorded result.
GOLDEN = [
    (0, (), ["0x1.a3a39d07839e2p-2", "0x1.1940cf70728ddp-1", "0x1.c3cdfb1f909fcp-2"]),
    (7, ("ridge", 3, 2), ["0x1.6b3a9fb3ab642p-2", "0x1.e6054248af9dap-2", "0x1.68bbe3453a45fp-1"]),
    (-1, (("a", 0), "b"), ["0x1.293d5619e491ap-2", "0x1.c20f51cc04c76p-1", "0x1.9efa2879b929bp-1"]),
    (2**200, ("big", -(2**70)), ["0x1.d0197a8d41700p-2", "0x1.dec5acfecbf10p-4", "0x1.76cd1f4187ac6p-2"]),
]
GOLDEN_NORMAL = ["0x1.a5a5c1505af0fp-3", "0x1.3e2dd2cc267e9p+0", "-0x1.384a29c78d0a0p+0"]
GOLDEN_INTEGERS = [764, 861, 262, 145, 586, 851, 835, 299]
GOLDEN_ORDER = [0, 3, 4, 5, 7, 6, 1, 2]


def integer_bytes(number):
    """The encoding of one item, written a second time."""
    if isinstance(number, tuple):
        return f"t{len(number)}:".encode() + b"".join(map(integer_bytes, number))
    text = number.encode() if isinstance(number, str) else format(number, "x").encode()
    return (b"s" if isinstance(number, str) else b"i") + str(len(text)).encode() + b":" + text


def philox_words(key, counter, n):
    """Philox4x64-10 of Salmon et al. (2011) in plain integers; numpy counts before it draws."""
    mask, words = 2**64 - 1, []
    while len(words) < n:
        total = (sum(c << (64 * i) for i, c in enumerate(counter)) + 1) % 2**256
        counter = [(total >> (64 * i)) & mask for i in range(4)]
        x, k = list(counter), list(key)
        for _ in range(10):
            one, two = 0xD2E7470EE14C6C93 * x[0], 0xCA5A826395121157 * x[2]
            x = [(two >> 64) ^ x[1] ^ k[0], two & mask, (one >> 64) ^ x[3] ^ k[1], one & mask]
            k = [(k[0] + 0x9E3779B97F4A7C15) & mask, (k[1] + 0xBB67AE8584CAA73B) & mask]
        words += x
    return words[:n]


def plain_words(kind, seed, key, n):
    digest = hashlib.sha256(f"rrl.shared_{kind}/1:".encode() + integer_bytes((seed, key))).digest()
    words = [int.from_bytes(digest[i : i + 8], "little") for i in range(0, 32, 8)]
    return philox_words(words[:2], [0, 0, *words[2:]], n)


def plain_uniform(seed, key, n):
    return [(word >> 11) / 2**53 for word in plain_words("uniform", seed, key, n)]


@pytest.mark.parametrize(("seed", "key", "hexadecimal"), GOLDEN)
def test_golden_values(seed, key, hexadecimal):
    assert [x.hex() for x in shared_uniform(seed, key, 3).tolist()] == hexadecimal


@pytest.mark.parametrize("seed", [0, 1, -5, 2**64 + 3, 16**5000], ids=["0", "1", "-5", "2^64+3", "16^5000"])
@pytest.mark.parametrize("key", [(), ("ridge", 0, 1), ("é", ("t", -3), ())])
def test_a_second_generator_in_plain_python_gives_the_same_doubles(seed, key):
    assert shared_uniform(seed, key, 9).tolist() == plain_uniform(seed, key, 9)


KEYS = [
    (),
    ("a",),
    ("a", 0),
    ("ab",),
    ("a", "b"),
    (("a", "b"),),
    (("a",), "b"),
    ("a", ("b",)),
    ((),),
    ((), ()),
    ("",),
    ("", ""),
    (0,),
    ("0",),
    (1,),
    (-1,),
    (10,),
    (1, 0),
    (2**63,),
    (2**64,),
    (-(2**64),),
    (2**64 + 1,),
    ("i1:0",),
    ("a", 0, 0),
    ("é",),
    ("e",),
]


def test_streams_of_different_names_share_no_number():
    draws = [set(shared_uniform(seed, key, 50).tolist()) for seed in (0, 1, -1, 2**64) for key in KEYS]
    assert all(len(draw) == 50 for draw in draws)
    assert all(one.isdisjoint(two) for one, two in itertools.combinations(draws, 2))


items = st.recursive(
    st.integers(-(2**80), 2**80) | st.text(max_size=4).filter(lambda s: s.isprintable()),
    lambda part: st.lists(part, max_size=3).map(tuple),
    max_leaves=6,
)
keys = st.lists(items, max_size=4).map(tuple)


@given(st.tuples(st.integers(), keys), st.tuples(st.integers(), keys))
def test_equal_names_and_only_they_give_equal_streams(one, two):
    assert np.array_equal(shared_uniform(*one, 4), shared_uniform(*two, 4)) == (one == two)


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64, np.uint8, np.uint64])
def test_numpy_integers_are_integers(kind):
    np.testing.assert_array_equal(shared_uniform(kind(7), ("a", kind(3)), 5), shared_uniform(7, ("a", 3), 5))
    assert np.str_("a") == "a"
    np.testing.assert_array_equal(shared_uniform(7, (np.str_("a"), 3), 5), shared_uniform(7, ("a", 3), 5))


def test_shapes_are_filled_in_row_major_order_and_longer_draws_begin_with_shorter():
    line = shared_uniform(4, ("s",), 24)
    assert line.dtype == np.float64
    np.testing.assert_array_equal(shared_uniform(4, ("s",), (2, 3, 4)).ravel(), line)
    np.testing.assert_array_equal(shared_uniform(4, ("s",), [24]), line)
    np.testing.assert_array_equal(shared_uniform(4, ("s",), np.int64(7)), line[:7])
    assert shared_uniform(4, ("s",), ()).shape == ()
    assert shared_uniform(4, ("s",), (3, 0)).shape == (3, 0)


@pytest.mark.parametrize("seed", [1.0, "1", None, True, np.True_, (1,), np.array([1, 2])])
def test_a_seed_that_is_no_integer_is_refused(seed):
    with pytest.raises(TypeError, match="shared_seed must be an integer"):
        shared_uniform(seed, (), 1)


@pytest.mark.parametrize("key", [["a"], "a", 3, None, {"a"}])
def test_a_key_that_is_no_tuple_is_refused(key):
    with pytest.raises(TypeError, match="key must be a tuple"):
        shared_uniform(0, key, 1)


@pytest.mark.parametrize("item", [1.5, None, ["a"], b"a", np.array([1, 2]), (("a", 2.0),)])
def test_a_key_item_of_another_type_is_refused(item):
    with pytest.raises(TypeError, match="key must be made of ints, strings and tuples"):
        shared_uniform(0, ("a", item), 1)


@pytest.mark.parametrize("item", [True, False, np.True_])
def test_a_boolean_in_a_key_is_refused_because_it_would_equal_an_integer(item):
    with pytest.raises(TypeError, match="key holds the boolean"):
        shared_uniform(0, (item,), 1)


@pytest.mark.parametrize(
    ("shape", "error"),
    [
        (2.5, TypeError),
        ("3", TypeError),
        ((2, 1.0), TypeError),
        (None, TypeError),
        (-1, ValueError),
        ((2, -3), ValueError),
    ],
)
def test_a_bad_shape_is_refused_by_name(shape, error):
    with pytest.raises(error, match="shape must"):
        shared_uniform(0, (), shape)


def test_the_checks_return_and_raise_what_they_say():
    assert check_seed(np.int16(-3)) == -3 and type(check_seed(np.int16(-3))) is int
    assert check_key(("a", 1)) is None
    with pytest.raises(TypeError, match="key must be made of"):
        check_key(("a", 1.5))


def test_no_global_random_state_is_touched():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    shared_uniform(0, ("x",), 100)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


# Four tests of the distribution: each false alarm has probability 1e-6, were the streams truly random.
N = 200_000


@pytest.mark.parametrize("key", [("u", 1), ("u", 2)])
def test_uniform_by_kolmogorov_smirnov(key):
    """Power: a shift of the distribution function by .0065 at any point is seen with chance > .999."""
    draw = shared_uniform(11, key, N)
    assert draw.min() >= 0 and draw.max() < 1
    assert stats.kstest(draw, "uniform").pvalue > 1e-6


def test_uniform_over_cells_and_pairs_of_neighbours_independent():
    """Chi-squared over 32 x 32 cells of consecutive draws, and over 1024 cells of the low-order part."""
    draw = shared_uniform(12, ("chi",), N)
    cells = np.floor(draw * 32).astype(int)
    pairs = np.bincount(cells[::2] * 32 + cells[1::2], minlength=1024)
    assert stats.chisquare(pairs).pvalue > 1e-6
    fraction = (draw * 2**43) % 1
    assert stats.chisquare(np.bincount(np.floor(fraction * 1024).astype(int), minlength=1024)).pvalue > 1e-6


@pytest.mark.parametrize("vary", ["key", "seed"])
def test_first_draws_of_neighbouring_streams_are_independent(vary):
    """One number from each of 20,000 consecutive names: uniform, and uncorrelated with its neighbour."""
    draws = [shared_uniform(0, ("k", i), ()) if vary == "key" else shared_uniform(i, ("k",), ()) for i in range(20_000)]
    assert stats.kstest(draws, "uniform").pvalue > 1e-6
    assert stats.pearsonr(draws[:-1], draws[1:]).pvalue > 1e-6


def test_case_22_streams_of_seed_stage_run_differ_and_seed_zero_is_a_seed():
    keys = [(), ("stage", 0), ("stage", 0, "run", 0), (0,), (0, 0)]
    draws = [shared_uniform(7, key, 20) for key in keys]
    assert all(np.intersect1d(one, two).size == 0 for one, two in itertools.combinations(draws, 2))
    code = (
        "import numpy as np; from rrl import ReplicableRidge; r = np.random.default_rng(1);"
        "X = r.normal(size=(50, 3)); y = r.normal(size=50);"
        "print(ReplicableRidge(bin_width=.1, shared_seed=0).fit(X, y).coef_.tobytes().hex())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": s},
        ).stdout
        for s in ("1", "2")
    }
    assert len(outputs) == 1
    r = np.random.default_rng(1)
    X, y = r.normal(size=(50, 3)), r.normal(size=50)
    assert outputs.pop().strip() == ReplicableRidge(bin_width=0.1, shared_seed=0).fit(X, y).coef_.tobytes().hex()
    assert not np.array_equal(
        ReplicableRidge(bin_width=0.1, shared_seed=1).fit(X, y).coef_, ReplicableRidge(bin_width=0.1).fit(X, y).coef_
    )


def test_threads_draw_what_one_thread_draws():
    names = [("thread", i) for i in range(64)]
    with ThreadPoolExecutor(8) as pool:
        threaded = list(pool.map(lambda key: shared_uniform(3, key, 1000), names * 4))
    for key, draw in zip(names * 4, threaded, strict=True):
        np.testing.assert_array_equal(draw, shared_uniform(3, key, 1000))


# The other draws, from the same words.


def test_golden_normals_integers_and_orders():
    key = ("ridge", 3, 2)
    assert [x.hex() for x in shared_normal(7, key, 3).tolist()] == GOLDEN_NORMAL
    assert shared_integers(7, key, 8, below=1000).tolist() == GOLDEN_INTEGERS
    assert shared_permutation(7, key, 8).tolist() == GOLDEN_ORDER


def test_normals_are_quantiles_to_sixteen_digits():
    """Of the words of a second generator, by Newton's method in forty digits."""
    mpmath = pytest.importorskip("mpmath")
    uniform = [word >> 11 for word in plain_words("normal", 5, ("n",), 300)]
    ours = shared_normal(5, ("n",), 300)
    # Ends, both sides of the joints at 0.075 and e^-25, and the middle.
    ends = [
        0,
        1,
        2**53 - 1,
        2**52 - 1,
        2**52,
        *(int(2**53 * p) + i for p in (0.075, 1.4e-11, 0.925) for i in (-1, 0, 1)),
    ]
    uniform += ends
    ours = np.concatenate([ours, randomness._normal_quantile(np.array(ends) * 2.0**-53)])
    with mpmath.workdps(40):
        for cell, found in zip(uniform, ours.tolist(), strict=True):
            p, exact = (mpmath.mpf(cell) + 0.5) / 2**53, mpmath.mpf(found)
            for _ in range(3):
                exact -= (mpmath.ncdf(exact) - p) / mpmath.npdf(exact)
            assert abs(found / exact - 1) < 1e-15


def test_normals_are_symmetric_and_bounded():
    cells = np.concatenate([np.arange(50), np.random.default_rng(0).integers(2**52, size=1000)])
    low, high = (randomness._normal_quantile(k * 2.0**-53) for k in (cells, 2**53 - 1 - cells))
    np.testing.assert_array_equal(low, -high)
    assert (low < 0).all() and -8.3 < low.min() < -8.2


def test_normals_by_kolmogorov_smirnov_and_chi_squared_of_neighbours():
    draw = shared_normal(11, ("u", 1), N)
    assert stats.kstest(draw, "norm").pvalue > 1e-6
    cells = np.floor(stats.norm.cdf(draw) * 32).astype(int)
    assert stats.chisquare(np.bincount(cells[::2] * 32 + cells[1::2], minlength=1024)).pvalue > 1e-6


@pytest.mark.parametrize("below", [1, 2, 3, 1000, 2**53 + 1, 2**63 - 1, 3 * 2**61, 2**62 + 1])
def test_integers_are_the_words_that_a_second_generator_accepts(below):
    words = plain_words("integers", 3, ("i", below), 400)
    expected = [word % below for word in words if word < 2**64 // below * below]
    found = shared_integers(3, ("i", below), 120, below=below)
    assert found.tolist() == expected[:120]
    assert found.dtype == np.int64 and found.min() >= 0 and found.max() < below


@pytest.mark.parametrize(("below", "cells"), [(6, 6), (1000, 1000), (3 * 2**61, 6)])
def test_integers_are_uniform(below, cells):
    """By chi-squared; of the third, two words in eight are left out, and kept they would double two cells of six."""
    draw = shared_integers(4, ("law",), N, below=below)
    assert stats.chisquare(np.bincount(draw // (below // cells), minlength=cells)).pvalue > 1e-6


def test_each_order_of_four_is_as_likely():
    orders = np.array([shared_permutation(seed, ("law",), 4) for seed in range(12_000)])
    assert (np.sort(orders, axis=1) == np.arange(4)).all()
    counts = np.unique(orders @ [64, 16, 4, 1], return_counts=True)[1]
    assert counts.size == 24 and stats.chisquare(counts).pvalue > 1e-6


def test_equal_words_are_drawn_anew(monkeypatch):
    class Bits:
        rows = iter([[5, 5, 1], [9, 2, 9], [3, 7, 5]])

        def random_raw(self, n):
            return np.array(next(self.rows), dtype=np.uint64)

    monkeypatch.setattr(randomness, "_stream", lambda *name: Bits())
    assert shared_permutation(0, (), 3).tolist() == [0, 2, 1]


def test_kinds_of_draws_under_one_key_share_nothing():
    words = [set(plain_words(kind, 0, ("a",), 200)) for kind in ("uniform", "normal", "integers", "permutation")]
    assert all(one.isdisjoint(two) for one, two in itertools.combinations(words, 2))
    order = np.argsort(plain_words("permutation", 0, ("a",), 200))
    np.testing.assert_array_equal(shared_permutation(0, ("a",), 200), order)


@pytest.mark.parametrize("draw", [shared_normal, lambda *name: shared_integers(*name, below=3 * 2**61)])
def test_longer_draws_of_every_kind_begin_with_the_shorter(draw):
    line = draw(4, ("s",), 40_000)
    np.testing.assert_array_equal(draw(4, ("s",), (2, 3, 4)).ravel(), line[:24])
    np.testing.assert_array_equal(draw(4, ("s",), 16_385), line[:16_385])
    assert draw(4, ("s",), ()).shape == () and draw(4, ("s",), (3, 0)).shape == (3, 0)


@pytest.mark.parametrize("draw", [shared_normal, shared_permutation, lambda *name: shared_integers(*name, below=6)])
@pytest.mark.parametrize(
    ("name", "message"), [((1.5, (), 2), "shared_seed"), ((0, "a", 2), "key"), ((0, (), 2.5), "must be")]
)
def test_bad_names_of_every_kind_are_refused(draw, name, message):
    with pytest.raises((TypeError, ValueError), match=message):
        draw(*name)


@pytest.mark.parametrize("below", [0, -1, 2.0, True, 2**63, "6"])
def test_a_bad_bound_or_length_is_named(below):
    with pytest.raises(ValueError, match="below must be an integer >= 1"):
        shared_integers(0, (), 3, below=below)
    if below != 2**63:
        with pytest.raises(ValueError, match="n must be an integer >= 1"):
            shared_permutation(0, (), below)


SIZES = {"n_states": 4, "n_actions": 2, "dim": 3, "horizon": 2}
MDP = LinearMDP.random(**SIZES, rng=np.random.default_rng(0))
CORE = g_optimal_design(MDP.features)
LSVI = {"n_samples": 100, "penalty": 0.1, "bin_width": 0.1, "shared_seed": 0}
UCB = {"n_rounds": 2, "n_trajectories": 5, "beta": 0.5, "penalty": 0.1, "bin_widths": None, "shared_seed": 0}
TAKES_RNG = {
    "random": lambda rng: LinearMDP.random(**SIZES, rng=rng),
    "simplex": lambda rng: LinearMDP.simplex(**SIZES, rng=rng),
    "combination_lock": lambda rng: LinearMDP.combination_lock(horizon=2, n_actions=2, rng=rng),
    "sample": lambda rng: MDP.sample(0, 0, 0, rng),
    "sample_counts": lambda rng: MDP.sample_counts(0, np.ones((4, 2), dtype=int), rng),
    "sample_start": lambda rng: MDP.sample_start(3, rng),
    "start_counts": lambda rng: MDP.start_counts(3, rng),
    "multinomial_counts": lambda rng: multinomial_counts([5], [[0.5, 0.5]], rng),
    "cartpole_play": lambda rng: cartpole_play(lambda seen, rng: np.zeros(len(seen), int), 5, rng),
    "cartpole_random": lambda rng: cartpole_random(5, rng),
    "cartpole_replay": lambda rng: cartpole_replay(20, rng),
    "r_lsvi": lambda rng: r_lsvi(MDP, CORE, **LSVI, rng=rng),
    "r_lsvi_ucb": lambda rng: r_lsvi_ucb(MDP, **UCB, rng=rng),
}


@pytest.mark.parametrize("name", TAKES_RNG)
def test_a_seed_in_place_of_a_generator_is_named(name):
    TAKES_RNG[name](np.random.default_rng(1))
    for bad in (3, None, np.random.RandomState(0)):
        with pytest.raises(TypeError, match=r"^rng must be a numpy\.random\.Generator, got "):
            TAKES_RNG[name](bad)


def test_a_core_set_of_another_type_is_named():
    with pytest.raises(TypeError, match=r"^core_set must be a CoreSet, got 'x'$"):
        r_lsvi(MDP, "x", **LSVI, rng=np.random.default_rng(1))
