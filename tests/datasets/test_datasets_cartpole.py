"""CartPole data: every layout, every kind of damage, no network, and fresh play (cases 30, 33, 34, 38)."""

import dataclasses
import hashlib
import http.client
import importlib.util
import io
import json
import shutil
import subprocess
import sys
import textwrap
import threading
import time
import urllib.error
import urllib.request
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrl.datasets import (
    cartpole,
    cartpole_play,
    cartpole_random,
    cartpole_replay,
    cartpole_step,
)
from rrl.datasets._cartpole import data as loader
from rrl.datasets._cartpole import fetch, files, play

h5py = pytest.importorskip("h5py")


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    """No test reaches the network or the checkout's own d3rlpy_data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RRL_OFFLINE", raising=False)

    def refuse(url, timeout):
        raise urllib.error.URLError("name not known")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)


@pytest.fixture(scope="module")
def standin():
    return cartpole(source="standin")


def some(standin, n_episodes=60):
    """Episodes of the stand-in, failures and time limits among them, counted from 0."""
    rows = standin.take((standin.episodes >= 200) & (standin.episodes < 200 + n_episodes))
    return dataclasses.replace(rows, episodes=rows.episodes - 200)


def flat_rows(standin, n_episodes=60):
    """The same episodes in the flat layout."""
    rows = some(standin, n_episodes)
    assert n_episodes < 60 or rows.timeouts.sum() == 6
    names = ("observations", "actions", "rewards", "terminals", "timeouts")
    return {name: np.array(getattr(rows, name)) for name in names}


def write_h5(path, arrays):
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array)
    return path


def numbered(rows):
    """d3rlpy 2's layout of flat rows."""
    ends = np.flatnonzero(rows["terminals"] | rows["timeouts"]) + 1
    arrays = {"columns": ["observations", "actions", "rewards", "terminated"], "num_episodes": len(ends)}
    for i, (start, end) in enumerate(zip(np.r_[0, ends[:-1]], ends)):
        arrays[f"observations_{i}"] = rows["observations"][start:end]
        arrays[f"actions_{i}"] = rows["actions"][start:end, None]
        arrays[f"rewards_{i}"] = rows["rewards"][start:end, None]
        arrays[f"terminated_{i}"] = bool(rows["terminals"][end - 1])
    return arrays | {"version": "2.1"}


def repeat_failures(rows, shift=False):
    """Each failure followed by a copy of its row, as d3rlpy's file is said to have (or by the state it led to)."""
    times = 1 + rows["terminals"].astype(int)
    doubled = {name: np.repeat(array, times, axis=0) for name, array in rows.items()}
    if shift:
        second = np.flatnonzero(doubled["terminals"])[1::2]
        states = doubled["observations"][second].astype(float)
        doubled["observations"][second] = cartpole_step(states, doubled["actions"][second])[0]
    return doubled


def length_by_twentieth(data):
    """Mean length of the episodes that begin in each twentieth of the rows."""
    starts, lengths = np.unique(data.episodes, return_index=True, return_counts=True)[1:]
    twentieth = starts * 20 // len(data)
    return [lengths[twentieth == k].mean() for k in range(20)]


def assert_same_rows(data, other):
    for name in ("observations", "actions", "rewards", "next_observations", "terminals", "timeouts", "episodes"):
        np.testing.assert_array_equal(getattr(data, name), getattr(other, name), err_msg=name)


class TestStandin:
    def test_is_what_its_record_says(self, standin):
        record = standin.provenance
        assert standin.source == "standin"
        assert len(standin) == record["rows"]
        assert standin.n_episodes == record["episodes"]
        assert standin.terminals.sum() == record["failures"]
        assert standin.timeouts.sum() == record["time_limits"]
        assert record["failures"] + record["time_limits"] == record["episodes"]
        assert standin.sha256 == record["sha256"]["cartpole_standin.npz"]
        assert record["loader"]["rows_read"] == len(standin)
        assert standin.description.startswith("Recorded stand-in")
        assert f"{record['rows']:,} transitions" in repr(standin)

    def test_is_small_and_has_its_provenance(self, standin):
        assert (loader.DATA / "cartpole_standin.npz").stat().st_size < 2e6
        assert (loader.DATA / "cartpole_behaviour.npz").stat().st_size < 1e6
        record = standin.provenance
        # The record has the command of its commit; the recipe lies in the package since.
        assert record["command"] and importlib.util.find_spec("rrl.experiments.cartpole.standin")
        assert record["settings"]["max_episode_steps"] == 200
        assert set(record["versions"]) == {"python", "numpy", "torch", "gymnasium", "d3rlpy"}
        assert min(record["snapshot_greedy_agreement"]) > 0.99

    def test_types_and_read_only(self, standin):
        assert standin.observations.dtype == np.float32 and standin.observations.shape == (len(standin), 4)
        assert standin.actions.dtype == np.int64 and set(np.unique(standin.actions)) == {0, 1}
        assert standin.terminals.dtype == bool and (standin.rewards == 1).all()
        with pytest.raises(ValueError, match="read-only"):
            standin.observations[0] = 0

    def test_follows_the_dynamics_of_cartpole(self, standin):
        following, failed = cartpole_step(standin.observations.astype(float), standin.actions)
        goes_on = ~(standin.terminals | standin.timeouts)
        np.testing.assert_allclose(standin.next_observations[goes_on], following[goes_on], atol=2e-6)
        # Only a state within float32 rounding of a limit could be judged otherwise.
        assert (failed == standin.terminals).mean() > 0.9999

    def test_time_limits_are_not_usable_and_failures_are(self, standin):
        assert np.isnan(standin.next_observations[standin.timeouts]).all()
        assert (standin.next_observations[standin.terminals] == 0).all()
        np.testing.assert_array_equal(standin.usable, ~standin.timeouts)
        lengths = np.bincount(standin.episodes)
        assert (lengths[standin.episodes[standin.timeouts]] == 200).all()
        rows = standin.usable_rows()
        assert np.isfinite(rows.next_observations).all() and rows.terminals.sum() == standin.terminals.sum()

    @pytest.mark.parametrize("name", ["cartpole_standin.npz", "cartpole_behaviour.npz"])
    def test_damage_is_found(self, name, monkeypatch, tmp_path):
        shutil.copytree(loader.DATA, tmp_path / "data")
        damaged = tmp_path / "data" / name
        content = bytearray(damaged.read_bytes())
        content[len(content) // 2] ^= 1
        damaged.write_bytes(content)
        monkeypatch.setattr(loader, "DATA", tmp_path / "data")
        monkeypatch.setattr(play, "DATA", tmp_path / "data")
        with pytest.raises(ValueError, match=r"damaged: SHA-256 should be \w{64}, is \w{64}.*cartpole\.standin"):
            cartpole(source="standin") if "standin" in name else cartpole_replay(100, np.random.default_rng(0))


class TestLayouts:
    def test_flat_and_numbered_files_give_the_same_rows(self, standin, tmp_path):
        rows = flat_rows(standin)
        expected = some(standin)
        ends = {**rows, "episode_terminals": rows["terminals"] | rows["timeouts"]}
        del ends["timeouts"]
        columns = {name: a if name == "observations" else a[:, None].astype(np.float32) for name, a in rows.items()}
        for name, arrays in {"flat": rows, "ends": ends, "two": numbered(rows), "columns": columns}.items():
            data = cartpole(path=write_h5(tmp_path / f"{name}.h5", arrays))
            assert_same_rows(data, expected)
            assert data.source == "file" and data.provenance["file"] == f"{name}.h5" and len(data.sha256) == 64
        np.savez(tmp_path / "flat.npz", **rows)
        assert_same_rows(cartpole(path=str(tmp_path / "flat.npz")), expected)

    def test_without_time_limits_only_terminals_end_episodes(self, standin, tmp_path):
        rows = flat_rows(standin)
        del rows["timeouts"]
        data = cartpole(path=write_h5(tmp_path / "old.h5", rows))
        assert len(data) == np.flatnonzero(rows["terminals"])[-1] + 1 and data.n_episodes == rows["terminals"].sum()
        # The cuts that are not marked are steps to a new start: nothing tells, but the dynamics do.
        hidden = flat_rows(standin)["timeouts"][: len(data)].sum()
        assert data.provenance["loader"]["steps_off_dynamics"] == hidden == 4
        assert f"After {hidden} of its steps the next row is not the state" in data.description

    def test_rows_after_the_last_end_are_dropped_and_counted(self, standin, tmp_path):
        rows = {name: array[:-3] for name, array in flat_rows(standin).items()}
        data = cartpole(path=write_h5(tmp_path / "open.h5", rows))
        assert data.n_episodes == 59
        assert data.provenance["loader"]["unfinished_rows_dropped"] == len(rows["actions"]) - len(data) > 0

    def test_a_failure_on_the_last_allowed_step_is_a_failure(self, standin, tmp_path):
        rows = flat_rows(standin)
        rows["timeouts"] = rows["timeouts"] | rows["terminals"]
        data = cartpole(path=write_h5(tmp_path / "both.h5", rows))
        assert not data.timeouts[data.terminals].any() and data.usable[data.terminals].all()

    @pytest.mark.parametrize("shift", [False, True])
    def test_repeated_terminal_rows_are_dropped(self, shift, standin, tmp_path):
        rows = flat_rows(standin)
        data = cartpole(path=write_h5(tmp_path / "double.h5", repeat_failures(rows, shift)))
        assert_same_rows(data, some(standin))
        counts = data.provenance["loader"]
        dropped = counts["final_states_dropped" if shift else "repeated_rows_dropped"]
        assert dropped == rows["terminals"].sum() == counts["rows_read"] - len(data)

    def test_a_final_state_in_the_failing_episode_is_no_step(self, standin, tmp_path):
        rows = repeat_failures(flat_rows(standin), shift=True)
        rows["terminals"][np.flatnonzero(rows["terminals"])[::2]] = False
        data = cartpole(path=write_h5(tmp_path / "final.h5", rows))
        assert_same_rows(data, some(standin))

    def test_an_equal_row_that_ends_no_episode_stays(self, tmp_path):
        rows = {
            "observations": np.zeros((4, 4), np.float32),
            "actions": np.array([0, 1, 0, 1]),
            "rewards": np.ones(4),
            "terminals": np.array([0, 0, 1, 0]),
            "timeouts": np.array([0, 0, 0, 1]),
        }
        assert len(cartpole(path=write_h5(tmp_path / "equal.h5", rows))) == 4

    @given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from(["fail", "limit", "fail twice"])), min_size=1))
    def test_rows_are_paired_as_a_plain_loop_pairs_them(self, episodes):
        rng = np.random.default_rng(len(episodes))
        columns, expected = {"observations": [], "terminals": [], "timeouts": []}, []
        for number, (length, kind) in enumerate(episodes):
            states = rng.uniform(-0.1, 0.1, (length, 4)).astype(np.float32)
            for step, state in enumerate(states):
                last = step == length - 1
                following = states[step + 1] if not last else np.full(4, np.nan if kind == "limit" else 0)
                expected.append((state, following, number))
                for _ in range(2 if last and kind == "fail twice" else 1):
                    columns["observations"].append(state)
                    columns["terminals"].append(last and kind != "limit")
                    columns["timeouts"].append(last and kind == "limit")
        rows = {name: np.array(column) for name, column in columns.items()}
        rows |= {"actions": np.zeros(len(rows["terminals"]), int), "rewards": np.ones(len(rows["terminals"]))}
        data = loader._assemble(rows, "file", "", "", {})
        for got, want in zip((data.observations, data.next_observations, data.episodes), zip(*expected)):
            np.testing.assert_array_equal(got, np.array(want))


class TestBadFiles:
    def test_other_keys_are_listed(self, tmp_path):
        path = write_h5(tmp_path / "other.h5", {"obs": np.zeros((3, 4)), "act": np.zeros(3)})
        with pytest.raises(ValueError, match=r"other\.h5 lacks \['observations'.*keys \['act', 'obs'\]"):
            cartpole(path=path)

    @pytest.mark.parametrize("name", ["observations", "timeouts"])
    def test_groups_are_no_arrays(self, name, standin, tmp_path):
        rows = flat_rows(standin)
        del rows[name]
        with h5py.File(write_h5(tmp_path / "group.h5", rows), "a") as file:
            file.create_group(name)
        with pytest.raises(ValueError, match=rf"group\.h5: {name} is a link or a group"):
            cartpole(path=tmp_path / "group.h5")

    @pytest.mark.parametrize(
        ("name", "change", "message"),
        [
            ("observations", lambda a: a[:, :3], r"observations should be \(n, 4\), are \(\d+, 3\)"),
            ("observations", lambda a: a[:0], r"observations should be \(n, 4\), are \(0, 4\)"),
            ("observations", lambda a: np.where(np.arange(len(a))[:, None] == 7, np.nan, a), "1 rows not finite.* 7"),
            ("rewards", lambda a: a * np.inf, "rewards has .* not finite"),
            ("actions", lambda a: a[:-1], "actions should be"),
            ("actions", lambda a: a + 1, r"actions should be 0 or 1, has the values \[1, 2\]"),
            ("actions", lambda a: a - 0.5, "actions should be 0 or 1"),
            ("actions", lambda a: a.astype("S1"), "actions should be numbers"),
            ("terminals", lambda a: a * 2, "terminals should be 0 or 1"),
            ("terminals", lambda a: a & False, "no row ends an episode"),
        ],
    )
    def test_forged_arrays_are_refused(self, name, change, message, standin, tmp_path):
        rows = flat_rows(standin)
        del rows["timeouts"]
        rows[name] = change(rows[name] if name != "terminals" else rows[name].astype(int))
        path = write_h5(tmp_path / "forged.h5", rows)
        with pytest.raises(ValueError, match=rf"forged\.h5: .*{message}"):
            cartpole(path=path)

    @pytest.mark.parametrize("name", ["next_observations", "truncations", "dones"])
    def test_columns_that_would_change_the_meaning_are_refused(self, name, standin, tmp_path):
        rows = flat_rows(standin)
        rows |= {name: rows["observations"] if name == "next_observations" else rows["timeouts"], "version": "1.0"}
        path = write_h5(tmp_path / "more.h5", rows)
        np.savez(tmp_path / "more.npz", **rows)
        for each in (path, path.with_suffix(".npz")):
            with pytest.raises(ValueError, match=rf"has the columns \['{name}'\], which are not read"):
                cartpole(path=each)

    def test_ends_that_contradict_each_other_are_refused(self, standin, tmp_path):
        rows = flat_rows(standin)
        rows["episode_terminals"] = rows["terminals"] | rows["timeouts"]
        assert_same_rows(cartpole(path=write_h5(tmp_path / "both.h5", rows)), some(standin))
        row = np.flatnonzero(rows["timeouts"] & ~rows["terminals"])[0]
        rows["episode_terminals"][row] = False
        with pytest.raises(ValueError, match=f"timeouts and episode_terminals differ, first in row {row}"):
            cartpole(path=write_h5(tmp_path / "both.h5", rows))

    @pytest.mark.parametrize("end", [0.5, 2, np.nan, -1])
    def test_ends_of_episodes_that_are_no_booleans_are_refused(self, end, standin, tmp_path):
        arrays = numbered(flat_rows(standin, 3)) | {"terminated_1": end}
        with pytest.raises(ValueError, match=r"episode 1 has the end .*; it should be one number, 0 or 1"):
            cartpole(path=write_h5(tmp_path / "ends.h5", arrays))

    @pytest.mark.parametrize("count", [3.0, [3, 3], True])
    def test_a_number_of_episodes_that_is_none_is_refused(self, count, standin, tmp_path):
        arrays = numbered(flat_rows(standin, 3)) | {"num_episodes": count}
        with pytest.raises(ValueError, match="num_episodes should be one integer, is "):
            cartpole(path=write_h5(tmp_path / "count.h5", arrays))

    @pytest.mark.parametrize("name", ["terminals", "timeouts", "actions"])
    def test_text_in_an_npz_is_refused(self, name, standin, tmp_path):
        rows = flat_rows(standin)
        rows[name] = rows[name].astype(bool).astype(str)
        np.savez(tmp_path / "text.npz", **rows)
        with pytest.raises(ValueError, match=rf"text\.npz: {name} should be numbers, are <U5"):
            cartpole(path=tmp_path / "text.npz")

    @pytest.mark.parametrize("end", ["False", b"0", [b"False"]])
    def test_ends_that_are_text_are_refused(self, end, standin, tmp_path):
        arrays = numbered(flat_rows(standin, 3)) | {"terminated_1": end}
        with pytest.raises(ValueError, match="terminated_1 should be numbers"):
            cartpole(path=write_h5(tmp_path / "ends.h5", arrays))

    def test_no_real_step_at_all(self, tmp_path):
        rows = {"observations": np.full((1, 4), 9.0), "actions": [0], "rewards": [1.0], "terminals": [1]}
        with pytest.raises(ValueError, match="None of its 1 rows is a step of CartPole"):
            cartpole(path=write_h5(tmp_path / "past.h5", rows))

    def test_episodes_that_lack_columns_or_do_not_fit(self, standin, tmp_path):
        arrays = numbered(flat_rows(standin, 3))
        short = {name: array for name, array in arrays.items() if name != "rewards_1"}
        with pytest.raises(ValueError, match=r"holds 3 episodes but lacks \['rewards_1'\]"):
            cartpole(path=write_h5(tmp_path / "short.h5", short))
        more = arrays | {"num_episodes": 2}
        with pytest.raises(ValueError, match=r"holds 2 episodes but has \['actions_2', .*\], too"):
            cartpole(path=write_h5(tmp_path / "more.h5", more))
        with pytest.raises(ValueError, match="holds 0 episodes"):
            cartpole(path=write_h5(tmp_path / "none.h5", {"columns": ["actions"], "num_episodes": 0}))
        for name, value in {
            "actions_2": arrays["actions_2"][1:],
            "observations_2": arrays["observations_2"][:, 1:],
            "actions_2 ": 3,
        }.items():
            forged = arrays | {name.strip(): value}
            with pytest.raises(ValueError, match="episode 2 has observations, actions and rewards of shapes"):
                cartpole(path=write_h5(tmp_path / "uneven.h5", forged))

    @pytest.mark.parametrize("share", [0.5, 0.99])
    def test_truncated_hdf5_says_expected_and_found(self, share, standin, tmp_path):
        path = write_h5(tmp_path / "cut.h5", flat_rows(standin))
        whole = path.stat().st_size
        content = path.read_bytes()[: int(whole * share)]
        path.write_bytes(content)
        with pytest.raises(ValueError, match=rf"cut\.h5 is truncated .* {whole} bytes, found {len(content)}\. Delete"):
            cartpole(path=path)

    def test_damage_inside_hdf5(self, standin, tmp_path):
        path = tmp_path / "inside.h5"
        with h5py.File(path, "w") as file:
            for name, array in flat_rows(standin).items():
                data = file.create_dataset(name, data=array, compression="gzip", fletcher32=True)
            offset = data.id.get_chunk_info(0).byte_offset
        content = bytearray(path.read_bytes())
        content[offset + 3] ^= 255
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"inside\.h5 is truncated or damaged"):
            cartpole(path=path)

    def test_what_is_not_hdf5_is_named(self, tmp_path):
        (tmp_path / "page.h5").write_text("<!DOCTYPE html>")
        with pytest.raises(ValueError, match=r"page\.h5 \(15 bytes\) is not an HDF5 file: it begins with b'<!DOCTYP'"):
            cartpole(path=tmp_path / "page.h5")

    def test_pickles_are_never_loaded(self, tmp_path):
        class Bomb:
            def __reduce__(self):
                return (Path.write_text, (tmp_path / "exploded", "x"))

        np.savez(tmp_path / "bomb.npz", observations=np.array([Bomb()], object))
        with pytest.raises(ValueError, match="not plain arrays"):
            cartpole(path=tmp_path / "bomb.npz")
        assert not (tmp_path / "exploded").exists()

    def test_truncated_npz(self, standin, tmp_path):
        stream = io.BytesIO()
        np.savez_compressed(stream, **flat_rows(standin))
        (tmp_path / "cut.npz").write_bytes(stream.getvalue()[:-500])
        with pytest.raises(ValueError, match=r"cut\.npz is truncated"):
            cartpole(path=tmp_path / "cut.npz")

    def test_missing_file_and_bad_arguments(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"there is no file .*nothing\.h5"):
            cartpole(path=tmp_path / "nothing.h5")
        with pytest.raises(ValueError, match="source must be 'auto', 'd3rlpy' or 'standin', got 'd4rl'"):
            cartpole(source="d4rl")
        with pytest.raises(ValueError, match="either source or path"):
            cartpole(source="standin", path="x.h5")


class TestHostileFiles:
    """Files that read other files, need all memory, or say two things at once."""

    @pytest.fixture
    def path(self, standin, tmp_path):
        return write_h5(tmp_path / "bad.h5", flat_rows(standin))

    @pytest.fixture
    def other(self, standin, tmp_path):
        """A file that a link may lead to; its rewards are not those of the digest."""
        return write_h5(tmp_path / "other.h5", flat_rows(standin))

    def refused(self, path, message):
        with pytest.raises(ValueError, match=rf"{path.name}.*{message}"):
            cartpole(path=path)

    def test_links(self, path, other):
        for link in (h5py.ExternalLink(other, "/rewards"), h5py.SoftLink("/actions"), h5py.SoftLink("/nothing")):
            with h5py.File(path, "a") as file:
                del file["rewards"]
                file["rewards"] = link
            self.refused(path, "rewards is a link or a group; it should be an array in this file")

    def test_a_link_of_another_name_is_not_followed(self, path, other, standin):
        with h5py.File(path, "a") as file:
            file["else"] = h5py.ExternalLink(other, "/rewards")
        assert_same_rows(cartpole(path=path), some(standin))

    def test_arrays_in_other_files(self, path, other):
        with h5py.File(path, "a") as file:
            n = len(file["rewards"])
            del file["rewards"]
            file.create_dataset("rewards", (n,), "u1", external=[(other, 0, n)])
        self.refused(path, "rewards lies in other files")
        layout = h5py.VirtualLayout((n,), "f4")
        layout[:] = h5py.VirtualSource(other, "rewards", (n,))
        with h5py.File(path, "a") as file:
            del file["rewards"]
            file.create_virtual_dataset("rewards", layout)
        self.refused(path, "rewards lies in other files")

    @pytest.mark.parametrize(
        "shape", [{"shape": (2**28,)}, {"shape": (5,), "maxshape": (None,), "chunks": (2**27,), "compression": "gzip"}]
    )
    def test_bombs_in_hdf5(self, shape, path):
        with h5py.File(path, "a") as file:
            del file["rewards"]
            file.create_dataset("rewards", dtype="f8", **shape)
        assert path.stat().st_size < 300_000
        self.refused(path, r"rewards has \d{10} bytes; all arrays of a CartPole file may have 536870912")

    def test_many_arrays_that_are_too_large_together(self, monkeypatch, path, standin):
        rows = flat_rows(standin)
        size = sum(array.nbytes for array in rows.values())
        monkeypatch.setattr(files, "LARGEST", max(size, path.stat().st_size))
        cartpole(path=path)
        packed = path.with_suffix(".npz")
        np.savez_compressed(packed, **rows)
        monkeypatch.setattr(files, "LARGEST", size - 1)
        self.refused(packed, f"may have {size - 1}")
        small = {name: array[:100] for name, array in rows.items()}
        monkeypatch.setattr(files, "LARGEST", path.stat().st_size - 1)
        self.refused(path, f"has {path.stat().st_size} bytes; a CartPole file may have {path.stat().st_size - 1}")
        arrays = numbered(small | {"terminals": np.arange(100) % 2 == 0})
        whole = write_h5(path.with_name("numbered.h5"), arrays)
        monkeypatch.setattr(files, "LARGEST", whole.stat().st_size)
        cartpole(path=whole)

    def test_text_that_repeats_itself(self, path):
        """References to one text cost sixteen bytes each, and each is a copy when it is read."""
        with h5py.File(path, "a") as file:
            n = len(file["rewards"])
            del file["rewards"]
            file.create_dataset("rewards", (n,), h5py.string_dtype())
        self.refused(path, "rewards should be numbers, are object")
        with h5py.File(path, "a") as file:
            del file["rewards"]
            file["rewards"] = h5py.Empty("f")
        self.refused(path, "rewards should be numbers")

    def test_bombs_and_twins_in_npz(self, standin, tmp_path):
        rows = flat_rows(standin)
        path = tmp_path / "bad.npz"
        np.savez_compressed(path, **(rows | {"rewards": np.zeros(2**26 + 1)}))
        assert path.stat().st_size < 2_000_000
        self.refused(path, r"its arrays have \d{9} bytes")
        np.savez(path, **rows)
        for twin in ("rewards.npy", "rewards"):
            np.savez(path, **rows)
            with zipfile.ZipFile(path, "a") as archive, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                archive.writestr(twin, archive.read("rewards.npy"))
            self.refused(path, r"it holds \['rewards'\] more than once")

    def test_the_digest_is_of_the_file(self, path):
        assert cartpole(path=path).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


class Answer(io.BytesIO):
    """What urlopen gives: a body and headers."""

    def __init__(self, body, length=None):
        super().__init__(body)
        self.headers = {} if length is None else {"Content-Length": str(length)}


def answer(monkeypatch, make):
    """Let the host answer with `make()`; return the list of URLs that were asked for."""
    asked = []

    def urlopen(url, timeout):
        asked.append(url)
        return make()

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    return asked


def left_behind():
    return [p for p in Path().rglob("*") if p.is_file()]


class TestNetwork:
    def test_no_network_gives_the_standin_and_says_so(self, standin):
        data = cartpole()
        assert_same_rows(data, standin)
        assert data.source == "standin" and "d3rlpy's own file was not used: no network" in data.description
        assert not Path("d3rlpy_data").exists()

    def test_no_network_and_no_file_says_what_to_do(self, tmp_path):
        with pytest.raises(FileNotFoundError) as caught:
            cartpole(source="d3rlpy")
        message = str(caught.value)
        assert fetch.CARTPOLE_URL in message and "name not known" in message
        assert str(tmp_path / fetch.CARTPOLE_PATH) in message and "source='standin'" in message

    def test_the_environment_forbids_the_attempt(self, monkeypatch):
        asked = answer(monkeypatch, lambda: Answer(b""))
        monkeypatch.setenv("RRL_OFFLINE", "1")
        assert cartpole().source == "standin" and not asked
        with pytest.raises(FileNotFoundError, match="RRL_OFFLINE forbids"):
            cartpole(source="d3rlpy")

    def test_a_host_that_does_not_answer_is_given_up(self, monkeypatch):
        never = threading.Event()
        answer(monkeypatch, lambda: never.wait(30))
        monkeypatch.setattr(fetch, "CONNECT_SECONDS", -0.8)
        start = time.monotonic()
        assert cartpole().source == "standin"
        assert time.monotonic() - start < 5
        never.set()

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: Answer(b"<html>not here</html>"), "something else: .*not an HDF5 file"),
            (lambda: Answer(b"\x89HDF\r\n\x1a\n" + bytes(100)), "something else: .*truncated or damaged"),
            (lambda: Answer(bytes(100), length=200), "expected 200 bytes, found 100"),
            (lambda: Answer(bytes(100), length="many"), "expected many bytes, found 100"),
        ],
    )
    def test_wrong_answers_leave_no_file(self, make, message, monkeypatch):
        answer(monkeypatch, make)
        with pytest.raises(FileNotFoundError, match=message):
            cartpole(source="d3rlpy")
        assert cartpole().source == "standin"
        assert left_behind() == []

    def test_a_broken_and_a_slow_download_leave_no_file(self, monkeypatch):
        class Broken(Answer):
            def read(self, size=-1):
                raise http.client.IncompleteRead(b"")

        answer(monkeypatch, lambda: Broken(b""))
        with pytest.raises(FileNotFoundError, match="broke off: IncompleteRead"):
            cartpole(source="d3rlpy")
        answer(monkeypatch, lambda: Answer(bytes(100)))
        monkeypatch.setattr(fetch, "DOWNLOAD_SECONDS", -1)
        with pytest.raises(FileNotFoundError, match="only 100 bytes came"):
            cartpole(source="d3rlpy")
        assert left_behind() == []

    def test_a_download_without_end_is_given_up(self, monkeypatch):
        class Endless(Answer):
            def read(self, size=-1):
                return bytes(size)

        monkeypatch.setattr(fetch, "LARGEST", 10**6)
        answer(monkeypatch, lambda: Endless(b""))
        with pytest.raises(FileNotFoundError, match="sent more than 1000000 bytes, which no CartPole file has"):
            cartpole(source="d3rlpy")
        assert left_behind() == []

    def test_without_the_extra(self, monkeypatch, standin, tmp_path):
        real = importlib.util.find_spec
        monkeypatch.setattr(fetch, "find_spec", lambda name: None if name == "h5py" else real(name))
        with pytest.raises(ImportError, match=r"needs h5py: pip install -e '\.\[experiments\]'"):
            cartpole(source="d3rlpy")
        assert cartpole().source == "standin"
        path = write_h5(tmp_path / "flat.h5", flat_rows(standin))
        monkeypatch.setitem(sys.modules, "h5py", None)
        with pytest.raises(ImportError, match=r"needs h5py: pip install -e '\.\[experiments\]'"):
            cartpole(path=path)

    @pytest.mark.parametrize("source", ["auto", "d3rlpy"])
    def test_a_truncated_file_in_the_cache_is_reported(self, source, standin):
        path = write_h5(Path(fetch.CARTPOLE_PATH), flat_rows(standin))
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        with pytest.raises(ValueError, match=r"d3rlpy_data/cartpole_replay_v1\.1\.0\.h5 is truncated.*Delete it"):
            cartpole(source=source)


class TestD3rlpy:
    def put(self, rows):
        return write_h5(Path(fetch.CARTPOLE_PATH), rows)

    def test_every_layout_gives_the_rows_that_it_gives_by_path(self, standin):
        rows = flat_rows(standin)
        ends = {name: array for name, array in rows.items() if name != "timeouts"}
        ends["episode_terminals"] = rows["terminals"] | rows["timeouts"]
        for arrays in (rows, ends, numbered(rows)):
            path = self.put(arrays)
            data = cartpole(source="d3rlpy")
            assert_same_rows(data, some(standin))
            assert_same_rows(data, cartpole(path=path))
            assert data.sha256 == cartpole(path=path).sha256 and data.sha256[:12] in data.description

    def test_nobodys_generator_moves(self, standin):
        """In a process of its own: d3rlpy's import draws from `random` once, and its loader from NumPy every time."""
        self.put(flat_rows(standin))
        code = (
            "import random, sys, numpy as np\n"
            "before = random.getstate(), str(np.random.get_state())\n"
            "from rrl.datasets import cartpole\n"
            "assert cartpole(source='d3rlpy').source == 'd3rlpy' and cartpole(path=sys.argv[1]).source == 'file'\n"
            "assert cartpole(source='standin').source == 'standin'\n"
            "assert before == (random.getstate(), str(np.random.get_state()))\n"
            "assert not {'d3rlpy', 'torch', 'gym'} & set(sys.modules)\n"
        )
        subprocess.run([sys.executable, "-c", code, fetch.CARTPOLE_PATH], check=True)

    @pytest.mark.parametrize(
        ("change", "counted"),
        [
            (lambda rows: rows | {"rewards": rows["rewards"] * 777}, "rewards_not_1"),
            (lambda rows: rows | {"actions": 1 - rows["actions"]}, "steps_off_dynamics"),
            (lambda rows: rows | {"observations": rows["observations"][::-1]}, "steps_off_dynamics"),
            (lambda rows: rows | {"observations": rows["observations"] * 100}, "states_beyond_limits"),
        ],
    )
    def test_what_is_not_cartpole_does_not_pass_for_it(self, change, counted, monkeypatch, standin):
        path = self.put(change(flat_rows(standin)))
        for source in ("d3rlpy", "auto"):
            with pytest.raises(ValueError, match=r"v1\.1\.0\.h5 is not d3rlpy's CartPole data: of \d+ steps"):
                cartpole(source=source)
        assert cartpole(path=path).provenance["loader"][counted] > 0.5 * len(some(standin))
        body = path.read_bytes()
        path.unlink()
        answer(monkeypatch, lambda: Answer(body, length=len(body)))
        data = cartpole()
        assert data.source == "standin" and "sent something else" in data.description and left_behind() == []

    def test_a_few_odd_steps_are_counted_and_pass(self, standin):
        rows = flat_rows(standin)
        rows["rewards"][:50] = 0
        rows["actions"][100:110] ^= 1
        self.put(rows)
        counts = cartpole(source="d3rlpy").provenance["loader"]
        assert counts["rewards_not_1"] == 50 and counts["states_beyond_limits"] == 0
        assert 8 <= counts["steps_off_dynamics"] <= 10
        assert not any(standin.provenance["loader"][name] for name in list(counts)[1:])
        assert "the next row is not" not in standin.description

    def test_the_real_loader_reads_the_file_that_was_fetched(self, monkeypatch, standin, tmp_path):
        """Download, d3rlpy's own reader with repeated rows, then the cache without a network; and d3rlpy 2's dump."""
        pytest.importorskip("d3rlpy")
        rows = flat_rows(standin)
        doubled = repeat_failures(rows)
        doubled["episode_terminals"] = doubled["terminals"] | doubled.pop("timeouts")
        body = write_h5(tmp_path / "elsewhere" / "file.h5", doubled).read_bytes()
        asked = answer(monkeypatch, lambda: Answer(body, length=len(body)))
        data = cartpole()
        assert data.source == "d3rlpy" and asked == [fetch.CARTPOLE_URL]
        assert_same_rows(data, some(standin))
        assert data.provenance["loader"]["repeated_rows_dropped"] == rows["terminals"].sum()
        assert [p.name for p in Path("d3rlpy_data").iterdir()] == ["cartpole_replay_v1.1.0.h5"]
        assert_same_rows(cartpole(source="d3rlpy"), data)
        assert len(asked) == 1

        import d3rlpy

        assert fetch.CARTPOLE_URL == d3rlpy.datasets.CARTPOLE_URL
        assert Path(fetch.CARTPOLE_PATH).parent.name == d3rlpy.datasets.DATA_DIRECTORY
        buffer = d3rlpy.datasets.get_cartpole()[0]
        assert buffer.size() == 60 + rows["terminals"].sum()  # what the repeated rows are to d3rlpy
        clean = d3rlpy.dataset.MDPDataset(**rows)
        with open("dump.h5", "w+b") as file:
            clean.dump(file)
        assert_same_rows(cartpole(path="dump.h5"), data)


class TestPlay:
    def test_step_is_gymnasium_bit_for_bit(self):
        gymnasium = pytest.importorskip("gymnasium")
        rng = np.random.default_rng(1)
        env = gymnasium.make("CartPole-v1").unwrapped
        wide = rng.uniform(-1, 1, (4000, 4)) * [2.5, 4, 0.22, 4]
        actions = rng.integers(0, 2, 4000)
        states, failed = cartpole_step(wide, actions)
        env.reset(seed=0)
        for start, action, state, over in zip(wide, actions, states, failed):
            env.state, env.steps_beyond_terminated = start, None
            observation, reward, terminated, _, _ = env.step(int(action))
            assert env.state.tobytes() == state.tobytes() and terminated == over and reward == 1
            assert observation.tobytes() == state.astype(np.float32).tobytes()
        assert 0.1 < failed.mean() < 0.9

    def test_episodes_are_gymnasiums(self):
        """Rows of each episode follow Gymnasium's from the same start, to the last bit of the observation."""
        gymnasium = pytest.importorskip("gymnasium")
        starts = []

        def lean(observations, rng):
            return (observations[:, 2] + 0.2 * observations[:, 3] > 0).astype(int)

        class Recorder(np.random.Generator):
            def uniform(self, low, high, size):
                starts.append(super().uniform(low, high, size))
                return starts[-1]

        data = cartpole_play(lean, 700, Recorder(np.random.PCG64(5)), max_episode_steps=500)
        env = gymnasium.make("CartPole-v1")
        for episode in range(data.n_episodes):
            rows = data.take(data.episodes == episode)
            observation, _ = env.reset(seed=0)
            env.unwrapped.state = np.concatenate(starts)[episode]
            observation = env.unwrapped.state.astype(np.float32)
            for row in range(len(rows)):
                assert observation.tobytes() == rows.observations[row].tobytes()
                observation, _, terminated, truncated, _ = env.step(int(rows.actions[row]))
                assert observation.tobytes() == rows.next_observations[row].tobytes()
                assert (terminated, truncated and not terminated) == (rows.terminals[row], rows.timeouts[row])

    def test_time_limit_and_rows(self):
        data = cartpole_random(3000, np.random.default_rng(0), max_episode_steps=15)
        lengths = np.bincount(data.episodes)
        assert lengths.max() == 15 and len(data) == 3000 and data.usable.all()
        ends = np.cumsum(lengths)[:-1] - 1
        assert (data.terminals | data.timeouts)[ends].all()
        assert (data.terminals | data.timeouts).sum() in (len(ends), len(ends) + 1)
        assert (lengths[data.episodes[data.timeouts]] == 15).all()
        inside = np.flatnonzero(~(data.terminals | data.timeouts))[:-1]
        np.testing.assert_array_equal(data.next_observations[inside], data.observations[inside + 1])

    def test_one_row(self):
        data = cartpole_random(1, np.random.default_rng(0))
        assert len(data) == 1 and data.n_episodes == 1 and not data.terminals[0]

    def test_generated_data_is_repeatable(self):
        first, again, other = (cartpole_random(500, np.random.default_rng(s)) for s in (3, 3, 4))
        assert_same_rows(first, again)
        assert first.sha256 == again.sha256 != other.sha256
        assert first.source == "random"

    def test_random_play_lasts_as_long_as_in_gymnasium(self):
        """Two-sided z test of mean lengths, 1,500 against 20,000 episodes: false alarm rate 1e-4 (|z| < 3.9)."""
        gymnasium = pytest.importorskip("gymnasium")
        env = gymnasium.make("CartPole-v1").unwrapped
        rng, theirs = np.random.default_rng(0), []
        env.reset(seed=0)
        for _ in range(1500):
            env.reset()
            steps, over = 0, False
            while not over:
                over = env.step(int(rng.integers(2)))[2]
                steps += 1
            theirs.append(steps)
        data = cartpole_random(450_000, np.random.default_rng(1))
        ours = np.bincount(data.episodes)[:-1]
        z = (np.mean(theirs) - ours.mean()) / np.sqrt(np.var(theirs) / 1500 + ours.var() / len(ours))
        assert abs(z) < 3.9

    @pytest.mark.parametrize(
        ("n", "limit"), [(0, 500), (-3, 500), (2.0, 500), (True, 500), (5, 0), (5, 1.5), (5, None)]
    )
    def test_sizes_that_are_none_are_refused(self, n, limit):
        named = f"n must be an integer >= 1, got {n}" if limit == 500 else f"max_episode_steps must be .* got {limit}"
        with pytest.raises(ValueError, match=named):
            cartpole_random(n, np.random.default_rng(0), max_episode_steps=limit)

    def test_actions_of_a_policy_that_are_none_are_refused(self):
        """A number between 0 and 1 would be cut to 0, and 2 would push left."""
        for action, found in ((0.7, "must be 1 integers"), (2, "must lie in 0..1, got 2 to 2"), (-1, "must lie in")):
            with pytest.raises(ValueError, match=f"the policy's actions {found}"):
                cartpole_play(lambda seen, rng, a=action: np.full(len(seen), a), 9, np.random.default_rng(0))
        with pytest.raises(ValueError, match="the policy's actions must be 1 integers"):
            cartpole_play(lambda seen, rng: 1, 9, np.random.default_rng(0))
        as_int, as_bool = (
            cartpole_play(lambda seen, rng, t=kind: (seen[:, 2] > 0).astype(t), 50, np.random.default_rng(0))
            for kind in (np.int8, bool)
        )
        assert as_int.sha256 == as_bool.sha256

    def test_replay_is_like_the_standin(self, standin):
        """Fresh data of the same kind: episodes are as long as in the recording, twentieth by twentieth."""
        n = 20_000
        data = cartpole_replay(n, np.random.default_rng(0))
        assert len(data) == n and data.usable.all() and data.source == "replay"
        assert np.bincount(data.episodes).max() <= 200
        assert (np.diff(data.episodes) >= 0).all() and data.n_episodes == data.episodes[-1] + 1
        recorded = standin.provenance["mean_length_by_twentieth"]
        np.testing.assert_allclose(length_by_twentieth(standin), recorded, atol=0.06)
        assert np.corrcoef(length_by_twentieth(data), recorded)[0, 1] > 0.9
        other = cartpole_replay(n, np.random.default_rng(1))
        assert data.sha256 != other.sha256
        for few, message in ((19, "n must be at least 20, one row a snapshot, got 19"), (40.0, "n must be an integer")):
            with pytest.raises(ValueError, match=message):
                cartpole_replay(few, np.random.default_rng(0))

    def test_snapshots_explore_as_the_run_did(self, standin):
        """Shares of actions that the greedy action would not have taken: half the exploration rate."""
        settings = standin.provenance["settings"]
        layers = {"w1": np.zeros((3, 4)), "b1": np.zeros(3), "basis": np.zeros((2, 3)), "w2": np.zeros((5, 2))}
        layers |= {"b2": np.zeros(5), "w3": np.zeros((2, 5)), "b3": np.array([0.0, 1.0])}
        for k, rate in {0: (1.0 + 0.55) / 2, 1: (0.55 + 0.1) / 2, 2: 0.1, 19: 0.1}.items():
            policy = play._snapshot(layers, settings, k)
            share = np.mean(policy(np.zeros((200_000, 4)), np.random.default_rng(0)) == 0)
            assert abs(share - rate / 2) < 0.005  # over four standard errors


def test_import_needs_numpy_only():
    code = """
        import sys
        for name in ("scipy", "sklearn", "torch", "d3rlpy", "h5py", "gymnasium", "gym", "numba", "minari", "ale_py"):
            sys.modules[name] = None
        import rrl.datasets
        data = rrl.datasets.cartpole(source="standin")
        print(len(data), rrl.datasets.cartpole_replay(40, __import__("numpy").random.default_rng(0)))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    assert done.returncode == 0, done.stderr
    record = json.loads((loader.DATA / "cartpole_standin.json").read_text())
    assert done.stdout.startswith(str(record["rows"]))
