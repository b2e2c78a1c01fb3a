"""Recordings of games that are damaged, too large or untrue; and packed arrays that unpack to all memory."""

import base64
import json
import tracemalloc
import zlib

import numpy as np
import pytest

from rrl import packing
from rrl.datasets import recordings
from rrl.datasets.recordings import check_scores, episodes_of, read_recording, write_recording
from rrl.packing import pack_array, unpack_array

FORMAT = {"keys": ("game", "details"), "episode_keys": ("score", "truncated"), "games": ("pong",)}


def recorded(*episodes):
    """A recording of games of so many steps, or of what is given for an episode."""
    plain = {"seed": 1, "score": 2.0, "truncated": False}
    episodes = [e if isinstance(e, dict) else {"actions": pack_array(np.zeros(e, np.uint8))} for e in episodes]
    return {"game": "pong", "details": {}, "episodes": [plain | episode for episode in episodes]}


def packed(dtype="|u1", shape=(4,), data=bytes(4)):
    return {"dtype": dtype, "shape": list(shape), "zlib": base64.b64encode(zlib.compress(data)).decode()}


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [5]},
        {"shape": [3]},
        {"shape": [-1]},
        {"shape": [2, -2]},
        {"shape": [-2, -2]},
        {"shape": 4},
        {"shape": [2.0, 2.0]},
        {"shape": [2**40]},
        {"dtype": "|O"},
        {"dtype": "|S4"},
        {"dtype": "V4"},
        {"dtype": "|u1,|u1"},
        {"dtype": None},
        {"zlib": 3},
        {"zlib": "!"},
        {"zlib": packed()["zlib"][:-6]},
    ],
)
def test_a_damaged_array_is_refused(change):
    assert unpack_array(packed()).tolist() == [0] * 4
    with pytest.raises(ValueError, match="a packed array is damaged"):
        unpack_array(packed() | change)


@pytest.mark.parametrize("shape", [[4], [2**27], [2**29]])
def test_a_bomb_takes_no_memory(shape):
    """A quarter of a megabyte that unpacks to a quarter of a gigabyte, whatever its shape says."""
    bomb = packed(shape=shape, data=bytes(2**28))
    tracemalloc.start()
    with pytest.raises(ValueError, match="damaged"):
        unpack_array(bomb | {"shape": shape})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < (2**21 if shape != [2**27] else 2**29)


def test_arrays_up_to_the_limit_are_unpacked(monkeypatch):
    array = np.arange(6, dtype=">i4").reshape(2, 3)
    monkeypatch.setattr(packing, "LARGEST", array.nbytes)
    assert np.array_equal(unpack_array(pack_array(array)), array)
    assert unpack_array(pack_array(np.zeros((0, 3)))).shape == (0, 3)
    monkeypatch.setattr(packing, "LARGEST", array.nbytes - 1)
    with pytest.raises(ValueError, match="damaged"):
        unpack_array(pack_array(array))


def test_more_steps_or_games_than_memory_holds_are_refused(monkeypatch, tmp_path):
    assert [len(actions) for _, actions in episodes_of(recorded(3, 4), **FORMAT)] == [3, 4]
    with pytest.raises(ValueError, match="it holds 2 episodes and 500001 steps; there may be 256 and 500000"):
        episodes_of(recorded(1, 500_000), **FORMAT)
    with pytest.raises(ValueError, match="it holds 257 episodes and 257 steps"):
        episodes_of(recorded(*[1] * 257), **FORMAT)
    with pytest.raises(ValueError, match="it holds no episodes and 0 steps"):
        episodes_of(recorded(), **FORMAT)
    monkeypatch.setattr(recordings, "MOST_STEPS", 6)
    write_recording(tmp_path / "long.recording", recorded(3, 4))
    with pytest.raises(ValueError, match=r"long\.recording is truncated or no recording of games: it holds 2"):
        read_recording(tmp_path / "long.recording", **FORMAT)


@pytest.mark.parametrize(
    "change",
    [{"score": "2"}, {"score": None}, {"score": True}, {"score": [2]}, {"truncated": "False"}, {"truncated": 0}],
)
def test_scores_and_cuts_of_another_type_are_refused(change):
    ((_, value),) = change.items()
    episode = {"actions": pack_array(np.zeros(2, np.uint8))} | change
    with pytest.raises(ValueError, match=r"its episode 1 has the score .* and truncated ") as caught:
        episodes_of(json.loads(json.dumps(recorded(2, episode))), **FORMAT)
    assert repr(value) in str(caught.value)


def test_scores_that_the_games_do_not_have_are_refused():
    recording = recorded(2, 3)
    check_scores(recording, [np.array([0.0, 2.0]), np.array([3.0, 0.0, -1.0])])
    for wrong in (1.0, np.nan):
        recording["episodes"][1]["score"] = wrong
        with pytest.raises(ValueError, match=f"episode 1 of pong scores 2 when .* recording says {wrong}"):
            check_scores(recording, [np.array([0.0, 2.0]), np.array([3.0, 0.0, -1.0])])
