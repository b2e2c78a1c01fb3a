"""Round an estimate as soon as its confidence region lies in one cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._checks import as_float64, check_bin_width, check_choice, check_shared
from ..lattice import SCHEMES, boundary_distance
from ..rounding import Rounded

if TYPE_CHECKING:
    from typing import Any

__all__ = ["AdaptiveRounded", "adaptive_round"]


@dataclass(frozen=True, eq=False)
class AdaptiveRounded(Rounded):
    """Result of :func:`adaptive_round`: a :class:`rrl.Rounded`, and where the run stopped.

    Attributes
    ----------
    n_stages : int
        Stages that were used.
    settled : bool
        Whether the confidence region of the last of them lay in one cell; if not, the stages were used up.
    """

    n_stages: int
    settled: bool


def adaptive_round(
    stages: Any, bin_width: float, *, shared_seed: int, key: tuple = (), scheme: str = "grid"
) -> AdaptiveRounded:
    """Round the first estimate whose confidence region lies in one cell, or the last one whatever happens.

    More data would not change the cell, so a run that sees this may stop. All stages are rounded with
    the same shared offsets. Let the radius of every stage but the last fail with probability at most
    `miss` (the estimates' common target lies outside the region), and let X and Y be the errors of two
    runs that use all stages. Then two runs differ with probability at most

        2 (stages - 1) miss + (P[X cut] + P[Y cut] + P[X - Y cut]) / 2,

    where "cut" says that the target and the estimate, or the two estimates, lie in different cells
    (chapter 12 of the book). A radius must hold whatever the distribution; the stages, like the
    bin width, must be fixed before any data are seen. :func:`rrl.theory.stopping_stages` makes them.

    Parameters
    ----------
    stages : iterable of (array_like of shape (d,), float or array_like of shape (d,))
        Estimate and radius of each stage, from all rows so far; asked for one by one, so that a
        generator draws the rows of a stage only when it is reached. A number is a Euclidean radius, an
        array holds half-widths of a box. That of the last stage says only whether it is settled.
    bin_width : float
        The paper's alpha > 0.
    shared_seed : int
        The paper's random string r.
    key : tuple, default=()
        Name of this call.
    scheme : {"grid", "lattice"}, default="grid"
        :func:`rrl.hypergrid_round` or :func:`rrl.lattice_round`.

    Returns
    -------
    AdaptiveRounded

    Raises
    ------
    ValueError
        If there is no stage, a radius is negative or NaN, or an estimate cannot be rounded.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl import adaptive_round
    >>> def tosses(rng, sizes=(1_000, 4_000, 16_000, 64_000), miss=0.001):
    ...     heads = tossed = 0
    ...     for size in sizes:
    ...         heads += rng.binomial(size - tossed, 0.3)
    ...         tossed = size
    ...         yield [heads / size], np.sqrt(np.log(2 / miss) / (2 * size))  # Hoeffding
    >>> labs = [adaptive_round(tosses(np.random.default_rng(i)), 0.2, shared_seed=2) for i in range(2)]
    >>> [lab.n_stages for lab in labs], bool(labs[0].codes == labs[1].codes)
    ([2, 1], True)
    """
    check_choice("scheme", scheme, SCHEMES)
    check_shared(shared_seed, key)
    check_bin_width(bin_width, ())
    rounded, number, settled = None, 0, False
    if not np.iterable(stages):
        raise TypeError(f"stages must be pairs of an estimate and a radius, got {stages!r}")
    for number, stage in enumerate(stages, 1):
        if not isinstance(stage, (tuple, list)) or len(stage) != 2:
            raise ValueError(f"stages must be pairs of an estimate and a radius, got {stage!r}")
        estimate, radius = stage
        estimate, radius = as_float64("estimate", estimate), as_float64("radius", radius)
        if estimate.ndim != 1 or radius.shape not in ((), estimate.shape):
            raise ValueError(
                f"a stage must be a vector and a radius of no or the same shape, got shapes {estimate.shape} and "
                f"{radius.shape}"
            )
        if not (radius >= 0).all():
            raise ValueError(f"radius must be >= 0, got {radius!r} at stage {number}")
        if rounded is not None and estimate.shape != rounded.values.shape:
            raise ValueError(
                f"all estimates must have one length, got {len(estimate)} at stage {number} after {len(rounded.values)}"
            )
        rounded = SCHEMES[scheme](estimate, bin_width, shared_seed=shared_seed, key=key)
        settled = _in_one_cell(estimate, radius, rounded, scheme)
        if settled:
            break
    if rounded is None:
        raise ValueError("stages must hold at least one estimate and radius")
    return AdaptiveRounded(rounded.values, rounded.codes, rounded.offsets, rounded.bin_width, number, settled)


def _in_one_cell(estimate, radius, rounded, scheme):
    """Whether the region around the estimate touches no boundary; on the lattice, the ball around a box."""
    if scheme == "grid":
        return bool((np.abs(estimate - rounded.values) + radius < rounded.bin_width / 2).all())
    return bool(np.linalg.norm(radius) < boundary_distance(estimate, rounded))
