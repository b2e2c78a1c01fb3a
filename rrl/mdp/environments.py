"""Linear MDPs as Gymnasium environments; importing this module registers the named ones.

``gymnasium.make("rrl.mdp.environments:rrl/RiverSwim-v0")`` imports and makes in one call; after
``import rrl.mdp.environments``, ``gymnasium.make("rrl/RiverSwim-v0")`` is enough. Any other model:
``gymnasium.make("rrl/LinearMDP-v0", mdp=mdp)``.
"""

from functools import partial
from typing import ClassVar

import numpy as np

from .._extras import missing
from .linear_mdp import LinearMDP

try:
    import gymnasium
except ImportError as error:
    raise missing("experiments", "rrl.mdp.environments needs Gymnasium") from error

__all__ = ["LinearMDPEnv", "register"]


class LinearMDPEnv(gymnasium.Env):
    """A LinearMDP as a Gymnasium environment; every episode terminates after H steps.

    Parameters
    ----------
    mdp : LinearMDP or callable
        The model, or a function without arguments that builds it.
    render_mode : None
        Only None: there is nothing to draw.

    Attributes
    ----------
    mdp : LinearMDP
        The model.
    observation_space, action_space : gymnasium.spaces.Discrete
        States and actions. The stage is in ``info["stage"]``.

    Examples
    --------
    >>> import gymnasium
    >>> env = gymnasium.make("rrl.mdp.environments:rrl/RiverSwim-v0")
    >>> env.reset(seed=1)
    (0, {'stage': 0})
    >>> env.step(0)
    (0, 0.005, False, False, {'stage': 1})
    """

    metadata: ClassVar = {"render_modes": []}

    def __init__(self, mdp, render_mode=None):
        if render_mode is not None:
            raise ValueError(f"render_mode must be None, got {render_mode!r}")
        self.mdp = mdp if isinstance(mdp, LinearMDP) else mdp()
        self.render_mode = None
        self.observation_space = gymnasium.spaces.Discrete(self.mdp.n_states)
        self.action_space = gymnasium.spaces.Discrete(self.mdp.n_actions)
        self._stage = self._state = None

    def reset(self, *, seed=None, options=None):
        """Start an episode: the first state and ``{"stage": 0}``."""
        super().reset(seed=seed)
        self._stage, self._state = 0, int(self.mdp.sample_start(1, self.np_random)[0])
        return self._state, {"stage": 0}

    def step(self, action):
        """Take an action: next state, reward, terminated at stage H, never truncated, the stage."""
        if self._stage is None or self._stage >= self.mdp.horizon:
            raise RuntimeError("call reset() before step(): no episode is running")
        if not self.action_space.contains(action):
            raise ValueError(f"action must lie in {self.action_space}, got {action!r}")
        reward = float(self.mdp.rewards_table[self._stage, self._state, action])
        self._state = self.mdp.sample(self._stage, self._state, int(action), self.np_random)
        self._stage += 1
        return self._state, reward, self._stage == self.mdp.horizon, False, {"stage": self._stage}


def register():
    """Register the named instances with Gymnasium under ``rrl/``; twice does no harm."""

    def lock():
        return LinearMDP.combination_lock(horizon=8, n_actions=3, rng=np.random.default_rng(0))

    def mixture():
        return LinearMDP.random(n_states=20, n_actions=4, dim=5, horizon=10, rng=np.random.default_rng(0))

    named = {
        "LinearMDP-v0": None,
        "Chain-v0": partial(LinearMDP.chain, n_states=8, horizon=16),
        "RiverSwim-v0": LinearMDP.river_swim,
        "CombinationLock-v0": lock,
        "RandomLinear-v0": mixture,
        "BoundaryLock-v0": LinearMDP.boundary_lock,
        "SteepMeasure-v0": LinearMDP.steep_measure,
    }
    for name, build in named.items():
        if f"rrl/{name}" not in gymnasium.registry:
            kwargs = {} if build is None else {"mdp": build}
            gymnasium.register(id=f"rrl/{name}", entry_point=LinearMDPEnv, kwargs=kwargs)


register()
