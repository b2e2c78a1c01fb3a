"""Fuzzing: any bytes for the loaders, any float64 for the rounding. Either it works, or one clear error says why."""

import copy
import io
import json
import warnings

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rrl import hypergrid_round
from rrl.datasets import cartpole
from rrl.experiments.store import RunStore, unit_key
from rrl.packing import pack_array, unpack_array

N = 6
ROWS = {
    "observations": np.linspace(-0.1, 0.1, 4 * N, dtype=np.float32).reshape(N, 4),
    "actions": np.array([0, 1, 0, 1, 1, 0]),
    "rewards": np.ones(N, np.float32),
    "terminals": np.array([0, 0, 1, 0, 0, 1]),
}


def load(path):
    """The rows of a file, or None where it is refused by its name; any other error or warning fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            data = cartpole(path=path)
        except (ValueError, OSError) as error:
            assert path.name in str(error) and "\n" not in str(error)[:80]
            return None
    assert np.isfinite(data.observations).all() and np.isfinite(data.rewards).all()
    assert set(np.unique(data.actions)) <= {0, 1} and len(data) == len(data.rewards) == len(data.episodes)
    return data


def npz_bytes(compressed):
    stream = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(stream, **ROWS)
    return stream.getvalue()


def damaged(whole):
    """Bytes that were cut, changed in places or continued by others."""
    flips = st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(1, 255)), min_size=1, max_size=4)

    def flip(changes):
        content = bytearray(whole)
        for place, mask in changes:
            content[place] ^= mask
        return bytes(content)

    return flips.map(flip) | st.integers(0, len(whole) - 1).map(lambda end: whole[:end])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


heads = st.sampled_from([b"", b"PK", b"PK\x03\x04", b"\x93NUMPY", b"\x89HDF\r\n\x1a\n", b"\x89HDF\r\n\x1a\n\x00" * 9])


@given(st.builds(bytes.__add__, heads, st.binary(max_size=300)))
def test_random_bytes_are_no_recording(folder, content):
    path = folder / "random.h5"
    path.write_bytes(content)
    assert load(path) is None


@settings(max_examples=100)
@given(st.data(), st.booleans())
def test_a_damaged_npz_file_is_refused_or_still_rows(folder, data, compressed):
    path = folder / "damaged.npz"
    path.write_bytes(data.draw(damaged(npz_bytes(compressed))))
    load(path)


def test_every_truncation_of_a_file_is_refused(folder):
    h5py = pytest.importorskip("h5py")
    path, whole = folder / "cut", npz_bytes(True)
    with h5py.File(folder / "whole.h5", "w") as file:
        for name, array in ROWS.items():
            file[name] = array
    for content in (whole, (folder / "whole.h5").read_bytes()):
        path.write_bytes(content)
        assert len(load(path)) == N
        for end in np.linspace(0, len(content) - 1, 100).astype(int):
            path.write_bytes(content[:end])
            assert load(path) is None


kinds = st.sampled_from(["?", "i1", "u1", "<i8", ">i4", "u8", "f2", "f4", "f8", "c8", "S3", "U2", "M8[s]", "m8[s]"])
shapes = st.sampled_from([(), (0,), (N,), (N, 1), (N, 4), (1, N), (N, 4, 1), (N + 1,), (1,)])
anything = st.tuples(kinds, shapes).flatmap(lambda pair: hnp.arrays(np.dtype(pair[0]), pair[1]))
columns = st.sampled_from([*ROWS, "timeouts", "episode_terminals"])


@settings(max_examples=60)
@given(st.dictionaries(columns, anything, max_size=3), st.sets(st.sampled_from(sorted(ROWS)), max_size=1))
@example({"rewards": np.full(N, 1e300)}, set())
@example({"observations": np.full((N, 4), -1e39)}, set())
def test_arrays_of_any_type_and_shape_are_checked(folder, changes, without):
    arrays = {name: array for name, array in (ROWS | changes).items() if name not in without}
    np.savez(folder / "types.npz", **arrays)
    load(folder / "types.npz")


NUMBERED = {"columns": np.array([b"actions"]), "num_episodes": np.array(2)}
for i, rows in enumerate((slice(0, 3), slice(3, 6))):
    NUMBERED |= {f"{name}_{i}": ROWS[name][rows] for name in ("observations", "actions", "rewards")}
    NUMBERED[f"terminated_{i}"] = np.array(True)
plain = anything.filter(lambda array: array.dtype.kind not in "UMm")


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from(sorted(NUMBERED)), plain, min_size=1, max_size=2))
@example({"num_episodes": np.array(10**12)})
@example({"num_episodes": np.array(-1)})
@example({"terminated_1": np.array([True, False])})
@example({"terminated_1": np.array([b"yes"])})
def test_numbered_episodes_of_any_type_and_shape_are_checked(folder, changes):
    h5py = pytest.importorskip("h5py")
    path = folder / "numbered.h5"
    with h5py.File(path, "w") as file:
        for name, array in (NUMBERED | changes).items():
            file[name] = array
    load(path)


def test_hdf5_of_other_kinds_is_refused(folder):
    h5py = pytest.importorskip("h5py")
    odd = {
        "empty": h5py.Empty("f4"),
        "text": "a word",
        "table": np.zeros(N, [("a", "f4"), ("b", "i2")]),
        "words": np.array(["a"] * N, h5py.string_dtype()),
    }
    for kind, value in odd.items():
        for layout, name in ((ROWS, "rewards"), (NUMBERED, "rewards_1"), (NUMBERED, "num_episodes")):
            path = folder / f"{kind}.h5"
            with h5py.File(path, "w") as file:
                for key, array in (layout | {name: value}).items():
                    file[key] = array
            assert load(path) is None
    with h5py.File(folder / "links.h5", "w") as file:
        for name, array in ROWS.items():
            file[name] = array
        del file["rewards"]
        file["rewards"] = h5py.SoftLink("/nowhere")
    assert load(folder / "links.h5") is None


# JSON: records, packed arrays, recordings -----------------------------------------------------------

scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5)
values = st.recursive(scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=5), v, max_size=3))


@given(st.binary(max_size=100) | values.map(lambda v: json.dumps(v).encode()))
def test_anything_in_a_record_s_place_counts_as_missing_and_gives_way_to_a_record(folder, content):
    store, unit = RunStore(folder / "store"), {"experiment": "demo"}
    store.folder.mkdir(exist_ok=True)
    store.path(unit).write_bytes(content)
    assert store.load(unit) is None and store.path(unit).read_bytes() == content
    assert unit_key(unit) + ".json" == store.path(unit).name
    store.write(unit, {"n": 1}, {})
    (aside,) = store.folder.glob("*.corrupt")
    assert store.load(unit)["result"] == {"n": 1} and aside.read_bytes() == content
    aside.unlink()


packed = st.fixed_dictionaries(
    {}, optional={"dtype": values, "shape": values, "zlib": values | st.just("eJwDAAAAAAE=")}
)


@given(packed | values, st.sampled_from(["", "dtype", "shape", "zlib"]), values)
def test_a_packed_array_of_anything_is_refused(anything, name, value):
    for candidate in (anything, {**pack_array(np.arange(3, dtype=np.int8)), name: value}):
        try:
            unpack_array(candidate)
        except ValueError as error:
            assert "a packed array is damaged" in str(error)


@pytest.fixture(scope="module")
def recorded():
    pytest.importorskip("numba")
    pytest.importorskip("torch")
    from rrl.datasets.recordings import play_again
    from rrl.experiments.games import minatar

    actions = np.random.default_rng(0).integers(3, size=(2, 20)).astype(np.int8)
    played = play_again(minatar.make_pool("breakout", 2), list(zip((1, 2), actions)))
    scores = [float(rewards.sum()) for _, rewards in played]
    episodes = [{"seed": s, "score": x, "actions": pack_array(a)} for s, x, a in zip((1, 2), scores, actions)]
    whole = {"game": "breakout", "expert": {}, "episodes": episodes, "sha256": minatar._digest(played)}
    return minatar, whole


places = st.sampled_from(
    [("game",), ("expert",), ("sha256",), ("episodes",), ("episodes", 0)]
    + [("episodes", 1, name) for name in ("seed", "score", "actions")]
    + [("episodes", 1, "actions", name) for name in ("dtype", "shape", "zlib")]
)


@given(places, st.none() | values | st.sampled_from([99, -1, "<i8", [20], [10, 2], pack_array(np.full(20, 99))]))
def test_a_recording_with_anything_in_its_place_is_refused_or_replays(folder, recorded, place, value):
    minatar, whole = recorded
    assert minatar.holdout(whole).observations.shape == (40, 4, 10, 10)
    changed = inside = copy.deepcopy(whole)
    for step in place[:-1]:
        inside = inside[step]
    assume(inside[place[-1]] != value)
    inside[place[-1]] = value
    path = folder / "a.recording"
    path.write_text(json.dumps(changed))
    try:
        minatar.holdout(minatar.read_recording(path, **minatar.RECORDED))
    except ValueError as error:
        # A whole recording that replays to other states is known by its game.
        assert path.name in str(error) or "breakout" in str(error) or "must lie in" in str(error)
    else:
        assert place[0] == "expert" or place[-1] == "dtype"


@given(st.data())
def test_a_recording_that_was_cut_is_refused_by_name(folder, recorded, data):
    minatar, whole = recorded
    text = json.dumps(whole).encode()
    path = folder / "cut.recording"
    path.write_bytes(text[: data.draw(st.integers(0, len(text) - 1))])
    with pytest.raises(ValueError, match=r"cut\.recording is truncated or no recording"):
        minatar.read_recording(path, **minatar.RECORDED)
    path.write_bytes(b"[" * 100_000)
    with pytest.raises(ValueError, match=r"cut\.recording is truncated or no recording"):
        minatar.read_recording(path, **minatar.RECORDED)


# Rounding -----------------------------------------------------------------------------------------

floats = st.floats() | st.sampled_from([5e-324, -5e-324, 2.0**-1022, 1.7976931348623157e308, -0.0, 2.0**53])


@settings(max_examples=300)
@given(st.lists(floats, max_size=4), floats, st.integers(), st.none() | st.tuples(floats, floats))
@example([5e-324], 5e-324, 0, None)
@example([5e-324], 5e-323, 0, None)
@example([0.0], 2.0**-1074, 0, (-0.0, 5e-324))
@example([1e308], 1e308, 0, (-1.7e308, 1.7e308))
@example([0.0], 1.7976931348623157e308, 1, (-1.7976931348623157e308, 1.7976931348623157e308))
def test_any_float_is_rounded_within_half_a_bin_or_refused_by_name(a, width, seed, bounds):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            rounded = hypergrid_round(np.array(a, float), width, shared_seed=seed, bounds=bounds)
        except ValueError as error:
            assert any(name in str(error) for name in ("a holds", "bin_width", "bounds"))
            return
    assert np.isfinite(a).all() and width > 0 and np.isfinite(width)
    assert rounded.codes.dtype == np.int64 and np.isfinite(rounded.values).all()
    # Minus zero has other bytes than zero.
    assert not (np.signbit(rounded.values) & (rounded.values == 0)).any()
    with np.errstate(over="ignore"):
        half = width / 2 + 3 * np.spacing(np.maximum(np.abs(a), width))
    # Halves: the difference itself may overflow.
    assert (np.abs(rounded.values / 2 - np.array(a) / 2) <= half / 2 + 5e-324).all()
    again = hypergrid_round(rounded.values, width, shared_seed=seed, bounds=bounds)
    np.testing.assert_array_equal(again.codes, rounded.codes)
