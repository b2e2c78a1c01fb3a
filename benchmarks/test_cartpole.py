"""Figure 1: the batch against the loop that a user would write, on the same policies.

    make bench

The loop fits scikit-learn's Ridge for each action in each round and plays Gymnasium's CartPole-v1
step by step. It is timed on a few policies of one draw, the batch on all policies of that draw; the
weights' codes and the returns of the shared policies must be equal.
"""

import time

import gymnasium
import numpy as np
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_limits

from rrl import hypergrid_round
from rrl.experiments.cartpole import study as cartpole
from rrl.experiments.cartpole.fit import batched_fitted_q, cut_blocks
from rrl.experiments.cartpole.sim import play, start_states

DRAW = 0
SETTINGS = cartpole.Settings()
#: Fraction, run, column: small and large samples, small and large penalties, with and without rounding.
SHARED = [(1, 0, 1), (3, 1, 3), (4, 2, 8), (6, 3, 4)]


def plain_loop(data, features, sample, penalty, width):
    """Fit and play one policy."""
    phi, following = features.transform(data.observations[sample]), features.transform(data.next_observations[sample])
    actions, rewards, terminals = data.actions[sample], data.rewards[sample], data.terminals[sample]
    weights = np.zeros((2, phi.shape[1]))
    codes = None
    for number in range(SETTINGS.n_rounds):
        targets = rewards + SETTINGS.gamma * ~terminals * (following @ weights.T).max(axis=1)
        for a in (0, 1):
            x, y = phi[actions == a], targets[actions == a]
            weights[a] = Ridge(alpha=len(y) * penalty, fit_intercept=False).fit(x, y).coef_
        if width is not None:
            rounded = hypergrid_round(weights, width, shared_seed=DRAW, key=("fitted_q", number))
            weights, codes = rounded.values.copy(), rounded.codes
    env, steps = gymnasium.make("CartPole-v1"), 0
    for episode in range(SETTINGS.n_episodes):
        state, _ = env.reset(seed=10_000 * DRAW + episode)
        over = False
        while not over:
            angles = state.astype(float) @ features.frequencies_
            action = int(np.argmax(weights @ np.concatenate([np.cos(angles), np.sin(angles)])))
            state, _, terminated, truncated, _ = env.step(action)
            over, steps = terminated or truncated, steps + 1
    return codes, steps


def test_batch_against_plain_loop(benchmark, compare):
    data = cartpole.load("standin")
    penalties, rounded = cartpole.columns(SETTINGS)
    features = cartpole.feature_map(data, SETTINGS, DRAW)
    parts, choice = cartpole.samples(data, SETTINGS, DRAW)

    starts = start_states(SETTINGS.n_episodes, 10_000 * DRAW)

    def batch():
        blocks = cut_blocks(data, features, SETTINGS.gamma, parts)
        found = batched_fitted_q(
            blocks,
            choice.reshape(-1, len(parts)),
            penalties,
            rounded,
            n_rounds=SETTINGS.n_rounds,
            bin_width=SETTINGS.bin_width,
            shared_seed=DRAW,
        )
        shape = (*choice.shape[:2], len(penalties))
        differences = np.diff(found.weights[-1], axis=2).reshape(-1, SETTINGS.n_features)
        distinct, which = np.unique(differences, axis=0, return_inverse=True)
        steps = play(features.frequencies_, distinct, starts).lengths.sum(axis=1)[which.ravel()]
        return found.codes[-1].reshape(*shape, 2, -1), steps.reshape(shape)

    with threadpool_limits(1):
        play(features.frequencies_, np.ones((1, SETTINGS.n_features)), starts)  # compile
        start = time.process_time()
        codes, steps = benchmark.pedantic(batch, rounds=1)
        seconds = time.process_time() - start
        start = time.process_time()
        for f, r, c in SHARED:
            sample = np.sort(np.concatenate([parts[b] for b in np.flatnonzero(choice[f, r])]))
            found, played = plain_loop(data, features, sample, penalties[c], SETTINGS.bin_width if rounded[c] else None)
            assert found is None or (found == codes[f, r, c]).all()
            assert played == steps[f, r, c]
        each = (time.process_time() - start) / len(SHARED)
    ratio = each * steps.size / seconds
    benchmark.extra_info.update(policies=steps.size, plain_seconds_each=round(each, 3), ratio=round(ratio))
    row = {"what": f"Figure 1, each of {steps.size:,} policies", "seconds": seconds / steps.size, "peer_seconds": each}
    compare.rows.append(row | {"peer": "a loop of scikit-learn and Gymnasium", "goal": 1 / 150})
    print(f"\n{steps.size} policies in {seconds:.1f} s, the plain loop {each:.2f} s each: {ratio:.0f} times")
    assert ratio >= 150
