"""Settings and random streams of a PQN run, and what a pool of environments has to offer."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from rrl._checks import (
    as_float64,
    check_bool,
    check_choice,
    check_data_seed,
    check_fraction,
    check_integer,
    check_non_negative,
    check_positive,
)

if TYPE_CHECKING:
    from typing import Any

__all__ = ["PQNConfig", "Step", "VectorEnv"]

#: The random streams of a run, in the order that their seeds come from.
STREAMS = ("init", "explore", "shuffle", "ties", "env")


class Step(NamedTuple):
    """What a pool of environments answers to a step; every field has one entry an environment.

    `ended` closes the learner's episode for good (a lost life may), `cut` is a time limit. `valid` is
    False on the step that only resets a finished game: its action had no effect and it is no data.
    `score` is the unclipped return of a whole game that finished with this step, else NaN.
    """

    observation: np.ndarray
    reward: np.ndarray
    ended: np.ndarray
    cut: np.ndarray
    valid: np.ndarray
    score: np.ndarray


class VectorEnv(Protocol):
    """A pool of environments. `state` returns None where it cannot be saved exactly."""

    n_actions: int
    observation_shape: tuple

    def reset(self, seeds: Any) -> Any:
        """Start every environment; seeds are 31-bit integers. Gives observations, uint8 or floats."""

    def step(self, actions: Any) -> Any:
        """Take one action in every environment. Gives a `Step`."""

    def state(self) -> Any:
        """All state as a dict of arrays, or None."""

    def load_state(self, state: Any) -> Any:
        """Go on from what `state` gave. May give the observations that follow from it, which are compared."""


def check_runs(runs: Any) -> list:
    """Seeds and settings, as a list of pairs."""
    runs = list(runs) if np.iterable(runs) else [runs]
    if not runs or not all(isinstance(run, tuple | list) and isinstance(run[-1], PQNConfig) for run in runs):
        raise ValueError(f"runs must be pairs of a seed and a PQNConfig, at least one, got {runs!r:.100}")
    return runs


def make_pool(make_env: Any, n: int) -> Any:
    """The pool of `n` environments that a function makes."""
    if not callable(make_env):
        raise TypeError(f"make_env must be a function of the number of environments, got {make_env!r:.100}")
    env = make_env(n)
    needed = ("reset", "step", "n_actions", "observation_shape")
    if lacking := [name for name in needed if not hasattr(env, name)]:
        raise TypeError(f"make_env must make a VectorEnv, got {env!r:.100} without {', '.join(lacking)}")
    return env


def check_observation(observation: Any, n: int, shape: Any) -> Any:
    """Observations of a pool of `n` environments."""
    if not isinstance(observation, np.ndarray) or observation.shape != (n, *shape):
        got = observation.shape if isinstance(observation, np.ndarray) else type(observation).__name__
        raise ValueError(f"observations of the pool must be an array of shape {(n, *shape)}, got {got}")
    return observation


def check_step(step: Any, n: int, shape: Any) -> Any:
    """The answer of a pool of `n` environments to a step."""
    check_observation(step.observation, n, shape)
    for name in ("reward", "ended", "cut", "valid", "score"):
        if np.shape(getattr(step, name)) != (n,):
            got = np.shape(getattr(step, name))
            raise ValueError(f"{name} of the pool must have one entry an environment, shape ({n},), got shape {got}")
    return step


@dataclass(frozen=True)
class PQNConfig:
    """Settings of one run; the defaults are Table 1 of the paper (no decay, no rounding).

    The second block holds what may differ between runs that train together.

    Parameters
    ----------
    total_steps, n_envs, n_steps, n_minibatches, epochs : int
        Environment steps in all; environments; steps of each in an iteration; minibatches; epochs.
    learning_rate, anneal_lr, gamma, q_lambda, max_grad_norm : float, bool
        As in CleanRL; the rate falls linearly to 0 when annealed.
    start_e, end_e, exploration_fraction : float
        Exploration falls linearly over this fraction of `total_steps`.
    adam_betas, adam_eps : tuple, float
        AdamW's defaults.
    clip_rewards : bool
        The learner sees the sign of each reward; reported scores never are clipped.
    trace_through_ends : bool
        See `q_lambda_targets`.
    precision : {"float32", "bfloat16"}
        Of the products of the hidden layers on a CPU, see `rrl.pqn.mixed`; the last layer, targets, rounding, losses,
        optimiser and the weights that it changes stay in float32.
    weight_decay : float
        Decoupled weight decay, on all parameters.
    grid_step : float
        Outputs are rounded to multiples of it; 0 for no rounding.
    round_acting, round_targets : bool
        Greedy actions from rounded outputs; cached maxima from rounded outputs.
    round_loss : {"no", "straight-through", "plain"}
        Whether the loss sees rounded outputs; "plain" has zero gradient and learns nothing.
    tie_break : {"first", "shared", "independent"}
        Lowest index; a random priority that all runs share; one of the run's own.

    Examples
    --------
    >>> from rrl.pqn import PQNConfig
    >>> PQNConfig().q_lambda, PQNConfig(grid_step=0.4).round_loss
    (0.65, 'no')
    """

    total_steps: int = 10_000_000
    n_envs: int = 8
    n_steps: int = 128
    n_minibatches: int = 4
    epochs: int = 4
    learning_rate: float = 2.5e-4
    anneal_lr: bool = True
    gamma: float = 0.99
    q_lambda: float = 0.65
    max_grad_norm: float = 10.0
    start_e: float = 1.0
    end_e: float = 0.01
    exploration_fraction: float = 0.3
    adam_betas: tuple = (0.9, 0.999)
    adam_eps: float = 1e-8
    clip_rewards: bool = True
    trace_through_ends: bool = False
    precision: str = "float32"

    weight_decay: float = 0.0
    grid_step: float = 0.0
    round_acting: bool = True
    round_targets: bool = True
    round_loss: str = "no"
    tie_break: str = "first"

    def __post_init__(self):
        given = vars(self)

        def named(*names):
            return {name: given[name] for name in names}

        check_integer(1, **named("total_steps", "n_envs", "n_steps", "n_minibatches", "epochs"))
        check_non_negative(**named("learning_rate", "weight_decay", "grid_step"))
        check_fraction(**named("gamma", "q_lambda", "start_e", "end_e", "exploration_fraction"))
        check_positive(**named("max_grad_norm", "adam_eps"))
        betas = as_float64("adam_betas", self.adam_betas)
        if betas.shape != (2,) or not ((betas >= 0) & (betas < 1)).all():
            raise ValueError(f"adam_betas must be two numbers in [0, 1), got {self.adam_betas!r}")
        check_bool(**named("anneal_lr", "clip_rewards", "trace_through_ends", "round_acting", "round_targets"))
        if self.n_envs * self.n_steps % self.n_minibatches:
            raise ValueError(
                f"n_minibatches must divide n_envs * n_steps = {self.n_envs * self.n_steps}, got {self.n_minibatches}"
            )
        if self.total_steps < self.n_envs * self.n_steps:
            raise ValueError(f"total_steps must cover one iteration, got {self.total_steps}")
        for name, allowed in (
            ("round_loss", ("no", "straight-through", "plain")),
            ("tie_break", ("first", "shared", "independent")),
            ("precision", ("float32", "bfloat16")),
        ):
            check_choice(name, given[name], allowed)

    def settings(self) -> Any:
        """Plain dict of all settings, as records hold it: without `precision` where it is float32, as older ones."""
        return {k: v for k, v in asdict(self).items() if (k, v) != ("precision", "float32")}

    @property
    def n_iterations(self) -> Any:
        """Number of whole iterations in `total_steps`."""
        return self.total_steps // (self.n_envs * self.n_steps)


def run_generators(seed: Any) -> Any:
    """The named generators of one run: children of one seed, none of which pads into another."""
    check_data_seed(seed)
    children = {name: np.random.SeedSequence(int(seed), spawn_key=(k,)) for k, name in enumerate(STREAMS)}
    return {name: np.random.default_rng(child) for name, child in children.items()}
