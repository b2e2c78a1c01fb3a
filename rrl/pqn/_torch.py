"""Torch, imported where it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rrl._extras import missing

if TYPE_CHECKING:
    from typing import Any


def require_torch() -> Any:
    """Import torch, or say which extra brings it."""
    try:
        import torch
    except ImportError as error:
        raise missing("experiments", "neural experiments need torch") from error
    return torch
