"""Fresh CartPole transitions: policies that play many carts at once."""

import hashlib

import numpy as np

from rrl._checks import check_integer, check_integers, check_rng

from .data import DATA, CartPoleData, check_sha256, standin_record
from .dynamics import cartpole_step

__all__ = ["cartpole_play", "cartpole_random", "cartpole_replay"]


def cartpole_play(policy, n, rng, *, max_episode_steps=500):
    """Play CartPole-v1 with a policy and return `n` transitions.

    Episodes are drawn independently and laid one after the other, and the rows after the n-th are
    dropped: the result has the law of `n` steps of play. Every next observation is known, those at
    a time limit included, so that every row is usable.

    Parameters
    ----------
    policy : callable
        ``policy(observations, rng)`` returns one action (0 or 1) for each row of a float32 array
        of shape (m, 4). It must not depend on the other rows.
    n : int
        Number of transitions, at least 1.
    rng : numpy.random.Generator
        Start states, and whatever the policy draws.
    max_episode_steps : int
        Time limit.

    Returns
    -------
    CartPoleData
        With ``source="play"``.

    Raises
    ------
    TypeError
        If `rng` is no Generator.
    ValueError
        If `n` or `max_episode_steps` is no integer of at least 1, or an action is not 0 or 1.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.datasets import cartpole_play
    >>> lean = lambda observations, rng: (observations[:, 2] > 0).astype(int)
    >>> cartpole_play(lean, 100, np.random.default_rng(0)).rewards.sum()
    np.float32(100.0)
    """
    columns = _play(policy, n, rng, max_episode_steps)
    note = f"A policy's play on CartPole-v1 with a limit of {max_episode_steps} steps."
    return _build(columns, "play", note, {"max_episode_steps": max_episode_steps})


def _play(policy, n, rng, limit):
    """Columns of the first `n` rows of independent episodes."""
    check_rng(rng)
    check_integer(1, n=n, max_episode_steps=limit)
    parts, rows, n_episodes = [], 0, 0
    while rows < n:
        # The first carts tell how long an episode is; then few rows are played for nothing.
        carts = int((n - rows) / (rows / n_episodes)) + 1 if rows else 1 + min(n // 20, 100)
        part = _play_episodes(policy, carts, rng, limit)
        parts.append([*part[:-1], part[-1] + n_episodes])
        rows, n_episodes = rows + len(part[0]), n_episodes + carts
    return [np.concatenate(column)[:n] for column in zip(*parts)]


def _build(columns, source, description, provenance):
    """The data class of generated columns, with the digest of their bytes."""
    observations, actions, following, terminals, timeouts, episodes = columns
    digest = hashlib.sha256(b"".join(column.tobytes() for column in columns))
    return CartPoleData(
        observations=observations,
        actions=actions,
        rewards=np.ones(len(actions), np.float32),
        next_observations=following,
        terminals=terminals,
        timeouts=timeouts,
        episodes=episodes,
        source=source,
        sha256=digest.hexdigest(),
        description=description,
        provenance=provenance,
    )


def _play_episodes(policy, carts, rng, limit):
    """Play one whole episode a cart, side by side; return its columns, episode after episode."""
    states = rng.uniform(-0.05, 0.05, size=(carts, 4))
    alive = np.arange(carts)
    steps, step = [], 0
    while len(alive):
        observations = states.astype(np.float32)
        actions = np.asarray(policy(observations, rng))
        actions = actions.astype(np.int64) if actions.dtype == bool else actions
        actions = check_integers("the policy's actions", actions, len(states), 2).astype(np.int64)
        states, failed = cartpole_step(states, actions)
        over = failed | (step == limit - 1)
        following = states.astype(np.float32)
        steps.append((observations, actions, following, failed, over & ~failed, alive))
        states, alive, step = states[~over], alive[~over], step + 1
    columns = [np.concatenate(column) for column in zip(*steps)]
    order = np.argsort(columns[-1], kind="stable")
    return [column[order] for column in columns]


def cartpole_random(n, rng, *, max_episode_steps=500):
    """Return `n` transitions of CartPole-v1 under fair coin flips.

    Parameters
    ----------
    n : int
        Number of transitions.
    rng : numpy.random.Generator
    max_episode_steps : int
        Time limit (never met in practice: such an episode lasts 22 steps on average).

    Returns
    -------
    CartPoleData
        With ``source="random"``; every row is usable.

    Raises
    ------
    TypeError
        If `rng` is no Generator.
    ValueError
        If `n` or `max_episode_steps` is no integer of at least 1.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.datasets import cartpole_random
    >>> data = cartpole_random(1000, np.random.default_rng(0))
    >>> len(data), data.source, bool(data.usable.all())
    (1000, 'random', True)
    """
    columns = _play(_coin, n, rng, max_episode_steps)
    note = "Uniformly random actions on CartPole-v1."
    return _build(columns, "random", note, {"max_episode_steps": max_episode_steps})


def _coin(observations, rng):
    return rng.integers(0, 2, len(observations))


def cartpole_replay(n, rng):
    """Draw fresh data of the kind that the stand-in records: an independent set of the same law.

    The stand-in was played by a Q-network in training. Its snapshots, one in the middle of each
    window of the run, play their share of the `n` rows each, with the exploration rate of that
    window. Between snapshots the recorded run had other policies, so the mixture is an
    approximation; each snapshot's bottleneck (see the recorded agreement) is a second one.

    Parameters
    ----------
    n : int
        Number of transitions, at least one a snapshot.
    rng : numpy.random.Generator

    Returns
    -------
    CartPoleData
        With ``source="replay"``; every row is usable.

    Raises
    ------
    TypeError
        If `rng` is no Generator.
    ValueError
        If `n` is no integer or below the number of snapshots, or the snapshots' file is damaged.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.datasets import cartpole_replay
    >>> data = cartpole_replay(2000, np.random.default_rng(0))
    >>> len(data), data.source
    (2000, 'replay')
    """
    check_rng(rng)
    record = standin_record()
    path = DATA / "cartpole_behaviour.npz"
    check_sha256(path, record)
    with np.load(path, allow_pickle=False) as archive:
        layers = {name: archive[name].astype(np.float64) for name in archive.files}
    settings = record["settings"]
    count, limit = settings["n_snapshots"], settings["max_episode_steps"]
    check_integer(1, n=n)
    if n < count:
        raise ValueError(f"n must be at least {count}, one row a snapshot, got {n}")
    parts, n_episodes = [], 0
    for k, size in enumerate(np.diff(np.arange(count + 1) * n // count)):
        policy = _snapshot({name: layer[k] for name, layer in layers.items()}, settings, k)
        part = _play(policy, size, rng, limit)
        part[-1] = part[-1] + n_episodes
        n_episodes = part[-1][-1] + 1
        parts.append(part)
    note = f"Fresh play of {count} snapshots of the stand-in's Q-network on CartPole-v1."
    columns = [np.concatenate(column) for column in zip(*parts)]
    return _build(columns, "replay", note, record)


def _snapshot(layers, settings, k):
    """The epsilon-greedy policy of the k-th window of the recorded run."""
    steps = np.arange(settings["n_steps"]).reshape(settings["n_snapshots"], -1)[k]
    start, end = settings["epsilon_start"], settings["epsilon_end"]
    decay = 1 - np.minimum(steps / settings["epsilon_steps"], 1)
    epsilon = np.mean(end + (start - end) * decay)

    def policy(observations, rng):
        hidden = np.maximum(observations @ layers["w1"].T + layers["b1"], 0)
        hidden = np.maximum(hidden @ layers["basis"].T @ layers["w2"].T + layers["b2"], 0)
        greedy = np.argmax(hidden @ layers["w3"].T + layers["b3"], axis=1)
        explore = rng.random(len(greedy)) < epsilon
        return np.where(explore, _coin(observations, rng), greedy)

    return policy
