"""Linear MDPs as Gymnasium environments; importing this module registers the named ones.

``gymnasium.make("rrl.mdp.environments:rrl/RiverSwim-v0")`` imports and makes in one call; after
``import rrl.mdp.environments``, ``gymnasium.make("rrl/RiverSwim-v0")`` is enough. Any other model:
``gymnasium.make("rrl/LinearMDP-v0", mdp=mdp)``. What is registered is plain JSON, so that Minari can record these
environments and build them anew.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from .._checks import check_seed
from .._extras import missing
from ..packing import pack_array, unpack_array
from . import instances
from .linear_mdp import LinearMDP

if TYPE_CHECKING:
    from typing import Any

try:
    import gymnasium
except ImportError as error:
    raise missing("experiments", "rrl.mdp.environments needs Gymnasium") from error

__all__ = ["LinearMDPEnv", "register"]

#: Instances that a name and numbers describe.
NAMES = sorted(set(instances.__all__) - {"tabular"})


class LinearMDPEnv(gymnasium.Env):
    """A LinearMDP as a Gymnasium environment; every episode terminates after H steps.

    Parameters
    ----------
    mdp : LinearMDP, str, dict or callable
        The model; the name of an instance, such as ``"river_swim"``; what `packed` gives; or a function without
        arguments that builds it. Minari records names and what is packed.
    render_mode : None
        Only None: there is nothing to draw.
    **parameters
        Of the named instance; in place of its generator, an int ``seed`` (default 0).

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
    >>> gymnasium.make("rrl/RiverSwim-v0", n_states=3).observation_space
    Discrete(3)
    """

    metadata: ClassVar = {"render_modes": []}

    def __init__(self, mdp: Any, render_mode: None = None, **parameters) -> None:
        if render_mode is not None:
            raise ValueError(f"render_mode must be None, got {render_mode!r}")
        self.mdp = _model(mdp, parameters)
        self.render_mode = None
        self.observation_space = gymnasium.spaces.Discrete(self.mdp.n_states)
        self.action_space = gymnasium.spaces.Discrete(self.mdp.n_actions)
        self._stage: Any = None
        self._state: Any = None

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        """Start an episode: the first state and ``{"stage": 0}``."""
        super().reset(seed=seed)
        self._stage, self._state = 0, int(self.mdp.sample_start(1, self.np_random)[0])
        return self._state, {"stage": 0}

    def step(self, action: Any) -> Any:
        """Take an action: next state, reward, terminated at stage H, never truncated, the stage."""
        if self._stage is None or self._stage >= self.mdp.horizon:
            raise RuntimeError("call reset() before step(): no episode is running")
        if not self.action_space.contains(action):
            raise ValueError(f"action must lie in {self.action_space}, got {action!r}")
        reward = float(self.mdp.rewards_table[self._stage, self._state, action])
        self._state = self.mdp.sample(self._stage, self._state, int(action), self.np_random)
        self._stage += 1
        return self._state, reward, self._stage == self.mdp.horizon, False, {"stage": self._stage}


def packed(mdp: Any) -> Any:
    """A model as plain JSON, exactly: what `LinearMDPEnv` builds it from."""
    return {name: pack_array(getattr(mdp, name)) for name in ("features", "measures", "rewards", "initial")}


def _model(mdp, parameters):
    """The LinearMDP that the arguments of `LinearMDPEnv` describe."""
    if isinstance(mdp, str):
        if mdp not in NAMES:
            raise ValueError(f"mdp must be a model or one of {NAMES}, got {mdp!r}")
        build = getattr(LinearMDP, mdp)
        if "rng" in inspect.signature(build).parameters:
            parameters = {"seed": 0, **parameters}
            parameters["rng"] = np.random.default_rng(check_seed(parameters.pop("seed")))
        return build(**parameters)
    if parameters:
        raise ValueError(f"only a named instance has parameters, got {parameters} with mdp={mdp!r}")
    if isinstance(mdp, dict):
        return LinearMDP(**{name: unpack_array(array) for name, array in mdp.items()})
    built = mdp() if callable(mdp) else mdp
    if not isinstance(built, LinearMDP):
        raise ValueError(f"mdp must be a LinearMDP, a name, a packed model or a function that builds one, got {mdp!r}")
    return built


def register() -> None:
    """Register the named instances with Gymnasium under ``rrl/``; twice does no harm."""
    named = {
        "LinearMDP-v0": {},
        "Chain-v0": {"mdp": "chain", "n_states": 8, "horizon": 16},
        "RiverSwim-v0": {"mdp": "river_swim"},
        "CombinationLock-v0": {"mdp": "combination_lock", "horizon": 8, "n_actions": 3},
        "RandomLinear-v0": {"mdp": "random", "n_states": 20, "n_actions": 4, "dim": 5, "horizon": 10},
        "BoundaryLock-v0": {"mdp": "boundary_lock"},
        "SteepMeasure-v0": {"mdp": "steep_measure"},
    }
    for name, kwargs in named.items():
        if f"rrl/{name}" not in gymnasium.registry:
            gymnasium.register(id=f"rrl/{name}", entry_point=f"{__name__}:LinearMDPEnv", kwargs=kwargs)


register()
