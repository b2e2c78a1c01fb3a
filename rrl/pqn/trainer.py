"""PQN (Gallici et al. 2025) as CleanRL has it, for many runs at once.

One iteration: act `n_steps` steps in every environment, compute Q(lambda) targets from the values
cached while acting, then `epochs` passes of `n_minibatches` gradient steps with AdamW. All random
numbers of a run come from generators of its own, so a run does not depend on what it is batched with
(up to float noise of batched products).
"""

from __future__ import annotations

import dataclasses
import json
import math
import time
from typing import TYPE_CHECKING

import numpy as np

from rrl.pqn import mixed
from rrl.pqn._torch import require_torch
from rrl.pqn.actions import greedy_actions, quantise
from rrl.pqn.config import check_observation, check_runs, check_step, make_pool, run_generators
from rrl.pqn.files import load_tensors, save_tensors
from rrl.pqn.network import Architecture, StackedQNetwork
from rrl.pqn.optimizer import adamw_step, clip_norms
from rrl.pqn.targets import linear_schedule, q_lambda_targets
from rrl.randomness import shared_uniform

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Trainer"]

PER_RUN = ("weight_decay", "grid_step", "round_acting", "round_targets", "round_loss", "tie_break")


class Trainer:
    """Trains runs together, one iteration at a time.

    Parameters
    ----------
    runs : sequence of (int, PQNConfig)
        Seed and settings of each run; settings may differ in the second block of `PQNConfig` only.
    make_env : callable
        ``make_env(n)`` gives a `VectorEnv` with n environments, such as
        ``lambda n: rrl.pqn.GymnasiumPool("CartPole-v1", n)``. Observations are uint8 or floats.
    architecture : Architecture, optional
        Of the network; the default is for Atari's frames, `rrl.experiments.games.minatar.ARCHITECTURE` for MinAtar's,
        ``Architecture(convs=(), dense=(128, 128), scale=1.0)`` for vectors.
    device : str
        Of torch.
    conv : str, optional
        See `StackedQNetwork`; chosen by the device if not given.
    shared_seed : int
        Shared randomness of ``tie_break="shared"``.

    Attributes
    ----------
    theta : torch tensor, shape (R, P)
        Parameters of all runs.
    network : StackedQNetwork
        ``network(theta, observations)`` gives the Q-values of a batch of observations for each run.
    iteration : int
        Iterations done.
    seconds : float
        Processor time of these iterations.
    precisions : list of str
        What `PQNConfig.precision` came to on the processors that trained so far, see `rrl.pqn.mixed.usable`.
    sessions : list of dict
        What `train` was told of each stretch, with the iteration at which it began.
    label : object
        Plain JSON that checkpoints carry for who finds them, such as what the runs are called.
    games : list of list of (int, float)
        For each run, the step at which a whole game finished, and its unclipped return.
    curve : list of dict
        One entry an iteration: step, and for each run loss, mean max Q and share of tied steps.

    Examples
    --------
    >>> from rrl.pqn import PQNConfig, Trainer, train
    >>> from rrl.pqn.atari import AtariPool
    >>> settings = dict(total_steps=16, n_envs=1, n_steps=8, n_minibatches=1, epochs=1)
    >>> runs = [(0, PQNConfig(**settings)), (0, PQNConfig(grid_step=0.4, **settings))]
    >>> trainer = Trainer(runs, lambda n: AtariPool("breakout", n))
    >>> train(trainer), trainer.step_count(), tuple(trainer.theta.shape)
    (True, 16, (2, 1729444))
    """

    def __init__(
        self,
        runs: Any,
        make_env: Callable[..., Any],
        *,
        architecture: Architecture | None = None,
        device: str = "cpu",
        conv: str | None = None,
        shared_seed: int = 0,
    ) -> None:
        torch = require_torch()
        runs = check_runs(runs)
        self.seeds, self.configs = [s for s, _ in runs], [c for _, c in runs]
        self.config = c = self.configs[0]
        for other in self.configs[1:]:
            if dataclasses.replace(other, **{k: getattr(c, k) for k in PER_RUN}) != c:
                raise ValueError(f"runs may differ only in {PER_RUN}, got {c} and {other}")
        self.device, self.shared_seed, self.n_runs = torch.device(device), shared_seed, len(runs)
        precision = mixed.usable(c.precision, self.device)
        self.precisions = [precision]
        self.generators = [run_generators(seed) for seed in self.seeds]
        self.env = make_pool(make_env, self.n_runs * c.n_envs)
        conv = conv or ("loop" if self.device.type == "cpu" else "patches")
        shape = (self.n_runs, self.env.observation_shape, self.env.n_actions, architecture or Architecture())
        self.network = StackedQNetwork(*shape, conv, precision)
        # A step is a small batch, whose cost on a CPU is the number of calls.
        together = conv == "loop" and self.n_runs > 1 and precision == "float32"
        self._actor = StackedQNetwork(*shape, "grouped") if together else self.network
        self.theta = self.network.initial([g["init"] for g in self.generators]).to(self.device)
        self.moments = torch.zeros((2, *self.theta.shape), device=self.device)
        self.updates = self.iteration = self.restarts = 0
        self.seconds = 0.0
        self.games = [[] for _ in runs]
        self.curve, self.sessions = [], []
        self.label: Any = None
        self._observation = self._reset()
        shape, kind = self.env.observation_shape, mixed.kept_as(self._observation.dtype, c.precision)
        if precision == "bfloat16":
            one = torch.zeros((1, *shape), dtype=torch.uint8)
            shape, kind = mixed.pixels(one, self.network.architecture).shape[1:], torch.bfloat16  # once for all epochs
        size = (self.n_runs, c.n_envs * c.n_steps, *shape)
        self._buffer = torch.empty(size, dtype=kind, device=self.device)

    def _column(self, values):
        """One number a run, as a tensor of shape (R, 1, 1)."""
        return require_torch().tensor(values, device=self.device).reshape(-1, 1, 1)

    def _reset(self):
        n = self.config.n_envs
        seeds = np.concatenate([g["env"].integers(2**31 - 1, size=n) for g in self.generators])
        observation = check_observation(self.env.reset(seeds), len(seeds), self.env.observation_shape)
        return observation.reshape(self.n_runs, n, *self.env.observation_shape)

    def step_count(self) -> Any:
        """Environment steps done by each run."""
        return self.iteration * self.config.n_envs * self.config.n_steps

    def _priorities(self):
        """Priorities of actions among ties, shape (T, R, E, A), or None when all take the first."""
        if all(c.tie_break == "first" for c in self.configs):
            return None
        c, a = self.config, self.env.n_actions
        size = (c.n_steps, c.n_envs, a)
        drawn = {
            "first": lambda g: np.broadcast_to(np.arange(a)[::-1] / a, size),
            "shared": lambda g: shared_uniform(self.shared_seed, ("pqn", "ties", self.iteration), size),
            "independent": lambda g: g["ties"].random(size),
        }
        priorities = [drawn[k.tie_break](g) for k, g in zip(self.configs, self.generators, strict=True)]
        return require_torch().from_numpy(np.stack(priorities, 1)).to(self.device)

    def _act(self):
        """Roll the environments `n_steps` steps; return what was seen, time first."""
        torch, c, r, e = require_torch(), self.config, self.n_runs, self.config.n_envs
        chance = [g["explore"].random((c.n_steps, e)) for g in self.generators]
        chance = np.stack(chance, 1)
        randoms = [g["explore"].integers(self.env.n_actions, size=(c.n_steps, e)) for g in self.generators]
        actions, priorities = np.stack(randoms, 1), self._priorities()
        step = self._column([float(k.grid_step) for k in self.configs])
        acting = step * self._column([k.round_acting for k in self.configs])
        target = step * self._column([k.round_targets for k in self.configs])
        p = self._actor.at_rest(self.theta)
        q = torch.empty((c.n_steps + 1, r, e, self.env.n_actions), device=self.device)
        seen = np.zeros((4, c.n_steps, r, e), np.float32)
        before = self.step_count()
        for t in range(c.n_steps + 1):
            observation = torch.from_numpy(self._observation).to(self.device)
            if self.network.precision == "bfloat16":
                observation = torch.stack([mixed.pixels(seen, self.network.architecture) for seen in observation])
            q[t] = self._actor.values(p, observation)
            if t == c.n_steps:
                break
            greedy = greedy_actions(quantise(q[t], acting), None if priorities is None else priorities[t])
            self._buffer[:, t * e : (t + 1) * e] = observation
            now = before + (t + 1) * e
            epsilon = linear_schedule(c.start_e, c.end_e, c.exploration_fraction * c.total_steps, now)
            actions[t] = np.where(chance[t] < epsilon, actions[t], greedy.cpu().numpy())
            out = check_step(self.env.step(actions[t].ravel()), r * e, self.env.observation_shape)
            self._observation = out.observation.reshape(self._observation.shape)
            reward = np.sign(out.reward) if c.clip_rewards else out.reward
            for k, part in enumerate((reward, out.ended, out.cut, out.valid)):
                seen[k, t] = np.reshape(part, (r, e))
            for i in np.flatnonzero(~np.isnan(out.score)):
                self.games[i // e].append((now, float(out.score[i])))
        rounded = quantise(q[:-1], acting)
        ties = ((rounded == rounded.amax(-1, keepdim=True)).sum(-1) > 1).float().mean((0, 2))
        values = quantise(q, target).amax(-1)
        return torch.from_numpy(actions).to(self.device), torch.from_numpy(seen).to(self.device), values, ties

    def iterate(self) -> None:
        """One iteration: act, compute targets, learn."""
        torch, c, began = require_torch(), self.config, time.process_time()
        actions, (rewards, ended, cut, valid), values, ties = self._act()
        if not values.isfinite().all():
            raise FloatingPointError(f"Q-values are not finite at step {self.step_count() + c.n_envs * c.n_steps}")
        targets = q_lambda_targets(rewards, values[1:], ended, cut, c.gamma, c.q_lambda, c.trace_through_ends)
        losses = self._learn(actions, torch.stack(targets), valid)
        self.iteration += 1
        loss = losses.tolist()
        if not all(map(math.isfinite, loss)):
            raise FloatingPointError(f"loss is not finite at step {self.step_count()}: {loss}")
        mean_q = values[:-1].mean((0, 2)).tolist()
        self.seconds += time.process_time() - began
        self.curve.append({"step": self.step_count(), "loss": loss, "mean_q": mean_q, "ties": ties.tolist()})

    def _learn(self, *told):
        """Pass over actions, targets and weights, time first, in minibatches; return the mean losses, shape (R,)."""
        torch, c, r = require_torch(), self.config, self.n_runs
        flat = [x.transpose(0, 1).flatten(1) for x in told]
        size = c.n_envs * c.n_steps
        rate = c.learning_rate * (1 - self.iteration / c.n_iterations if c.anneal_lr else 1)
        rows = torch.arange(r, device=self.device)[:, None]
        total = torch.zeros(r, device=self.device)
        for _ in range(c.epochs):
            order = np.stack([g["shuffle"].permutation(size) for g in self.generators])
            order = torch.from_numpy(order).to(self.device)
            for index in order.split(size // c.n_minibatches, dim=1):
                seen = [own.index_select(0, row) for own, row in zip(self._buffer, index)]
                seen = seen if self.network.precision == "bfloat16" else torch.stack(seen)
                total += self._update(seen, *(x[rows, index] for x in flat), rate)  # pyright: ignore[reportCallIssue]
        return total / (c.epochs * c.n_minibatches)

    def _update(self, observations, actions, targets, weights, rate):
        """One gradient step of every run; return the losses, shape (R,)."""
        torch, c = require_torch(), self.config
        theta = self.theta.requires_grad_()
        q = self.network(theta, observations)
        if any(k.round_loss != "no" for k in self.configs):
            step = self._column([k.grid_step * (k.round_loss != "no") for k in self.configs])
            through = self._column([float(k.round_loss == "straight-through") for k in self.configs])
            rounded = quantise(q, step)
            q = torch.where(step > 0, rounded.detach() + through * (q - q.detach()), q)
        chosen = q.gather(2, actions[..., None]).squeeze(2)
        losses = (weights * (targets - chosen) ** 2).sum(1) / weights.sum(1).clamp(min=1)
        (gradient,) = torch.autograd.grad(losses.sum(), theta)
        self.theta = theta.detach()
        self.updates += 1
        decay = torch.tensor([k.weight_decay for k in self.configs], device=self.device)
        clip_norms(gradient, c.max_grad_norm)
        adamw_step(self.theta, self.moments, gradient, self.updates, rate, decay, c.adam_betas, c.adam_eps)
        return losses.detach()

    def save(self, path: Any) -> None:
        """Write a checkpoint that `load` can check (see `rrl.pqn.files`)."""
        torch, environment = require_torch(), self.env.state()
        tensors = {"theta": self.theta, "moments": self.moments}
        if environment is not None:
            tensors |= {f"env.{k}": torch.from_numpy(np.array(v)) for k, v in environment.items()}
            tensors["observation"] = torch.from_numpy(self._observation.copy())
        kept = ("iteration", "updates", "restarts", "seconds", "games", "curve", "sessions", "precisions", "label")
        header = {
            **self._identity(),
            "generators": [{k: g.bit_generator.state for k, g in gs.items()} for gs in self.generators],
            **{k: getattr(self, k) for k in kept},
        }
        save_tensors(path, tensors, header)

    def _identity(self):
        """What a checkpoint has to be of, as JSON gives it back."""
        kind = {
            "runs": [[seed, c.settings()] for seed, c in zip(self.seeds, self.configs, strict=True)],
            "shared_seed": self.shared_seed,
            "architecture": dataclasses.asdict(self.network.architecture),
            "observation_shape": self.env.observation_shape,
            "n_actions": self.env.n_actions,
        }
        return json.loads(json.dumps(kind))

    @property
    def exact(self) -> bool:
        """Whether the training went as one without interruptions: no restart, and one precision all the way."""
        return self.restarts == 0 and len(self.precisions) == 1

    def load(self, path: Any) -> None:
        """Go on from a checkpoint of the same runs.

        Bit for bit where the environments' state could be saved; otherwise they are restarted from
        new seeds of their own streams and `restarts` counts it.

        Raises
        ------
        FileNotFoundError
        rrl.pqn.files.DamagedFile
            If it is not what was written.
        ValueError
            If it is of other runs, another `shared_seed`, network or kind of environment, or if the environments show
            something else now; what was learnt here is kept then.
        """
        tensors, header = load_tensors(path)
        for name, mine in self._identity().items():
            if header.get(name) != mine:
                told = f": {header.get(name)}, here {mine}" if name != "runs" else ""
                raise ValueError(f"checkpoint {path} has other {name}{told}; without that file, training begins anew")
        if "observation" in tensors:
            observation = tensors["observation"].numpy()
            shown = self.env.load_state({k[4:]: v.numpy() for k, v in tensors.items() if k.startswith("env.")})
            if shown is not None and not np.array_equal(shown, observation.reshape(shown.shape)):
                raise ValueError(
                    f"checkpoint {path} is of environments that, played again here, show something else: is their "
                    "release another, or their settings?"
                )
            self._observation = observation
        self.theta = tensors["theta"].to(self.device)
        self.moments = tensors["moments"].to(self.device)
        for generators, states in zip(self.generators, header["generators"], strict=True):
            for name, state in states.items():
                generators[name].bit_generator.state = state
        for name in ("iteration", "updates", "restarts", "seconds", "curve", "sessions"):
            setattr(self, name, header[name])
        # A processor without bfloat16 may go on with what another one began.
        self.precisions = list(dict.fromkeys([*header["precisions"], *self.precisions]))
        self.games = [[tuple(game) for game in games] for games in header["games"]]
        if "observation" not in tensors:
            self._observation = self._reset()
            self.restarts += 1
