"""Recorded games, as a few kilobytes of seeds and actions, and states of them; for Atari and MinAtar alike."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rrl._files import write_durably
from rrl.packing import unpack_array

if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "Holdout",
    "check_scores",
    "episodes_of",
    "evenly_spaced",
    "frames_digest",
    "play_again",
    "read_recording",
    "write_recording",
]

#: Steps and episodes that are played again: a few kilobytes may stand for more frames than memory holds.
MOST_STEPS, MOST_EPISODES = 500_000, 256


@dataclass(frozen=True)
class Holdout:
    """States on which trained policies are compared.

    Attributes
    ----------
    observations : ndarray of uint8, shape (N, 4, 84, 84)
    actions : ndarray of int, shape (N,)
        What the expert did.
    source : str
        Dataset identifier, or file of the recording.
    digest : str
        SHA-256 of the observations.
    details : dict
        Episodes, scores, who played.
    """

    observations: np.ndarray
    actions: np.ndarray
    source: str
    digest: str
    details: dict = field(default_factory=dict)


def frames_digest(observations: Any) -> Any:
    """SHA-256 of observations."""
    return hashlib.sha256(np.ascontiguousarray(observations).tobytes()).hexdigest()


def play_again(env: Any, episodes: Any) -> Any:
    """Play each (seed, actions) again, in a pool of as many games.

    Returns
    -------
    list of (observations, rewards)
        For each episode of T actions, arrays of shapes (T + 1, ...) and (T,): the last observation follows the last
        action.
    """
    observation = env.reset(np.array([seed for seed, _ in episodes]))
    lengths = [len(actions) for _, actions in episodes]
    played = [(np.empty((n + 1, *env.observation_shape), np.uint8), np.empty(n)) for n in lengths]
    for t in range(max(lengths) + 1):
        for i, n in enumerate(lengths):
            if t <= n:
                played[i][0][t] = observation[i]
        if t < max(lengths):
            out = env.step(np.array([int(actions[t]) if t < n else 0 for (_, actions), n in zip(episodes, lengths)]))
            observation = out.observation
            for i, n in enumerate(lengths):
                if t < n:
                    played[i][1][t] = out.reward[i]
    return played


def write_recording(path: Any, recording: Any) -> None:
    """Write a recording beside its place, then give it its name."""
    write_durably(path, json.dumps(recording, indent=1).encode())


def read_recording(path: Any, **format) -> Any:
    """A recording's JSON, checked by `episodes_of` with `format`; a damaged file is refused by its name."""
    try:
        recording = json.loads(Path(path).read_text(encoding="utf-8"))
        episodes_of(recording, **format)
    # Deep nesting is no ValueError.
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is truncated or no recording of games: {error}") from error
    return recording


def episodes_of(recording: Any, *, keys: Any, episode_keys: Any, games: Any) -> Any:
    """Seed and actions of each episode of a recording; a ValueError says what is missing or damaged.

    `keys` are those of the recording and `episode_keys` of each episode, beside seed and actions; its game is one
    of `games`.
    """
    if not isinstance(recording, dict) or not isinstance(recording.get("episodes"), list):
        raise ValueError("it holds no episodes")
    if missing := [key for key in keys if key not in recording]:
        raise ValueError(f"it lacks {missing}")
    if not all(isinstance(recording[key], dict) for key in ("details", "expert") if key in keys):
        raise ValueError("what it tells of the expert is no table")
    if not isinstance(recording["game"], str) or recording["game"] not in games:
        raise ValueError(f"its game must be one of {sorted(games)}, is {recording['game']!r}")
    found = []
    for number, episode in enumerate(recording["episodes"]):
        wanted = ("seed", "actions", *episode_keys)
        if not isinstance(episode, dict) or any(key not in episode for key in wanted):
            raise ValueError(f"its episode {number} lacks one of {list(wanted)}")
        seed, actions = episode["seed"], unpack_array(episode["actions"])
        if type(seed) is not int or not 0 <= seed < 2**31:
            raise ValueError(f"its episode {number} has the seed {seed!r}")
        if actions.ndim != 1 or not actions.size or actions.dtype.kind not in "iu" or not 0 <= actions.min():
            raise ValueError(f"its episode {number} has actions {actions.dtype} of shape {actions.shape}")
        score, cut = episode.get("score", 0), episode.get("truncated", False)
        if isinstance(score, bool) or not isinstance(score, (int, float)) or not isinstance(cut, bool):
            raise ValueError(f"its episode {number} has the score {score!r} and truncated {cut!r}")
        found.append((seed, actions))
    steps = sum(len(actions) for _, actions in found)
    if not 0 < len(found) <= MOST_EPISODES or steps > MOST_STEPS:
        raise ValueError(
            f"it holds {len(found) or 'no'} episodes and {steps} steps; there may be {MOST_EPISODES} and {MOST_STEPS}"
        )
    return found


def check_scores(recording: Any, rewards: Any) -> None:
    """Refuse recorded scores that are not the sums of the rewards of each episode, played again."""
    for number, (episode, each) in enumerate(zip(recording["episodes"], rewards, strict=True)):
        if each.sum() != episode["score"]:
            raise ValueError(
                f"episode {number} of {recording['game']} scores {each.sum():g} when it is played again; the "
                f"recording says {episode['score']!r}"
            )


def evenly_spaced(episodes: Any, source: Any, n_states: Any, details: Any) -> Any:
    """A `Holdout` of so many states of episodes (observations, actions), evenly spaced over all steps."""
    total = sum(len(actions) for _, actions in episodes)
    chosen = np.unique(np.linspace(0, total - 1, min(n_states, total)).round().astype(int))
    starts = np.cumsum([0, *(len(actions) for _, actions in episodes)])
    parts = [chosen[(chosen >= a) & (chosen < b)] - a for a, b in pairwise(starts)]
    observations = np.concatenate([seen[part] for (seen, _), part in zip(episodes, parts)])
    actions = np.concatenate([np.asarray(acts)[part] for (_, acts), part in zip(episodes, parts)]).astype(int)
    details = {**details, "episodes": len(episodes), "steps": int(total)}
    return Holdout(observations, actions, source, frames_digest(observations), details)
