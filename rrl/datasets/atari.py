"""Hold-out states of Atari games: Minari's expert sets, or our own episodes played again.

Our own episodes are kept as a few kilobytes: the digest of the ROM, seeds and actions. Playing them
again gives the same frames bit for bit, which a digest of the frames checks.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rrl._checks import check_integer, check_integers
from rrl._extras import missing
from rrl.datasets.recordings import (
    Holdout,
    check_scores,
    episodes_of,
    evenly_spaced,
    frames_digest,
    play_again,
    read_recording,
)
from rrl.packing import pack_array
from rrl.pqn.atari import GAMES, PREPROCESSING, AtariPool, play

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Holdout", "holdout", "preprocess_raw", "record_episodes", "replay", "write_minari"]

MINARI_IDS = {"breakout": "atari/breakout/expert-v0", "mspacman": "atari/mspacman/expert-v0"}
DATA = Path(__file__).parent / "data"
# What a recording of Atari games must hold.
RECORDED = {
    "keys": ("game", "rom_sha256", "preprocessing", "details"),
    "episode_keys": ("score", "truncated", "frames_sha256"),
    "games": GAMES,
}


def rom_digest(game: Any) -> Any:
    """SHA-256 of the ROM that ale-py ships for a game."""
    try:
        from ale_py import roms
    except ImportError as error:
        raise missing("experiments", "Atari needs ale-py") from error
    return hashlib.sha256(Path(roms.get_rom_path(GAMES[game])).read_bytes()).hexdigest()  # pyright: ignore[reportArgumentType]


def record_episodes(
    game: str, policy: Callable[..., Any], seeds: Any, *, details: dict | None = None, **limits
) -> dict:
    """Play whole games and return a recording that `replay` repeats.

    Parameters
    ----------
    game : str
    policy : callable
        ``policy(observations, t)``, see `rrl.pqn.atari.play`.
    seeds : sequence of int
        One a game.
    details : dict, optional
        Who plays; kept with the recording.
    **limits
        `max_steps` and `patience` of `play`.

    Returns
    -------
    dict
        Plain JSON: game, ROM digest, preprocessing, episodes.

    Raises
    ------
    ValueError
        If a seed is no integer in 0..2^31-1, the details are no plain JSON, or a limit is below 1.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.datasets.atari import record_episodes, replay
    >>> recording = record_episodes("breakout", lambda observations, t: np.array([1]), [0], max_steps=5)
    >>> [(seen.shape, actions.tolist()) for seen, actions in replay(recording)]
    [((5, 4, 84, 84), [1, 1, 1, 1, 1])]
    """
    seeds = check_integers("seeds", seeds, len(seeds), 2**31).tolist()
    try:
        json.dumps(details := details or {})
    except (TypeError, ValueError) as error:
        raise ValueError(f"details must be plain JSON, got {details!r}: {error}") from None
    if not isinstance(details, dict):
        raise ValueError(f"details must be a dict, got {details!r}")
    games = play(policy, AtariPool(game, len(seeds)), seeds, **limits)
    played = play_again(AtariPool(game, len(seeds)), list(zip(seeds, games.actions)))
    episodes = [
        {
            "seed": seed,
            "score": float(score),
            "truncated": bool(cut),
            "actions": pack_array(actions),
            "frames_sha256": frames_digest(seen[:-1]),
        }
        for seed, score, cut, actions, (seen, _) in zip(seeds, games.scores, games.truncated, games.actions, played)
    ]
    return {
        "game": game,
        "rom_sha256": rom_digest(game),
        "preprocessing": PREPROCESSING,
        "details": details,
        "episodes": episodes,
    }


def replay(recording: dict) -> Any:
    """Play a recording again and check every frame.

    Parameters
    ----------
    recording : dict
        From `record_episodes`.

    Returns
    -------
    list of (observations, actions)
        For each episode arrays of shapes (T, 4, 84, 84) and (T,).

    Raises
    ------
    ValueError
        If something is missing or damaged, or ROM, preprocessing or frames differ from the recorded ones.
    """
    return [(seen[:-1], actions) for seen, actions, _ in _replay(recording)]


def _replay(recording):
    """`replay` with the observation after the last action, and the rewards: (observations, actions, rewards)."""
    episodes = episodes_of(recording, **RECORDED)
    game = recording["game"]
    n_actions = AtariPool(game, 1).n_actions
    if (highest := max(int(actions.max()) for _, actions in episodes)) >= n_actions:
        raise ValueError(f"the recording of {game} holds the action {highest}; there are {n_actions}")
    if rom_digest(game) != recording["rom_sha256"]:
        raise ValueError(f"the ROM of {game} is not the one of the recording ({recording['rom_sha256']})")
    if recording["preprocessing"] != PREPROCESSING:
        raise ValueError(f"the recording of {game} was made with other preprocessing: {recording['preprocessing']}")
    played = play_again(AtariPool(game, len(episodes)), episodes)
    for (seed, _), (seen, _), episode in zip(episodes, played, recording["episodes"]):
        if frames_digest(seen[:-1]) != episode["frames_sha256"]:
            raise ValueError(f"replaying {game} with seed {seed} gave other frames than were recorded")
    check_scores(recording, [rewards for _, rewards in played])
    return [(seen, actions, rewards) for (seen, rewards), (_, actions) in zip(played, episodes)]


def _own_recording(game):
    """The recording of a game that comes with the package."""
    name = f"atari_{game}.json"
    if not (DATA / name).exists():
        raise FileNotFoundError(f"no hold-out of {game}: neither {MINARI_IDS[game]} on disk nor {name} recorded")
    return read_recording(DATA / name, **RECORDED)


def write_minari(recording: Any, identifier: str | None = None) -> Any:
    """Play a recording again into a local Minari set, of frames as the networks see them.

    Parameters
    ----------
    recording : dict or {"breakout", "mspacman"}
        From `record_episodes`, or a game's name for the recording that comes with the package.
    identifier : str, optional
        Of the set; ``rrl/GAME/recorded-v0`` if not given.

    Returns
    -------
    minari.MinariDataset
        Unclipped rewards; a game that a limit cut is truncated. It stands where `minari.load_dataset` looks.

    Raises
    ------
    ImportError
        If minari is missing.
    FileExistsError
        If there is such a set.
    ValueError
        If something is missing or damaged, or the games replay to other frames: nothing is written then.
    """
    try:
        import minari
        from gymnasium import spaces
    except ImportError as error:
        raise missing("experiments", "Minari sets need minari") from error
    if isinstance(recording, str):
        if recording not in MINARI_IDS:
            raise ValueError(f"recording must be a dict or one of {sorted(MINARI_IDS)}, got {recording!r}")
        recording = _own_recording(recording)
    episodes_of(recording, **RECORDED)
    identifier = identifier or f"rrl/{recording['game']}/recorded-v0"
    folder = minari.storage.local.get_dataset_path(identifier)  # pyright: ignore[reportAttributeAccessIssue]
    if folder.exists():
        raise FileExistsError(f"there is a Minari set {identifier} in {folder}")
    buffers = []
    for (seen, actions, rewards), episode in zip(_replay(recording), recording["episodes"]):
        last = np.arange(len(actions)) == len(actions) - 1
        steps = {"observations": list(seen), "actions": list(actions.astype(np.int64)), "rewards": rewards.tolist()}
        steps["terminations"] = (last & (not episode["truncated"])).tolist()
        steps["truncations"] = (last & episode["truncated"]).tolist()
        buffers.append(minari.data_collector.EpisodeBuffer(id=len(buffers), seed=episode["seed"], **steps))  # pyright: ignore[reportAttributeAccessIssue]
    env = AtariPool(recording["game"], 1)
    # Written under a name of its own, then given its place.
    part = f"{identifier.rpartition('/')[0]}/part{os.getpid()}-v0".lstrip("/")
    written = minari.storage.local.get_dataset_path(part)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has no author's address
            minari.create_dataset_from_buffers(
                part,
                buffers,
                observation_space=spaces.Box(0, 255, env.observation_shape, np.uint8),
                action_space=spaces.Discrete(env.n_actions),
                description=f"{recording['game']} as rrl preprocesses it: {recording['details']}",
                data_format="hdf5",
                jpeg_encoding=False,
            )
        about = written / "data" / "metadata.json"
        about.write_text(json.dumps({**json.loads(about.read_text("utf-8")), "dataset_id": identifier}), "utf-8")
        os.replace(written, folder)
    finally:
        shutil.rmtree(written, ignore_errors=True)
    return minari.load_dataset(identifier, download=False)


def preprocess_raw(frames: np.ndarray) -> np.ndarray:
    """Raw colour frames of one episode as a network sees them.

    Grey, 84 x 84 by area averaging, stacks of 4 with zeros before the start. A Minari set holds one
    frame a step, so the maximum over two frames that training sees cannot be taken.

    Parameters
    ----------
    frames : ndarray of uint8, shape (T, 210, 160, 3)

    Returns
    -------
    ndarray of uint8, shape (T, 4, 84, 84)

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.datasets.atari import preprocess_raw
    >>> preprocess_raw(np.full((2, 210, 160, 3), 100, np.uint8))[:, :, 0, 0].tolist()
    [[0, 0, 0, 100], [0, 0, 100, 100]]
    """
    frames = np.asarray(frames)
    if frames.ndim != 4 or frames.shape[3] != 3 or frames.dtype != np.uint8:
        raise ValueError(f"frames must be uint8 of shape (T, height, width, 3), got {frames.dtype} {frames.shape}")
    try:
        import cv2
    except ImportError as error:
        raise missing("experiments", "raw frames need OpenCV") from error
    size = (PREPROCESSING["img_width"], PREPROCESSING["img_height"])
    depth = PREPROCESSING["stack_num"]
    small = [cv2.resize(cv2.cvtColor(f, cv2.COLOR_RGB2GRAY), size, interpolation=cv2.INTER_AREA) for f in frames]
    padded = np.concatenate([np.zeros((depth - 1, *size[::-1]), np.uint8), np.stack(small)])
    return np.stack([padded[i : i + len(small)] for i in range(depth)], axis=1)


def _from_minari(identifier):
    """Episodes of a local Minari set, preprocessed; FileNotFoundError when it is not on disk."""
    try:
        import minari
    except ImportError as error:
        raise missing("experiments", "Minari sets need minari") from error
    try:
        dataset = minari.load_dataset(identifier, download=False)
        episodes = []
        for episode in dataset.iterate_episodes():
            seen, actions = np.asarray(episode.observations), np.asarray(episode.actions)
            if not actions.size or actions.ndim != 1 or actions.dtype.kind not in "iu" or actions.min() < 0:
                raise ValueError(f"episode {episode.id} has actions {actions.dtype} of shape {actions.shape}")
            # The last observation follows the last action: no action was chosen there.
            if len(seen) != len(actions) + 1:
                raise ValueError(f"episode {episode.id} has {len(seen)} observations for {len(actions)} actions")
            episodes.append((preprocess_raw(seen)[:-1], actions))
    except FileNotFoundError:
        raise
    except Exception as error:
        folder = minari.storage.local.get_dataset_path(identifier)  # pyright: ignore[reportAttributeAccessIssue]
        raise ValueError(
            f"the Minari set {identifier} in {folder} is empty, damaged or made for another minari than "
            f"{minari.__version__} ({type(error).__name__}: {error}); delete the folder and download it again"
        ) from error
    if not episodes:
        raise ValueError(f"the Minari set {identifier} holds no episode")
    return episodes


def holdout(game: str, *, source: str = "auto", n_states: int = 1_500, recording: dict | None = None) -> Holdout:
    """States of expert games, evenly spaced over all of their steps.

    Parameters
    ----------
    game : {"breakout", "mspacman"}
    source : {"auto", "minari", "recorded"}
        Minari's expert set (never downloaded here), our own episodes, or the first if it is on disk.
    n_states : int
        At most so many states.
    recording : dict, optional
        Use this recording, in place of the one that comes with the package.

    Returns
    -------
    Holdout

    Raises
    ------
    FileNotFoundError
        If the source is not there.
    ValueError
        If it is damaged, of another game, or replays to other frames or scores.
    """
    if game not in sorted(MINARI_IDS):
        raise ValueError(f"game must be one of {sorted(MINARI_IDS)}, got {game!r}")
    check_integer(1, n_states=n_states)
    if source not in ("auto", "minari", "recorded"):
        raise ValueError(f"source must be 'auto', 'minari' or 'recorded', got {source!r}")
    if recording is None and source != "recorded":
        try:
            return evenly_spaced(_from_minari(MINARI_IDS[game]), f"minari:{MINARI_IDS[game]}", n_states, {})
        except (FileNotFoundError, ImportError):
            if source == "minari":
                raise
    if recording is None:
        recording, name = _own_recording(game), f"atari_{game}.json"
    else:
        episodes_of(recording, **RECORDED)
        name = "given"
    if source == "minari" or recording["game"] != game:  # pyright: ignore[reportOptionalSubscript]
        raise ValueError(f"recording is one of {recording['game']}, asked for are {game} and source={source!r}")  # pyright: ignore[reportOptionalSubscript]
    details = {**recording["details"], "scores": [episode["score"] for episode in recording["episodes"]]}  # pyright: ignore[reportOptionalSubscript]
    return evenly_spaced(replay(recording), f"recorded:{name}", n_states, details)  # pyright: ignore[reportArgumentType]
