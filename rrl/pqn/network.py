"""The Q-network of PQN for many runs at once (Section 6.2).

R runs share one architecture. Their parameters are the rows of one matrix, so that a whole batch of
runs is initialised, clipped and optimised by a few array operations; a run's output depends on its
own row only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rrl._checks import check_integer
from rrl.pqn import mixed
from rrl.pqn._torch import require_torch
from rrl.pqn.actions import greedy_actions, quantise

if TYPE_CHECKING:
    from typing import Any

__all__ = ["Architecture", "StackedQNetwork", "greedy_actions", "quantise"]


@dataclass(frozen=True)
class Architecture:
    """Layer sizes of a Q-network; the defaults are the Atari network of CleanRL's PQN.

    Every hidden layer is followed by LayerNorm over all its outputs of one sample, and ReLU. Observations that are
    vectors have no convolutions: ``Architecture(convs=(), dense=(128, 128), scale=1.0)``.

    Parameters
    ----------
    convs : tuple of (int, int, int)
        (channels, kernel, stride) of each convolution; none for observations of any shape.
    dense : tuple of int
        Width of each hidden dense layer.
    scale : float
        Observations are divided by it.

    Examples
    --------
    >>> from rrl.pqn import Architecture
    >>> Architecture().dense
    (512,)
    """

    convs: tuple = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
    dense: tuple = (512,)
    scale: float = 255.0


def _orthogonal(rng, shape, gain):
    """An orthogonal matrix of `shape`, uniform (QR of a Gaussian matrix, signs fixed)."""
    rows, columns = shape
    q, r = np.linalg.qr(rng.standard_normal((max(shape), min(shape))))
    q = q * np.sign(np.diag(r))
    return gain * (q if rows >= columns else q.T)


class StackedQNetwork:
    """Q-networks of `n_runs` runs with one architecture.

    Parameters
    ----------
    n_runs : int
        Number R of runs.
    observation_shape : tuple of int
        (channels, height, width); of any length where the architecture has no convolutions.
    n_actions : int
        Number A of actions.
    architecture : Architecture
        Layer sizes.
    conv : {"loop", "patches", "grouped"}
        Run after run (fast on a CPU, where one run's layers fit the cache); or all runs at once, with
        convolutions as batched products of image patches (few kernels, for a GPU) or as one convolution
        in groups (for small batches on a CPU). All agree up to float noise.
    precision : {"float32", "bfloat16"}
        The second computes the hidden layers as `rrl.pqn.mixed` says, run after run.

    Attributes
    ----------
    shapes : dict of str to tuple
        The parameters in order; their flattened concatenation is one row of the parameter matrix.
    n_parameters : int
        Length P of a row.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.pqn import Architecture, StackedQNetwork
    >>> net = StackedQNetwork(2, (1, 4, 4), 3, Architecture(convs=((2, 3, 1),), dense=(5,), scale=1.0))
    >>> theta = net.initial([np.random.default_rng(seed) for seed in (0, 1)])
    >>> tuple(theta.shape), net.n_parameters
    ((2, 109), 109)
    >>> tuple(net(theta, np.zeros((2, 7, 1, 4, 4), dtype=np.uint8)).shape)
    (2, 7, 3)
    """

    def __init__(
        self,
        n_runs: int,
        observation_shape: Any,
        n_actions: int,
        architecture: Architecture | None = None,
        conv: str = "loop",
        precision: str = "float32",
    ) -> None:
        if conv not in ("loop", "patches", "grouped"):
            raise ValueError(f"conv must be 'loop', 'patches' or 'grouped', got {conv!r}")
        if precision not in ("float32", "bfloat16"):
            raise ValueError(f"precision must be 'float32' or 'bfloat16', got {precision!r}")
        check_integer(1, n_runs=n_runs, n_actions=n_actions)
        if precision == "bfloat16" and conv != "loop":
            raise ValueError(f"precision 'bfloat16' goes run after run: conv must be 'loop', got {conv!r}")
        self.n_runs, self.n_actions, self.conv, self.precision = n_runs, n_actions, conv, precision
        self.architecture = architecture or Architecture()
        shape = self.observation_shape = tuple(observation_shape)
        if not shape or (self.architecture.convs and len(shape) != 3):
            raise ValueError(
                f"observation_shape {observation_shape} is not (channels, height, width): use an architecture without "
                "convolutions, such as Architecture(convs=(), dense=(128, 128), scale=1.0)"
            )
        if precision == "bfloat16" and len(shape) != 3:
            raise ValueError(
                "precision 'bfloat16' is for observations of uint8, (channels, height, width), got "
                f"{observation_shape}: use 'float32'"
            )
        self.shapes = {}
        for i, (out, kernel, stride) in enumerate(self.architecture.convs):
            channels, height, width = shape
            height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
            if min(height, width) < 1:
                raise ValueError(
                    f"observation_shape {observation_shape} is too small for convolution {i} of the architecture"
                )
            shape = (out, height, width)
            self._layer(f"conv{i}", (out, channels, kernel, kernel), shape)
        inputs = math.prod(shape)
        for i, out in enumerate(self.architecture.dense):
            self._layer(f"dense{i}", (out, inputs), (out,))
            inputs = out
        self._layer("head", (n_actions, inputs), None)
        self._sizes = [math.prod(shape) for shape in self.shapes.values()]
        self.n_parameters = sum(self._sizes)

    def _layer(self, name, weight, norm):
        self.shapes[f"{name}.weight"], self.shapes[f"{name}.bias"] = weight, weight[:1]
        if norm:
            self.shapes[f"{name}.scale"] = self.shapes[f"{name}.shift"] = norm

    def initial(self, generators: Any) -> Any:
        """Orthogonal weights with gain sqrt 2 (head included), zero biases, LayerNorm scales 1.

        Parameters
        ----------
        generators : sequence of numpy Generator
            One for each run.

        Returns
        -------
        torch tensor of float32, shape (R, P)
        """
        torch = require_torch()
        rows = []
        for rng in generators:
            parts = []
            for name, shape in self.shapes.items():
                if name.endswith("weight"):
                    parts.append(_orthogonal(rng, (shape[0], math.prod(shape[1:])), math.sqrt(2)).ravel())
                else:
                    parts.append(np.full(math.prod(shape), float(name.endswith("scale"))))
            rows.append(np.concatenate(parts).astype(np.float32))
        return torch.from_numpy(np.stack(rows))

    def parameters(self, theta: Any) -> Any:
        """Name to tensor of shape (R, ...): views into the parameter matrix (R, P)."""
        if not hasattr(theta, "split_with_sizes") or theta.ndim != 2 or theta.shape[1] != self.n_parameters:
            got = f"{type(theta).__name__} of shape {np.shape(theta)}"
            raise ValueError(f"theta must be a tensor of shape (runs, {self.n_parameters}), got {got}")
        parts = theta.split(self._sizes, dim=1)
        return {name: part.view(-1, *shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}

    def at_rest(self, theta: Any) -> Any:
        """Parameters for `values`, laid out for many calls with few observations, without gradients."""
        p = self.parameters(theta.detach())
        if self.precision == "bfloat16":
            return self._laid_out(p)
        # Laid out by input, products with a few observations are faster.
        return {name: w.mT.contiguous().mT if w.ndim == 3 else w for name, w in p.items()}

    def _laid_out(self, p):
        """Parameters of each run, as `rrl.pqn.mixed` takes them."""
        rows = zip(*(part.unbind() for part in p.values()), strict=True)
        return [mixed.laid_out(dict(zip(p, row)), self.architecture) for row in rows]

    def __call__(self, theta, observations):
        """Q-values.

        Parameters
        ----------
        theta : torch tensor, shape (R, P)
            One row of parameters a run.
        observations : tensor or ndarray, shape (R, B, channels, height, width), or (R, B, ...) without convolutions
            A batch for each run.

        Returns
        -------
        torch tensor of float32, shape (R, B, A)
        """
        return self.values(self.parameters(theta), observations)

    def values(self, p: Any, observations: Any) -> Any:
        """Q-values, for callers that keep the parameters' tensors over several calls.

        Parameters
        ----------
        p : dict of str to torch tensor
            As `parameters` gives them, in any memory layout, or what `at_rest` gives.
        observations : tensor or ndarray, shape (R, B, channels, height, width), or (R, B, ...) without convolutions
            For precision "bfloat16" also what `rrl.pqn.mixed.pixels` made of those of each run.

        Returns
        -------
        torch tensor of float32, shape (R, B, A)
        """
        torch = require_torch()
        if self.precision == "bfloat16":
            rows = self._laid_out(p) if isinstance(p, dict) else p
            seen = [torch.as_tensor(own) for own in observations]
            if any(own.dtype != torch.bfloat16 for own in seen):
                self._check(np.shape(observations), len(rows))
                if kinds := {own.dtype for own in seen} - {torch.uint8}:
                    raise ValueError(f"observations must be uint8 for precision 'bfloat16', got {kinds.pop()}")
                seen = [mixed.pixels(own, self.architecture) for own in seen]
            pairs = zip(rows, seen, strict=True)
            return torch.stack([mixed.q_values(row, own, self.architecture) for row, own in pairs])
        x = torch.as_tensor(observations, device=p["head.weight"].device)
        self._check(x.shape, len(p["head.weight"]))
        if self.conv == "loop":
            rows = zip(*(part.unbind() for part in p.values()), strict=True)
            return torch.stack([self._one(dict(zip(p, row)), seen) for row, seen in zip(rows, x.unbind())])
        x = self._scaled(x)
        layer = self._patches if self.conv == "patches" else self._grouped
        for i, (_, kernel, stride) in enumerate(self.architecture.convs):
            x = _norm(layer(x, p, f"conv{i}", kernel, stride), p, f"conv{i}")
        x = x.flatten(2)
        for i in range(len(self.architecture.dense)):
            x = _norm(_affine(x, p, f"dense{i}"), p, f"dense{i}")
        return _affine(x, p, "head")

    def _check(self, shape, runs):
        """Refuse observations of another shape."""
        if len(shape) < 3 or shape[0] != runs or tuple(shape[2:]) != self.observation_shape:
            expected = ", ".join(map(str, (runs, "B", *self.observation_shape)))
            raise ValueError(f"observations must have shape ({expected}), a batch for each run, got {tuple(shape)}")

    def _scaled(self, x):
        return x.float() if self.architecture.scale == 1 else x.float() / self.architecture.scale

    def _patches(self, x, p, name, kernel, stride):
        r, b = x.shape[:2]
        patches = x.unfold(3, kernel, stride).unfold(4, kernel, stride)
        size = patches.shape[3:5]
        patches = patches.permute(0, 1, 3, 4, 2, 5, 6).reshape(r, b * size.numel(), -1)
        return _affine(patches, p, name).view(r, b, *size, -1).permute(0, 1, 4, 2, 3)

    def _grouped(self, x, p, name, kernel, stride):
        r = len(x)
        together = x.transpose(0, 1).flatten(1, 2)
        weight, bias = p[f"{name}.weight"].flatten(0, 1), p[f"{name}.bias"].flatten()
        y = require_torch().nn.functional.conv2d(together, weight, bias, stride, groups=r)
        return y.unflatten(1, (r, -1)).transpose(0, 1)

    def _one(self, p, x):
        """Q-values (B, A) of one run with parameters `p`, layer by layer."""
        functional = require_torch().nn.functional
        x = self._scaled(x)
        names = [f"conv{i}" for i in range(len(self.architecture.convs))]
        for name, (_, _, stride) in zip(names, self.architecture.convs):
            x = functional.conv2d(x, p[f"{name}.weight"], p[f"{name}.bias"], stride)
            x = functional.layer_norm(x, x.shape[1:], p[f"{name}.scale"], p[f"{name}.shift"]).relu()
        x = x.flatten(1)
        for name in (f"dense{i}" for i in range(len(self.architecture.dense))):
            x = functional.linear(x, p[f"{name}.weight"], p[f"{name}.bias"])
            x = functional.layer_norm(x, x.shape[1:], p[f"{name}.scale"], p[f"{name}.shift"]).relu()
        return functional.linear(x, p["head.weight"], p["head.bias"])


def _affine(x, p, name):
    """Batched ``x W' + b`` of the runs: (R, B, I) to (R, B, O)."""
    return require_torch().baddbmm(p[f"{name}.bias"][:, None], x, p[f"{name}.weight"].flatten(2).transpose(1, 2))


def _norm(x, p, name):
    """LayerNorm over all of a sample, then ReLU."""
    torch = require_torch()
    x = torch.nn.functional.layer_norm(x, x.shape[2:])
    return torch.addcmul(p[f"{name}.shift"][:, None], x, p[f"{name}.scale"][:, None]).relu()
