"""MinAtar (Young and Tian 2019) as a pool of environments, millions of steps a second on one core."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from rrl._checks import check_integer, check_integers
from rrl._extras import missing
from rrl.pqn.config import Step

if TYPE_CHECKING:
    from typing import Any

__all__ = ["PLANES", "MinAtarPool", "action_names"]

#: What the planes of each game's observations show.
PLANES = {
    "breakout": ("paddle", "ball", "ball before", "brick"),
    "space_invaders": ("cannon", "alien", "alien going left", "alien going right", "own bullet", "alien's bullet"),
    "asterix": ("player", "enemy", "trail", "gold"),
}
GAMES = tuple(PLANES)


class MinAtarPool:
    """Environments of one MinAtar game: the rules of the `minatar` package 1.0.15, compiled.

    Observations are binary planes of 10 x 10 cells, channels first, in the package's order. Actions are
    the package's minimal set of the game, in its order. The step that ends a game shows its last state;
    the next step only starts a new game (`valid` is False, the action has no effect), as in Gymnasium's
    next-step mode. The state can be saved exactly. Each environment has a random generator of its own
    (SplitMix64) and depends on its own seed only.

    Parameters
    ----------
    game : {"breakout", "space_invaders", "asterix"}
    n : int
        Number of environments.
    sticky_action_prob : float
        Chance that the action before is repeated instead.
    difficulty_ramping : bool
        Whether a game gets faster; Breakout never does.
    max_steps : int
        Time limit of a game, in steps; 0 for none. A good policy may play for ever.

    Raises
    ------
    ImportError
        If numba is missing.
    ValueError
        For an unknown game, and for numbers out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.pqn.minatar import MinAtarPool
    >>> pool = MinAtarPool("breakout", 2)
    >>> pool.reset(np.array([0, 1])).shape, pool.n_actions
    ((2, 4, 10, 10), 3)
    >>> for t in range(7):  # nobody moves the paddle
    ...     out = pool.step(np.array([0, 0]))
    >>> out.ended.tolist(), out.score.tolist()
    ([False, False], [nan, nan])
    """

    def __init__(
        self, game: str, n: int, *, sticky_action_prob: float = 0.1, difficulty_ramping: bool = True, max_steps: int = 0
    ) -> None:
        if game not in GAMES:
            raise ValueError(f"game must be one of {GAMES}, got {game!r}")
        check_integer(1, n=n)
        check_integer(0, max_steps=max_steps)
        if not (isinstance(sticky_action_prob, Real) and 0 <= sticky_action_prob <= 1):
            raise ValueError(f"sticky_action_prob must lie in [0, 1], got {sticky_action_prob!r}")
        if not isinstance(difficulty_ramping, (bool, np.bool_)):
            raise ValueError(f"difficulty_ramping must be True or False, got {difficulty_ramping!r}")
        try:
            from rrl.pqn.minatar_numba import COMMON, KERNELS
        except ImportError as error:
            raise missing("experiments", "MinAtar needs numba") from error
        fields, channels, actions, self._play = KERNELS[game]
        self.n_actions, self.observation_shape = len(actions), (channels, 10, 10)
        self._actions = np.array(actions, dtype=np.int8)
        self._sticky, self._ramping, self._limit = float(sticky_action_prob), bool(difficulty_ramping), max_steps
        self._games: Any = np.zeros(n, dtype=COMMON + fields)
        self._games["over"], self._started = True, False
        self._planes = np.zeros((n, channels, 100), dtype=np.uint8)

    def reset(self, seeds: Any) -> Any:
        """Start every game; seeds are non-negative 31-bit integers, one an environment."""
        games = self._games
        seeds = check_integers("seeds", seeds, len(games), 2**31)
        games[:] = 0
        games["random"] = splitmix64(seeds)
        games["over"] = self._started = True
        return self.step(np.zeros(len(games), dtype=np.int64)).observation

    def step(self, actions: Any) -> Any:
        """Play one action in every game."""
        games = self._games
        actions = check_integers("actions", actions, len(games), self.n_actions)
        if not self._started:
            raise RuntimeError("call reset() or load_state() before step(): no game is running")
        reward, ended = np.zeros(len(games), dtype=np.int64), np.zeros(len(games), dtype=bool)
        self._play(games, self._planes, self._actions[actions], self._sticky, self._ramping, reward, ended)
        valid = ~games["over"]
        games["total"] = np.where(valid, games["total"] + reward, 0.0)
        games["age"] = np.where(valid, games["age"] + 1, 0)
        cut = valid & ~ended & (games["age"] >= self._limit) & (self._limit > 0)
        games["over"] = ended | cut
        score = np.where(games["over"], games["total"], np.nan)
        return Step(self._planes.reshape(-1, *self.observation_shape).copy(), reward, ended, cut, valid, score)

    def state(self) -> Any:
        """Everything that a game in play depends on, as a dict of arrays."""
        games = {name: self._games[name].copy() for name in self._games.dtype.names}
        rules = np.array([self._sticky, self._ramping, self._limit], dtype=np.float64)
        # Not every file format for tensors has unsigned 64-bit integers.
        return games | {"random": games["random"].view(np.int64), "planes": self._planes.copy(), "rules": rules}

    def load_state(self, state: Any) -> None:
        """Go on from what `state` gave."""
        own = self.state()
        for name, array in own.items():
            if name not in state or np.shape(state[name]) != array.shape:
                found = np.shape(state[name]) if name in state else "nothing"
                raise ValueError(f"state has {found} for {name!r}, expected an array of shape {array.shape}")
        if not np.array_equal(state["rules"], own["rules"]):
            names = "(sticky_action_prob, difficulty_ramping, max_steps)"
            raise ValueError(f"state is of games with {names} = {tuple(state['rules'])}, here {tuple(own['rules'])}")
        for name in self._games.dtype.names:
            self._games[name] = np.asarray(state[name], dtype=own[name].dtype).view(self._games[name].dtype)
        self._planes[:] = state["planes"]
        self._started = True


def action_names(game: Any) -> Any:
    """Names of a game's actions, in the order of their numbers.

    Raises
    ------
    ImportError
        If numba is missing.
    ValueError
        For an unknown game.

    Examples
    --------
    >>> from rrl.pqn.minatar import action_names
    >>> action_names("space_invaders")
    ['nothing', 'left', 'right', 'fire']
    """
    if game not in GAMES:
        raise ValueError(f"game must be one of {GAMES}, got {game!r}")
    try:
        from rrl.pqn.minatar_numba import ACTIONS, KERNELS
    except ImportError as error:
        raise missing("experiments", "MinAtar needs numba") from error
    return [ACTIONS[action] for action in KERNELS[game][2]]


def splitmix64(seeds: Any) -> Any:
    """First output of SplitMix64 for each seed: seeds that lie side by side give unrelated states."""
    z = seeds.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
