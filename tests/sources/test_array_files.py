"""Readers of .npy, .npz, .safetensors and GGUF against the libraries that write these files, and by hand."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from stridetool.errors import InputError
from stridetool.sources import open_tensor_file
from stridetool.sources.file_bytes import Beginning
from stridetool.sources.npy import read_npy
from stridetool.sources.numpy_types import numpy_type
from stridetool.sources.python_literal import Pairs, parse

DTYPES = (
    npst.scalar_dtypes()
    | npst.unicode_string_dtypes()
    | npst.byte_string_dtypes()
    | npst.array_dtypes(npst.scalar_dtypes(), min_size=1, max_size=3, allow_subarrays=True)
)


def as_literal(descr):
    """What the literal reader makes of a descr: lists of tuples stay, as in the file."""
    return parse(repr(descr))


@given(DTYPES)
def test_types_say_what_numpy_says(dtype):
    descr = np.lib.format.dtype_to_descr(dtype)
    found, wanted = numpy_type(as_literal(descr)), np.lib.format.descr_to_dtype(descr)
    assert (found.text, found.itemsize, found.has_objects) == (str(wanted), wanted.itemsize, wanted.hasobject)


@settings(max_examples=60)
@given(
    npst.arrays(npst.scalar_dtypes(), npst.array_shapes(min_dims=0, min_side=0, max_side=4)),
    st.booleans(),
    st.sampled_from([None, (1, 0), (2, 0), (3, 0)]),
)
def test_npy_as_numpy_reads_it(array, fortran, version):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array, order="F" if fortran else "C"), version)
    data = buffer.getvalue()
    loaded = np.load(io.BytesIO(data))
    found = read_npy(Beginning(data, len(data)), "x.npy")
    (tensor,), (storage,) = found.tensors, found.storages
    assert (tensor.dtype, tensor.layout.sizes) == (str(loaded.dtype), loaded.shape)
    if loaded.size:
        assert tuple(s * tensor.itemsize for s in tensor.layout.strides) == loaded.strides
    assert data[storage.file_offset :] == loaded.tobytes("A")


@pytest.mark.parametrize(
    "text", ["{'a': 1", "1 2", "x", "f(1)", "[1 2]", "'a", "1j", "{1}", "(" * 50 + ")" * 50, "-" * 9]
)
def test_what_is_no_literal(text):
    with pytest.raises(InputError):
        parse(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.text(max_size=10),
        lambda inner: st.lists(inner, max_size=3) | st.tuples(inner) | st.tuples(inner, inner) | st.tuples(),
        max_leaves=8,
    )
)
def test_literals_as_python_reads_them(value):
    assert parse(repr(value)) == value


def test_keys_that_stand_twice_are_kept():
    assert parse("{'a': 1, 'a': 2}") == Pairs((("a", 1), ("a", 2)))


def test_npz_members_are_placed(tmp_path: Path):
    arrays = {"a": np.arange(6).reshape(2, 3), "b/c": np.zeros((3, 4), order="F"), "../up": np.ones(1)}
    np.savez(tmp_path / "x.npz", **arrays)
    data = (tmp_path / "x.npz").read_bytes()
    found = open_tensor_file(str(tmp_path / "x.npz"))
    assert [t.name for t in found.tensors] == list(arrays)
    for storage, array in zip(found.storages, arrays.values(), strict=True):
        assert data[storage.file_offset : storage.file_offset + storage.nbytes] == array.tobytes("A")


def test_npz_compressed_is_listed_and_not_placed(tmp_path: Path):
    np.savez_compressed(
        tmp_path / "x.npz", a=np.zeros(100_000), wide=np.zeros(2, [(f"field{i}", "f8") for i in range(99)])
    )
    found = open_tensor_file(str(tmp_path / "x.npz"))
    assert [(t.name, t.layout.sizes, t.itemsize) for t in found.tensors] == [("a", (100_000,), 8), ("wide", (2,), 792)]
    assert [(s.file_offset, s.compressed) for s in found.storages] == [(None, True)] * 2


def npy_bytes(array) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def test_npz_with_a_name_twice_takes_the_last_as_numpy_does(tmp_path: Path):
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", npy_bytes(np.zeros(2)))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.npy", npy_bytes(np.zeros(5)))
    found = open_tensor_file(str(path))
    assert [t.layout.sizes for t in found.tensors] == [np.load(path)["a"].shape]
    assert "duplicate-member" in {note.code for note in found.notes}


def test_safetensors_as_the_library_writes_it(tmp_path: Path):
    library = pytest.importorskip("safetensors.numpy")
    arrays = {f"layer.{i}": np.full((i + 1, 3), i, dtype) for i, dtype in enumerate(("f4", "f2", "i8", "u1", "?"))}
    path = tmp_path / "x.safetensors"
    library.save_file(arrays, path, {"by": "test"})
    data = path.read_bytes()
    found = open_tensor_file(str(path))
    places = {storage.key: storage for storage in found.storages}
    assert {t.name for t in found.tensors} == set(arrays)
    for tensor in found.tensors:
        storage = places[tensor.storage]
        assert data[storage.file_offset : storage.file_offset + storage.nbytes] == arrays[tensor.name].tobytes()


def gguf(tensors, *, version=3, alignment=None, order="<") -> bytes:
    """A file with the given (name, dims, type, nbytes) and two values of metadata."""

    def text(value: str) -> bytes:
        return struct.pack(f"{order}Q", len(value)) + value.encode()

    values = [text("tokens") + struct.pack(f"{order}IIQ", 9, 8, 2) + text("a") + text("bc")]
    if alignment:
        values.append(text("general.alignment") + struct.pack(f"{order}II", 4, alignment))
    head, infos, data = b"GGUF" + struct.pack(f"{order}IQQ", version, len(tensors), len(values)), b"", b""
    for name, dims, kind, nbytes in tensors:
        data += bytes(-len(data) % (alignment or 32))
        infos += text(name) + struct.pack(f"{order}I{len(dims)}QIQ", len(dims), *dims, kind, len(data))
        data += bytes(nbytes)
    head += b"".join(values) + infos
    return head + bytes(-len(head) % (alignment or 32)) + data


@pytest.mark.parametrize(("alignment", "order"), [(None, "<"), (64, "<"), (None, ">")])
def test_gguf(alignment, order, tmp_path: Path):
    tensors = [("a", (3, 2), 0, 24), ("q", (512, 2), 12, 4 * 144), ("h", (5,), 30, 10)]
    path = tmp_path / "x.gguf"
    path.write_bytes(gguf(tensors, alignment=alignment, order=order))
    found = open_tensor_file(str(path))
    rows = [(t.name, t.dtype, t.layout.sizes, t.layout.strides, t.nbytes) for t in found.tensors]
    assert rows == [
        ("a", "float32", (2, 3), (3, 1), 24),
        ("q", "q4_K", (2, 512), (512, 1), 576),
        ("h", "bfloat16", (5,), (1,), 10),
    ]
    assert found.storages[-1].file_offset + found.storages[-1].nbytes == path.stat().st_size
    assert all(storage.file_offset % (alignment or 32) == 0 for storage in found.storages)


def test_gguf_that_claims_more_than_there_is(tmp_path: Path):
    path = tmp_path / "x.gguf"
    path.write_bytes(gguf([("a", (3, 2), 0, 24)])[:-1])
    with pytest.raises(InputError, match="the file ends"):
        open_tensor_file(str(path))


def test_the_content_decides(tmp_path: Path):
    path = tmp_path / "x.pt"
    np.save(tmp_path / "x.npy", np.zeros(3))
    os.rename(tmp_path / "x.npy", path)
    found = open_tensor_file(str(path))
    assert (found.kind, found.notes[0].code) == ("npy", "suffix")


def test_what_is_no_file(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.pt")
    for name in ("pipe.pt", "missing.pt", "."):
        with pytest.raises(InputError):
            open_tensor_file(str(tmp_path / name))


def test_a_stored_dict_is_json(tmp_path: Path):
    path = tmp_path / "x.safetensors"
    header = json.dumps({"a": {"dtype": "F64", "shape": [2], "data_offsets": [0, 16]}, "__metadata__": {"k": "v"}})
    path.write_bytes(struct.pack("<Q", len(header)) + header.encode() + bytes(16))
    (tensor,) = open_tensor_file(str(path)).tensors
    assert (tensor.dtype, tensor.layout.sizes) == ("float64", (2,))
