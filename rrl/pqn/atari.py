"""Atari games as a pool of environments, and whole games played greedily."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rrl._checks import check_integer, check_integers
from rrl._extras import missing
from rrl.pqn.config import Step

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["AtariPool", "GameTracker", "Games", "action_names", "play"]

GAMES = {"breakout": "breakout", "mspacman": "ms_pacman", "pong": "pong"}

# What CleanRL's old pool did, as far as ale-py's vector environment can.
PREPROCESSING = {
    "frameskip": 4,
    "maxpool": True,
    "grayscale": True,
    "img_height": 84,
    "img_width": 84,
    "stack_num": 4,
    "noop_max": 30,
    "use_fire_reset": True,
    "repeat_action_probability": 0.0,
    "full_action_space": False,
    "max_num_frames_per_episode": 108_000,
    "episodic_life": False,
    "life_loss_info": True,
    "reward_clipping": False,
}


def action_names(game: Any) -> Any:
    """Names of a game's actions, in the order of their numbers.

    Examples
    --------
    >>> from rrl.pqn.atari import action_names
    >>> action_names("breakout")
    ['noop', 'fire', 'right', 'left']
    """
    if game not in GAMES:
        raise ValueError(f"game must be one of {sorted(GAMES)}, got {game!r}")
    try:
        import ale_py
    except ImportError as error:
        raise missing("experiments", "Atari needs ale-py") from error
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # else it greets on standard error
    emulator = ale_py.ALEInterface()
    emulator.loadROM(ale_py.roms.get_rom_path(GAMES[game]))  # pyright: ignore[reportAttributeAccessIssue]
    return [action.name.lower() for action in emulator.getMinimalActionSet()]


# Steps of all environments of a pool: about half an hour of one core.
LONGEST_REPLAY = 4_000_000


class GameTracker:
    """Scores of whole games, and which steps are data, from a next-step autoreset stream.

    Parameters
    ----------
    n : int
        Number of environments.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.pqn.atari import GameTracker
    >>> tracker, no = GameTracker(1), np.array([False])
    >>> for reward, lives, end in ((7, 2, False), (-3, 1, True), (0, 0, True), (0, 2, False)):
    ...     valid, score = tracker.step(np.array([reward]), np.array([end]), no, np.array([lives]))
    ...     print(bool(valid[0]), float(score[0]))
    True nan
    True nan
    True 4.0
    False nan
    """

    def __init__(self, n: int) -> None:
        self.totals, self.over = np.zeros(n), np.zeros(n, dtype=bool)

    def step(self, reward: Any, terminated: Any, truncated: Any, lives: Any) -> Any:
        """Return (valid, score) of a step; a game is over at its last life, or when it is cut."""
        valid = ~self.over
        self.totals = np.where(valid, self.totals + reward, 0.0)
        self.over = valid & (truncated | (terminated & (lives == 0)))
        return valid, np.where(self.over, self.totals, np.nan)


class AtariPool:
    """Environments of one game in ale-py's vector environment.

    Frame skip 4 with the maximum of the last two frames, 84 x 84 grey, 4 frames, up to 30 no-ops and
    FIRE at the start, no sticky actions, a lost life ends the learner's episode but not the game. Each
    environment depends on its own seed only. The emulator's state cannot be saved: what is kept is
    every action, and going on from there plays them all again.

    Parameters
    ----------
    game : {"breakout", "mspacman", "pong"}
    n : int
        Number of environments.
    n_threads : int
        Emulator threads; 0 lets ale-py choose.

    Raises
    ------
    ImportError
        If ale-py is missing.
    ValueError
        For an unknown game, and for numbers out of range; `reset` and `step` refuse seeds and actions so.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.pqn.atari import AtariPool
    >>> pool = AtariPool("breakout", 1)
    >>> pool.reset(np.array([0])).shape, pool.n_actions
    ((1, 4, 84, 84), 4)
    >>> pool.step(np.array([1])).reward.tolist()
    [0]
    """

    def __init__(self, game: str, n: int, n_threads: int = 0) -> None:
        if game not in GAMES:
            raise ValueError(f"game must be one of {sorted(GAMES)}, got {game!r}")
        check_integer(1, n=n)
        check_integer(0, n_threads=n_threads)
        try:
            from ale_py.vector_env import AtariVectorEnv
        except ImportError as error:
            raise missing("experiments", "Atari needs ale-py") from error
        self._pool = AtariVectorEnv(GAMES[game], n, num_threads=n_threads, autoreset_mode="NextStep", **PREPROCESSING)
        self.n_actions = int(self._pool.single_action_space.n)  # pyright: ignore[reportAttributeAccessIssue]
        self.observation_shape = self._pool.single_observation_space.shape
        self._n, self._tracker, self._played = n, None, None

    def reset(self, seeds: Any) -> Any:
        """Start every game; seeds are non-negative 31-bit integers, one an environment."""
        # What ale-py is not given a valid number for, it draws or waits for; it checks nothing.
        seeds = check_integers("seeds", seeds, self._n, 2**31)
        self._tracker = GameTracker(self._n)
        self._seeds, self._played = seeds.astype(np.int64), []
        return self._pool.reset(seed=self._seeds)[0]

    def step(self, actions: Any) -> Any:
        """Play one action in every game."""
        actions = check_integers("actions", actions, self._n, self.n_actions)
        if self._tracker is None:
            raise RuntimeError("call reset() before step(): no game is running")
        if self._played is not None:
            self._played.append(actions.astype(np.uint8))
            if len(self._played) * self._n > LONGEST_REPLAY:
                self._played = None
        observation, reward, terminated, truncated, info = self._pool.step(actions.astype(np.int64))
        valid, score = self._tracker.step(reward, terminated, truncated, info["lives"])
        return Step(observation, reward, terminated, truncated & ~terminated, valid, score)

    def state(self) -> Any:
        """Seeds and actions since `reset`; None before it, and once playing them again would take too long."""
        if self._played is None:
            return None
        played = np.stack(self._played) if self._played else np.zeros((0, self._n), np.uint8)
        return {"seeds": self._seeds, "actions": played}

    def load_state(self, state: Any) -> Any:
        """Play again what `state` gave, at the emulator's speed; gives the last frames, the same bit for bit."""
        observation = self.reset(state["seeds"])
        for actions in state["actions"]:
            observation = self.step(actions).observation
        return observation


class Games(NamedTuple):
    """Whole games: unclipped scores, whether a limit cut them, and the actions of each."""

    scores: np.ndarray
    truncated: np.ndarray
    actions: list


def play(
    policy: Callable[..., Any], env: Any, seeds: np.ndarray, *, max_steps: int = 27_000, patience: int = 1_000
) -> Games:
    """Play one whole game in every environment of a pool.

    A game is cut, with the score it has, after `max_steps` steps, or after `patience` steps without
    any reward (a policy that never presses FIRE would wait for ever).

    Parameters
    ----------
    policy : callable
        ``policy(observations, t)`` gives one action an environment.
    env : VectorEnv
    seeds : array of int
        One an environment.
    max_steps, patience : int
        Limits in agent steps.

    Returns
    -------
    Games
        Actions are lists of uint8 arrays: what was played up to the end of each game.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.pqn.atari import AtariPool, play
    >>> games = play(lambda observations, t: np.array([0]), AtariPool("breakout", 1), [0], patience=30)
    >>> games.scores.tolist(), games.truncated.tolist(), len(games.actions[0])
    ([0.0], [True], 30)
    """
    check_integer(1, max_steps=max_steps, patience=patience)
    observation = env.reset(np.asarray(seeds))
    n = len(seeds)
    scores, cut = np.zeros(n), np.zeros(n, dtype=bool)
    running, rewarded = np.ones(n, dtype=bool), np.zeros(n, dtype=int)
    lengths, played = np.zeros(n, dtype=int), []
    for t in range(max_steps):
        actions = np.asarray(policy(observation, t))
        out = env.step(actions)
        played.append(actions.astype(np.uint8))
        scores += np.where(running, out.reward, 0)
        lengths[running] = t + 1
        rewarded[out.reward != 0] = t + 1
        finished = ~np.isnan(out.score)
        stuck = (t + 1 - rewarded >= patience) | (t + 1 >= max_steps)
        cut |= running & (stuck & ~finished | finished & out.cut)
        running &= ~(finished | stuck)
        observation = out.observation
        if not running.any():
            break
    played = np.stack(played)
    return Games(scores, cut, [played[:length, i] for i, length in enumerate(lengths)])
