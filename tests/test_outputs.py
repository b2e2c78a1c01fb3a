"""What programs publish: every format read exactly, floats refused, digests equal if and only if values are."""

import io
import json
import warnings
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrl import RunFailed
from rrl._outputs import digest_outputs, read_outputs
from rrl._published import differences

ARRAYS = {
    "codes": np.array([[1, -2], [2**62, 0]]),
    "flags": np.array([True, False]),
    "names": np.array(["a", "bc"]),
    "small": np.array(7, np.uint8),
    "none": np.zeros((0, 3), np.int16),
}


def npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def twice(name):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive, warnings.catch_warnings(category=UserWarning, action="ignore"):
        for number in (1, 2):
            archive.writestr(name, npy(np.array(number)))
    return file.getvalue()


def safetensors(header, body=b"\x01"):
    return len(header).to_bytes(8, "little") + header.encode() + body


#: One byte of a safetensors file.
ENTRY = '{"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}'


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize("name", ["out", "out.npz", "deep/er.npz"])
def test_npz_is_known_by_its_content_or_its_name(name):
    compared, beside = read_outputs({name: npz(**ARRAYS)})
    assert beside == {} and list(compared) == [f"{name} {key}" for key in ARRAYS]
    for key, array in ARRAYS.items():
        np.testing.assert_array_equal(compared[f"{name} {key}"], array)


def test_npy_json_bytes_and_other_zips():
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("data.pkl", b"x")
    tree = {"a": {"b": [1, [2, "x"]], "empty": []}, "c": True, "d": None}
    files = {
        "out": npy(np.array([3, 1])),
        "model.pt": archive.getvalue(),
        "half.pt": b"PK\x03\x04 and no zip",
        "notes.txt": b"1.5\n",
        "tree.json": json.dumps(tree).encode(),
        "list.json": b"[4]",
        "one.json": b"5",
    }
    compared, _ = read_outputs(files)
    assert list(compared.pop("out")) == [3, 1]
    assert compared == {
        "model.pt": archive.getvalue(),
        "half.pt": b"PK\x03\x04 and no zip",
        "notes.txt": b"1.5\n",
        "tree.json a.b[0]": 1,
        "tree.json a.b[1][0]": 2,
        "tree.json a.b[1][1]": "x",
        "tree.json a.empty": [],
        "tree.json c": True,
        "tree.json d": None,
        "list.json [0]": 4,
        "one.json": 5,
    }
    as_bytes, _ = read_outputs(files, as_bytes=True)
    assert as_bytes == files


def test_safetensors_is_read_as_its_own_package_writes_it():
    library = pytest.importorskip("safetensors.numpy")
    arrays = {"codes": ARRAYS["codes"], "flags": ARRAYS["flags"], "small": np.array([7], np.uint8)}
    arrays |= {kind: np.arange(3).astype(kind) for kind in ("i1", "i2", "i4", "u2", "u4", "u8")}
    data = library.save(arrays, metadata={"made": "today"})
    compared, _ = read_outputs({"w.safetensors": data})
    assert compared.pop("w.safetensors __metadata__.made") == "today"
    assert set(compared) == {f"w.safetensors {name}" for name in arrays}
    for name, array in arrays.items():
        found = compared[f"w.safetensors {name}"]
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)
    floats = library.save(arrays | {"weights": np.ones(2, np.float16)})
    with pytest.raises(RunFailed, match=r"weights in w.safetensors as F16, and floats differ"):
        read_outputs({"w.safetensors": floats})
    compared, beside = read_outputs({"w.safetensors": floats}, keys=["codes"])
    assert list(compared) == ["w.safetensors codes"] and "w.safetensors weights" in beside


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"o.npz": npz(a=np.ones(2))}, "published a in o.npz as float64, and floats differ by the machine"),
        ({"o": npy(np.ones(2, np.float32))}, "published numbers in o as float32"),
        ({"o.npz": npz(a=np.array(1j))}, "published a in o.npz as complex128"),
        ({"o.json": b'{"score": 0.5}'}, "published score in o.json as float"),
        ({"o.json": b'{"score": NaN}'}, "published score in o.json as float"),
        ({"o.json": b"{"}, "published o.json, which cannot be read"),
        ({"o.json": b'{"w.b": 1, "w": {"b": 2}}'}, "two of its entries are called w.b"),
        ({"o.json": b'{"w": [1], "w[0]": 2}'}, "two of its entries are called w[0]"),
        ({"o.json": b'{"w": {"b": 1, "b": 2}}'}, "two of its entries are called b"),
        ({"o.npz": twice("a.npy")}, "two of its entries are called a"),
        ({"o.safetensors": safetensors(f'{{"a": {ENTRY}, "a": {ENTRY}}}')}, "two of its entries are called a"),
        ({"o.json": b'{"codes": 1, "codes ": 2}', "o.json codes": b"3"}, "two values that are called o.json codes"),
        ({"o.npz": npz(a=np.ones(2, ">f4"))}, "published a in o.npz as float32, and floats differ by the machine"),
        ({"o.npz": npz(a=np.array(["2026-11-29"], "M8[D]"))}, "published a in o.npz as datetime64[D], which is not"),
        ({"o.json": b"[" * 100_000}, "published o.json, which cannot be read"),
        ({"o.npz": npz(a=np.zeros(999, int))[:-600] + bytes(600)}, "published o.npz, which cannot be read"),
        ({"o.npz": b"no archive"}, "published o.npz, which cannot be read"),
        ({"o.npz": npz(a=np.array([{}], object))}, "published o.npz, which cannot be read"),
        ({"o.safetensors": b"\xff" * 9}, "published o.safetensors, which cannot be read"),
        ({}, "published nothing"),
    ],
)
def test_what_cannot_be_compared_is_named(files, words):
    with pytest.raises(RunFailed) as failed:
        read_outputs(files)
    assert words in str(failed.value)


def test_names_that_look_alike_are_two():
    compared, _ = read_outputs({"o.json": b'{"codes": 1, "codes ": 2}'})
    assert compared == {"o.json codes": 1, "o.json codes ": 2}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number, name in enumerate(("a.npy", "a.npy.npy")):
            archive.writestr(name, npy(np.array(number)))
    assert read_outputs({"o.npz": file.getvalue()})[0] == {"o.npz a": 0, "o.npz a.npy": 1}


def test_keys_choose_and_the_rest_is_kept_beside():
    files = {"o.json": json.dumps({"codes": [1, 2], "codes2": 3, "result": {"codes": {"x": 4}, "score": 0.5}}).encode()}
    compared, beside = read_outputs(files, keys=["codes", "result.codes"])
    assert compared == {"o.json codes[0]": 1, "o.json codes[1]": 2, "o.json result.codes.x": 4}
    assert set(beside) == {"o.json codes2", "o.json result.score"}
    with pytest.raises(RunFailed, match="published no 'weights'; there is codes, codes2, result"):
        read_outputs(files, keys=["codes", "weights"])


values = st.one_of(
    st.lists(st.integers(-2, 2), max_size=3).map(lambda part: np.array(part, np.int64)),
    st.lists(st.integers(0, 2), max_size=3).map(lambda part: np.array(part, np.uint64)),
    st.lists(st.integers(0, 1), min_size=2, max_size=2).map(lambda part: np.array([part], np.int8)),
    st.lists(st.booleans(), max_size=2).map(np.array).filter(lambda part: part.dtype == bool),
    st.lists(st.sampled_from(["", "a", "ab"]), min_size=1, max_size=2).map(np.array),
    st.sampled_from([True, 1, 0, False, None, "1", "", [], {}, 2**70, b"", b"1", b"1\n", b"\x001"]),
)
outputs = st.dictionaries(st.sampled_from(["a", "b"]), values, max_size=2)


@given(outputs, outputs)
def test_digests_are_equal_exactly_where_no_entry_differs(one, two):
    assert (digest_outputs(one) == digest_outputs(two)) == (differences(one, two)[0] == 0)


def test_large_unsigned_integers_do_not_wrap():
    one, two = {"a": np.array([2**64 - 1], np.uint64)}, {"a": np.array([-1])}
    assert digest_outputs(one) != digest_outputs(two)


def test_differences_of_files_are_told_by_line_or_by_byte():
    assert differences({"f": b"a\nb\nc"}, {"f": b"a\nx\nc\n"}) == (
        2,
        ("f line 2: 'b' and 'x'", "f line 4: none and ''"),
    )
    assert differences({"f": b"\0\1\2"}, {"f": b"\0\3\2\4"}) == (2, ("f: 3 and 4 bytes", "f byte 1: 1 and 3"))
    long = b"x" * 100
    assert differences({"f": long}, {"f": b""})[1][0].endswith("xxx...' and ''")
