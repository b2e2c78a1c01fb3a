"""Any environment of Gymnasium with discrete actions as a pool for PQN."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from rrl._checks import as_flags, as_float64, check_finite, check_integer, check_integers
from rrl._extras import missing
from rrl.pqn.atari import GameTracker
from rrl.pqn.config import Step

if TYPE_CHECKING:
    from typing import Any

__all__ = ["GymnasiumPool"]

#: Integers up to this size are exact in float32.
EXACT = 2**24


def _told(value):
    """What a value is, in words."""
    if isinstance(value, str | dict | tuple | list) or value is None or not np.ndim(value):
        return f"{value!r:.60}"
    return f"{value.dtype} of shape {value.shape}"


def _check_observation(seen, space):
    try:
        kept = np.asarray(seen)
    except ValueError:
        kept = np.empty(0, object)  # lists of several lengths
    if kept.dtype.kind not in "biuf" or kept.shape != space.shape:
        raise ValueError(
            f"observations of the environment must be numbers of shape {space.shape}, as its observation_space says, "
            f"got {_told(kept if kept.dtype.kind in 'biuf' else seen)}"
        )
    if not np.can_cast(kept.dtype, space.dtype, "same_kind"):
        raise ValueError(
            f"observations of the environment must be {space.dtype}, as its observation_space says, got {kept.dtype}"
        )


def _checking(make):
    """Make an environment whose answers are checked before Gymnasium puts them into arrays."""
    from gymnasium import Env, Wrapper

    class Checking(Wrapper):
        def reset(self, **given):
            answer = super().reset(**given)
            if not isinstance(answer, tuple) or len(answer) != 2:
                raise ValueError(f"reset() of the environment must return (observation, info), got {_told(answer)}")
            _check_observation(answer[0], self.observation_space)
            return answer

        def step(self, action):
            answer: Any = super().step(action)
            if not isinstance(answer, tuple) or len(answer) != 5:
                raise ValueError(
                    "step() of the environment must return (observation, reward, terminated, truncated, info), got "
                    f"{_told(answer)}"
                )
            seen, reward, *ends, _ = answer
            _check_observation(seen, self.observation_space)
            if np.ndim(reward) or np.asarray(reward).dtype.kind not in "biuf":
                raise ValueError(f"rewards of the environment must be numbers, got {_told(reward)}")
            for name, end in zip(("terminated", "truncated"), ends):
                if np.ndim(end) or end not in (False, True):
                    raise ValueError(f"{name} of the environment must be True or False, got {_told(end)}")
            return answer

    environment = make()
    if not isinstance(environment, Env):
        raise TypeError(f"environment must make a gymnasium.Env, got {environment!r:.100}")
    return Checking(environment)


def _fits(space):
    """Whether a Box is of bytes, or of numbers that float32 holds as a network needs them."""
    if space.dtype.kind in "iu" and space.dtype != np.uint8:
        return max(-int(space.low.min()), int(space.high.max())) <= EXACT
    return space.dtype.kind == "f" or space.dtype == np.uint8


class GymnasiumPool:
    """Environments of Gymnasium as `Trainer` takes them: uint8 as it is, all other numbers as float32.

    The step that ends an episode shows its last observation; the next step only starts a new one (`valid` is False,
    the action has no effect). Each environment depends on its own seed only. Their state cannot be saved: a training
    that goes on from a checkpoint starts new episodes, and counts it in ``Trainer.restarts``.

    Rewards are learnt as signs, as on Atari, unless `clip_rewards` of :class:`rrl.pqn.PQNConfig` is False.

    Parameters
    ----------
    environment : str, callable or gymnasium.vector.VectorEnv
        An identifier for ``gymnasium.make``; a function without arguments that makes one environment; or `n`
        environments that are stepped together, in next-step mode, and take a list of seeds.
    n : int
        Number of environments.
    **settings
        Of ``gymnasium.make``, with an identifier.

    Raises
    ------
    ImportError
        If Gymnasium is missing.
    TypeError
        If `environment` is none of these.
    ValueError
        If actions are not discrete, observations are no arrays of floats or of integers up to 2^24, or images come with
        their channels last.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.pqn import Architecture, GymnasiumPool, PQNConfig, Trainer, train
    >>> pool = GymnasiumPool("CartPole-v1", 2)
    >>> pool.reset(np.array([0, 1])).dtype, pool.observation_shape, pool.n_actions
    (dtype('float32'), (4,), 2)
    >>> trainer = Trainer(
    ...     [(0, PQNConfig(total_steps=256, n_envs=2))],
    ...     lambda n: GymnasiumPool("CartPole-v1", n),
    ...     architecture=Architecture(convs=(), dense=(128, 128), scale=1.0),
    ... )
    >>> train(trainer), len(trainer.games[0]) > 5
    (True, True)
    """

    def __init__(self, environment: Any, n: int, **settings) -> None:
        check_integer(1, n=n)
        try:
            import gymnasium
            from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
        except ImportError as error:
            raise missing("experiments", "GymnasiumPool needs Gymnasium") from error
        if settings and not isinstance(environment, str):
            raise ValueError(
                f"{sorted(settings)} are settings of gymnasium.make, for an identifier: got {environment!r}"
            )
        self._pool: Any
        self._given = isinstance(environment, VectorEnv)
        if self._given:
            self._pool = environment
        elif isinstance(environment, str) or callable(environment):
            make: Any = environment
            if isinstance(environment, str):
                make = functools.partial(gymnasium.make, environment, **settings)
            self._pool = SyncVectorEnv([functools.partial(_checking, make)] * n, autoreset_mode=AutoresetMode.NEXT_STEP)
        else:
            raise TypeError(
                "environment must be an identifier, a function that makes an environment, or a vector environment, "
                f"got {environment!r}"
            )
        mode = self._pool.metadata.get("autoreset_mode")
        if self._pool.num_envs != n or mode != AutoresetMode.NEXT_STEP:
            raise ValueError(
                f"environment must be {n} environments with autoreset_mode {AutoresetMode.NEXT_STEP}, got "
                f"{self._pool.num_envs} with {mode}"
            )
        seen, acts = self._pool.single_observation_space, self._pool.single_action_space
        if not isinstance(acts, gymnasium.spaces.Discrete):
            raise ValueError(f"environment must have Discrete actions, got {acts}")
        if not isinstance(seen, gymnasium.spaces.Box) or not seen.shape or not _fits(seen):
            raise ValueError(
                f"environment must have observations in a Box of floats, or of integers up to 2^24, got {seen}: "
                "gymnasium.wrappers.FlattenObservation or TransformObservation makes one"
            )
        if len(seen.shape) == 3 and seen.shape[2] in (1, 3, 4) and seen.shape[0] > 4:
            raise ValueError(f"images must come with their channels first, got {seen}: use TransformObservation")
        self.n_actions, self.observation_shape, self._n = int(acts.n), seen.shape, n
        self._first, self._kind = int(acts.start), np.uint8 if seen.dtype == np.uint8 else np.float32
        self._tracker: Any = None

    def reset(self, seeds: Any) -> Any:
        """Start an episode in every environment; seeds are non-negative 31-bit integers, one an environment."""
        seeds = check_integers("seeds", seeds, self._n, 2**31).tolist()
        self._tracker = GameTracker(self._n)
        try:
            observations = self._pool.reset(seed=seeds)[0]
        except Exception as error:
            if self._given or isinstance(error, TypeError):
                error.add_note("GymnasiumPool gives each environment a seed of its own: reset(seed=list of integers)")
            raise
        return self._checked(observations)

    def step(self, actions: Any) -> Any:
        """Take one action in every environment."""
        actions = check_integers("actions", actions, self._n, self.n_actions)
        if self._tracker is None:
            raise RuntimeError("call reset() before step(): no episode is running")
        observations, rewards, terminated, truncated, _ = self._pool.step(actions + self._first)
        rewards = as_float64("rewards of the environment", rewards)
        check_finite("rewards of the environment", rewards)
        flags = (("terminated", terminated), ("truncated", truncated))
        terminated, truncated = (as_flags(f"{name} of the environment", given) for name, given in flags)
        for name, given in (("rewards", rewards), ("terminated", terminated), ("truncated", truncated)):
            if given.shape != (self._n,):
                raise ValueError(f"{name} of the environment must have shape ({self._n},), got {given.shape}")
        valid, score = self._tracker.step(rewards, terminated, truncated, np.zeros(self._n))
        return Step(self._checked(observations), rewards, terminated, truncated & ~terminated, valid, score)

    def _checked(self, observations):
        if np.shape(observations) != (self._n, *self.observation_shape):
            raise ValueError(
                f"observations of the environment must have shape {(self._n, *self.observation_shape)}, got "
                f"{np.shape(observations)}"
            )
        # A copy: vector environments write into one array again and again.
        with np.errstate(over="ignore"):
            kept = np.array(observations, dtype=self._kind)
        check_finite("observations of the environment", kept)
        return kept

    def state(self) -> None:
        """None: Gymnasium's environments cannot be saved."""

    def load_state(self, state: Any) -> None:
        """Refuse: there is no state to go on from."""
        raise ValueError(f"the state of Gymnasium's environments cannot be set, got {state!r}")
