"""A Q-network in mixed precision, for CPUs with instructions for bfloat16.

Products of convolutions and hidden dense layers take bfloat16 numbers and add them up in float32; what passes between
layers is bfloat16, LayerNorm's sums are float32. The last layer is float32, so that Q-values of a network that does
not round them have no ties. Pixels 0 to 255 are exact in bfloat16: their scale goes into the first weights.
Channels come last in memory, the order in which these products are fastest; so that there are enough of them in the
first convolution, the pixels of a square as wide as its stride are its channels.
"""

from __future__ import annotations

import functools
import platform
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from typing import Any

__all__ = ["has_bfloat16", "kept_as", "laid_out", "pixels", "q_values", "usable"]


@functools.cache
def has_bfloat16() -> Any:
    """Whether this processor multiplies bfloat16 numbers; False where the system (not Linux) does not tell."""
    import torch

    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    # The word is "flags" on x86, "Features" on ARM.
    flags = next((set(line.split()) for line in lines if line.lower().startswith(("flags", "features"))), set())
    wanted = {"bf16"} if platform.machine() in ("aarch64", "arm64") else {"avx512_bf16", "amx_bf16"}
    return bool(flags & wanted) and torch.backends.mkldnn.is_available()


def usable(precision: Any, device: Any) -> Any:
    """The precision that a run can have on a device of torch; a warning where it is not the one asked for."""
    if precision == "float32" or (device.type == "cpu" and has_bfloat16()):
        return precision
    place = "this processor has no bfloat16 products" if device.type == "cpu" else f"bfloat16 is not for {device.type}"
    warnings.warn(f"{place}: float32 is used in place of {precision}", stacklevel=3)
    return "float32"


def kept_as(dtype: Any, precision: Any) -> Any:
    """The type in which the learner keeps observations of NumPy's `dtype`, such that it sees what the actor saw."""
    import torch

    if dtype == np.uint8 or dtype == np.bool_:
        return torch.uint8
    if dtype not in (np.float16, np.float32, np.float64):
        raise TypeError(f"observations must be uint8 or floats, got {dtype}: let the pool give float32")
    if precision != "float32":
        raise ValueError(f"precision {precision!r} is for observations of uint8, got {dtype}: use 'float32'")
    return torch.float32


def _side(architecture):
    """Width of the squares of pixels that the first convolution takes as channels, 1 where it cannot."""
    _, kernel, stride = architecture.convs[0] if architecture.convs else (0, 1, 1)
    return 1 if kernel % stride else stride


def pixels(observations: Any, architecture: Any) -> Any:
    """Observations of one run, uint8, as `q_values` takes them.

    Parameters
    ----------
    observations : torch tensor of uint8, shape (B, channels, height, width)
    architecture : Architecture

    Returns
    -------
    torch tensor of bfloat16, shape (B, height // s, width // s, channels * s * s)
        With s the stride of the first convolution, where its kernel is a multiple of it; otherwise s is 1.
    """
    import torch

    side = _side(architecture)
    height, width = (n // side for n in observations.shape[2:])
    used = observations[:, :, : height * side, : width * side]
    squares = used.unflatten(3, (width, side)).unflatten(2, (height, side))
    return squares.permute(0, 2, 4, 1, 3, 5).flatten(3).contiguous().to(torch.bfloat16)


def laid_out(p: Any, architecture: Any) -> Any:
    """One run's float32 parameters as the products take them.

    Parameters
    ----------
    p : dict of str to torch tensor
        As `StackedQNetwork.parameters` names them, without the runs' dimension.
    architecture : Architecture

    Returns
    -------
    dict of str to torch tensor
    """
    import torch

    laid = dict(p)
    if architecture.scale != 1:
        first = "conv0" if architecture.convs else "dense0"
        laid[f"{first}.weight"] = p[f"{first}.weight"] / architecture.scale
    if architecture.convs:
        laid["conv0.weight"] = torch.nn.functional.pixel_unshuffle(laid["conv0.weight"], _side(architecture))
    for i in range(len(architecture.convs)):
        weight = laid[f"conv{i}.weight"].to(torch.bfloat16, memory_format=torch.channels_last)
        laid |= {f"conv{i}.weight": weight, f"conv{i}.bias": p[f"conv{i}.bias"].to(torch.bfloat16)}
        for name in ("scale", "shift"):
            laid[f"conv{i}.{name}"] = p[f"conv{i}.{name}"].permute(1, 2, 0).contiguous()
    for i in range(len(architecture.dense)):
        for name in ("weight", "bias"):
            laid[f"dense{i}.{name}"] = laid[f"dense{i}.{name}"].to(torch.bfloat16)
    return laid


def q_values(laid: Any, x: Any, architecture: Any) -> Any:
    """Q-values of one run.

    Parameters
    ----------
    laid : dict of str to torch tensor
        From `laid_out`.
    x : torch tensor of bfloat16
        From `pixels`.
    architecture : Architecture

    Returns
    -------
    torch tensor of float32, shape (B, A)
    """
    import torch

    functional = torch.nn.functional

    def norm(y, name):
        return functional.layer_norm(y, y.shape[1:], laid[f"{name}.scale"], laid[f"{name}.shift"]).relu_()

    for i, (_, kernel, stride) in enumerate(architecture.convs):
        weight = laid[f"conv{i}.weight"]
        stride = stride * weight.shape[2] // kernel
        y = functional.conv2d(x.permute(0, 3, 1, 2), weight, laid[f"conv{i}.bias"], stride)
        x = norm(y.permute(0, 2, 3, 1).contiguous(), f"conv{i}")
    # The dense weights are in the order of (channels, height, width).
    x = x.permute(0, 3, 1, 2).flatten(1)
    for i in range(len(architecture.dense)):
        x = norm(functional.linear(x, laid[f"dense{i}.weight"], laid[f"dense{i}.bias"]), f"dense{i}")
    return functional.linear(x.float(), laid["head.weight"], laid["head.bias"])
