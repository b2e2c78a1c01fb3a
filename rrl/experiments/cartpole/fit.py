"""Replicable fitted Q-iteration for thousands of sub-samples at once: the codes of ReplicableFittedQ.

The rows are cut into blocks and every sample is a choice of blocks, so a sum over a sample is a
combination of sums over blocks. With max(q0, q1) = q0 + max(q1 - q0, 0), the only sums that depend on
the weights are those of features times max(q1 - q0, 0): two matrix products a block for all samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...rounding import hypergrid_round

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import ArrayLike

__all__ = ["BatchFit", "Blocks", "batched_fitted_q", "cut_blocks", "positive_parts"]

#: Columns of one matrix product: its result stays in the second-level cache.
CHUNK = 256


@dataclass(frozen=True, eq=False)
class Blocks:
    """Features and sums of a data set of two actions, block by block.

    Attributes
    ----------
    rows : list of (ndarray, ndarray)
        Row numbers of each block by action, increasing.
    phi, following : list of (ndarray, ndarray), each of shape (n_rows, D)
        Features of the observations; of the next ones, times gamma, zero at terminal rows.
    counts : ndarray of int64, shape (n_blocks, 2)
    gram, cross : ndarray, shape (n_blocks, 2, D, D)
        Sums of phi phi' and phi following'.
    reward : ndarray, shape (n_blocks, 2, D)
        Sums of phi times reward.
    """

    rows: list
    phi: list
    following: list
    counts: np.ndarray
    gram: np.ndarray
    cross: np.ndarray
    reward: np.ndarray


def cut_blocks(data: Any, features: Any, gamma: float, parts: list[np.ndarray]) -> Blocks:
    """Features and sums of every block of a partition of the rows.

    Parameters
    ----------
    data : CartPoleData
        Usable rows only.
    features : RandomFourierFeatures
        Fitted.
    gamma : float
    parts : list of ndarray of int
        Row numbers of every block.

    Returns
    -------
    Blocks
    """
    phi = features.transform(data.observations)
    # What follows a terminal row counts for nothing, and may be unknown.
    following = features.transform(np.where(data.terminals[:, None], 0, data.next_observations))
    following *= gamma * ~data.terminals[:, None]
    rows = [tuple(np.sort(part[data.actions[part] == a]) for a in (0, 1)) for part in parts]
    ours = [tuple(phi[index] for index in pair) for pair in rows]
    theirs = [tuple(following[index] for index in pair) for pair in rows]
    rewards = [tuple(data.rewards[index].astype(np.float64) for index in pair) for pair in rows]
    return Blocks(
        rows,
        ours,
        theirs,
        np.array([[len(index) for index in pair] for pair in rows]),
        np.array([[p.T @ p for p in pair] for pair in ours]),
        np.array([[p.T @ f for p, f in zip(*pairs)] for pairs in zip(ours, theirs)]),
        np.array([[p.T @ r for p, r in zip(*pairs)] for pairs in zip(ours, rewards)]),
    )


@dataclass(frozen=True, eq=False)
class BatchFit:
    """Result of :func:`batched_fitted_q` for S samples, C columns and T rounds.

    Attributes
    ----------
    weights : ndarray, shape (T, S, C, 2, D)
        Of every round, rounded where the column is.
    codes : ndarray of int64, shape (T, S, C, 2, D)
        Grid codes; zeros in columns without rounding.
    unrounded : ndarray, shape (T, S, C, 2, D)
        Ridge weights before rounding.
    """

    weights: np.ndarray
    codes: np.ndarray
    unrounded: np.ndarray


def batched_fitted_q(
    blocks: Blocks,
    choice: np.ndarray,
    penalties: ArrayLike,
    rounded: ArrayLike,
    *,
    n_rounds: int,
    bin_width: float,
    shared_seed: int,
    sums: bool = False,
    path: np.ndarray | None = None,
) -> BatchFit:
    """Fit every sample with every penalty, with and without rounding.

    Parameters
    ----------
    blocks : Blocks
    choice : ndarray of int, shape (S, n_blocks)
        How often each sample holds each block; 0 or 1 in a sub-sample.
    penalties : array_like, shape (C,)
        The paper's lambda in average form, per action.
    rounded : array_like of bool, shape (C,)
        Whether the column's weights are rounded.
    n_rounds : int
    bin_width : float
        The paper's alpha.
    shared_seed : int
        The paper's random string r, for the grid offsets.
    sums : bool
        Penalise the sum of squares instead of their mean (scikit-learn's alpha).
    path : ndarray, shape (T, C, 2, D), optional
        Start every round after the first from these weights of the round before, in place of the
        sample's own: one step from a common path.

    Returns
    -------
    BatchFit
    """
    choice, rounded = np.asarray(choice), np.asarray(rounded, dtype=bool)
    n_samples, n_columns, d = len(choice), len(rounded), blocks.gram.shape[-1]
    weight = choice.astype(np.float64)

    def combine(sums_of_blocks):
        return (weight @ sums_of_blocks.reshape(len(sums_of_blocks), -1)).reshape(n_samples, *sums_of_blocks.shape[1:])

    size = (choice @ blocks.counts)[:, :, None]
    if not size.all():
        raise ValueError("a sample has no row of one of the actions")
    gram = combine(blocks.gram) / size[..., None]
    cross, reward = combine(blocks.cross) / size[..., None], combine(blocks.reward) / size
    values, vectors = np.linalg.eigh(gram)
    # Without a penalty, directions that the data do not span get weight zero: the least-norm answer.
    values[values < d * np.finfo(float).eps * values[..., -1:]] = np.inf
    shrink = np.asarray(penalties, dtype=np.float64)[None, :, None, None] / (size[:, None] if sums else 1)
    inverse = 1 / (values[:, None] + shrink)

    weights = np.zeros((n_samples, n_columns, 2, d))
    history = []
    for number in range(n_rounds):
        if path is not None and number:
            weights = np.broadcast_to(path[number - 1], weights.shape)
        moment = np.broadcast_to(reward[:, None], weights.shape).copy()
        if number:
            moment += np.einsum("saij,scj->scai", cross, weights[:, :, 0], optimize=True)
            moment += positive_parts(blocks, choice, weights[:, :, 1] - weights[:, :, 0]) / size[:, None]
        inner = np.einsum("saij,scai->scaj", vectors, moment, optimize=True)
        weights = np.einsum("saij,scaj->scai", vectors, inverse * inner, optimize=True)
        codes = np.zeros(weights.shape, np.int64)
        unrounded = weights
        if rounded.any():
            # One draw of the offsets for all samples, the one that ReplicableFittedQ makes.
            grid = hypergrid_round(np.zeros((2, d)), bin_width, shared_seed=shared_seed, key=("fitted_q", number))
            codes[:, rounded] = np.floor((weights[:, rounded] - grid.offsets) / bin_width)
            weights = weights.copy()
            weights[:, rounded] = grid.offsets + (codes[:, rounded] + 0.5) * bin_width
        history.append((weights, codes, unrounded))
    return BatchFit(*(np.array(part) for part in zip(*history)))


def positive_parts(blocks: Blocks, choice: np.ndarray, differences: np.ndarray) -> np.ndarray:
    """Sums of phi max(following . difference, 0) over every sample, by action.

    Parameters
    ----------
    blocks : Blocks
    choice : ndarray of int, shape (S, n_blocks)
    differences : ndarray, shape (S, C, D)

    Returns
    -------
    ndarray, shape (S, C, 2, D)
    """
    n_samples, n_columns, d = differences.shape
    # Rounding makes many weight vectors equal: each is worked out once.
    distinct, which = np.unique(differences.reshape(-1, d), axis=0, return_inverse=True)
    which = which.reshape(n_samples, n_columns)
    total = np.zeros((n_samples, n_columns, 2, d))
    for block, (phi, following) in enumerate(zip(blocks.phi, blocks.following)):
        members = np.flatnonzero(choice[:, block])
        wanted = np.zeros(len(distinct), bool)
        wanted[which[members]] = True
        vectors = distinct[wanted]
        part = np.empty((len(vectors), 2, d))
        for start in range(0, len(vectors), CHUNK):
            piece = slice(start, start + CHUNK)
            for action in (0, 1):
                gain = vectors[piece] @ following[action].T
                np.maximum(gain, 0, out=gain)
                np.matmul(gain, phi[action], out=part[piece, action])
        part = part[(np.cumsum(wanted) - 1)[which[members]]]
        times = choice[members, block]
        total[members] += part if (times == 1).all() else part * times[:, None, None, None]
    return total
