"""Files that are whole or not there."""

import errno
import os
import stat

import pytest

from rrl import _files
from rrl._files import write_durably


@pytest.mark.skipif(os.name != "posix", reason="rights of Unix")
@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_files_have_the_rights_that_the_user_gives_new_files(tmp_path, mask):
    """Records, recordings, networks and checkpoints alike: a group that may read one may read all."""
    torch = pytest.importorskip("torch")
    from rrl.datasets.recordings import write_recording
    from rrl.experiments.games.runs import _save_network, network_path
    from rrl.experiments.store import RunStore
    from rrl.pqn.files import save_tensors

    unit, store = {"experiment": "demo"}, RunStore(tmp_path)
    before = os.umask(mask)
    try:
        _save_network(tmp_path, unit, torch.zeros(3))  # as the trainer does, before its record
        store.write(unit, {}, {})
        write_recording(tmp_path / "a.recording", {"game": "x"})
        save_tensors(tmp_path / "b.safetensors", {"x": torch.zeros(2)}, {})
    finally:
        os.umask(before)
    paths = [store.path(unit), tmp_path / "a.recording", tmp_path / "b.safetensors", network_path(tmp_path, unit)]
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o666 & ~mask}
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.skipif(os.name != "posix", reason="a limit of Unix")
def test_tensors_on_a_full_disk_are_an_error_of_the_disk(tmp_path):
    """And what was there stays; a limit on the size of files stops the write midway."""
    resource, torch = pytest.importorskip("resource"), pytest.importorskip("torch")
    from rrl.pqn.files import load_tensors, save_tensors

    path = tmp_path / "c.safetensors"
    save_tensors(path, {"x": torch.zeros(2)}, {"n": 1})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            save_tensors(path, {"x": torch.zeros(50_000)}, {"n": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.errno == errno.EFBIG and load_tensors(path)[1] == {"n": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_flushed_is_no_obstacle(tmp_path, monkeypatch):
    """As on Windows, where a folder cannot be opened."""

    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(_files.os, "open", refuse)
    write_durably(tmp_path / "a", b"x")
    assert (tmp_path / "a").read_bytes() == b"x"
