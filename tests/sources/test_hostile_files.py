"""Files that somebody made to run, to stall, to swell, or to show one reader what another does not see."""

from __future__ import annotations

import io
import json
import pickle
import struct
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from stridetool.analysis.files import file_report
from stridetool.core.tensor_file import TensorFile
from stridetool.errors import InputError
from stridetool.sources import open_tensor_file, open_tensor_files
from stridetool.sources.detect import is_tar
from stridetool.sources.pickle_machine import Machine

EVIL = b"cos\nsystem\n(S'exit 1'\ntR"
HEADER = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}"
NPY = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(HEADER)) + HEADER + bytes(4)


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def storage(key: bytes, *more: bytes) -> bytes:
    return b"(" + text("storage") + b"ctorch\nFloatStorage\n" + key + text("cpu") + b"K\x04" + b"".join(more) + b"tQ"


def tensor(reference: bytes) -> bytes:
    geometry = b"K\x00K\x04\x85K\x01\x85\x89"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + reference + geometry + b"ccollections\nOrderedDict\n)RtR"


def archive(pickled: bytes, before: bytes = b"") -> bytes:
    """An archive behind other bytes, which its offsets count."""
    file = io.BytesIO(before)
    with zipfile.ZipFile(file, "a") as members:
        members.writestr("a/data.pkl", pickled)
        members.writestr("a/version", "3\n")
        members.writestr("a/data/0", bytes(16))
    return file.getvalue()


def npz(*members: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive_:
        for name, data in members:
            archive_.writestr(name, data)
    return file.getvalue()


DICT = b"\x80\x02}" + text("x") + tensor(storage(text("0"))) + b"s."
MAGIC = b"\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
STREAM_TENSOR = b"}" + text("x") + tensor(storage(text("0"), b"N")) + b"s."
STREAM_DATA = struct.pack("<q", 4) + bytes(16)


def stream(magic: bytes = b"\x80\x02" + MAGIC, version: bytes = b"", info: bytes = b"", keys: bytes = b"") -> bytes:
    """torch's stream format, with bytes put into each of its small pickles."""
    system = b"\x80\x02" + info + b"}."
    pickles = (magic, b"\x80\x02" + version + b"M\xe9\x03.", system, b"\x80\x02" + STREAM_TENSOR)
    return b"".join(pickles) + b"\x80\x02" + keys + b"]" + text("0") + b"a." + STREAM_DATA


def read(tmp_path: Path, name: str, data: bytes) -> TensorFile:
    path = tmp_path / name
    path.write_bytes(data)
    return open_tensor_file(str(path))


def unsafe(file: TensorFile) -> set[str | None]:
    return {note.where for note in file.notes if note.code == "unsafe-global"}


def codes(file: TensorFile) -> set[str]:
    return {note.code for note in file.notes}


@pytest.mark.parametrize("name", ["model.pt", "model.bin", "model.safetensors", "model.npz"])
def test_a_first_line_that_asks_for_python_is_no_reason_to_run_a_tensor_file(tmp_path: Path, name: str):
    mark = tmp_path / "was_run"
    path = tmp_path / name
    path.write_text(f"#!/usr/bin/env python\nopen({str(mark)!r}, 'w')\n")
    command = [sys.executable, "-m", "stridetool", "inspect", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert not mark.exists()


def test_globals_behind_the_names_of_harmless_modules(tmp_path: Path):
    hidden = b"\x80\x04\x8c\x11torch.jit._pickle\x8c\x0ftorch.os.system\x93\x8c\x02id\x85R."
    assert unsafe(read(tmp_path, "m.pt", archive(hidden))) == {"torch.jit._pickle.torch.os.system"}


@pytest.mark.parametrize("before", [EVIL + b".", EVIL + b"garbage"])
def test_a_pickle_before_an_archive_is_told(tmp_path: Path, before: bytes):
    counted = read(tmp_path, "counted.pt", archive(DICT, before))
    uncounted = read(tmp_path, "uncounted.pt", before + archive(DICT))
    for file in (counted, uncounted):
        assert unsafe(file) == {"os.system"}
        assert "prefix" in codes(file)


def test_a_stream_in_any_protocol_goes_before_an_archive_behind_it(tmp_path: Path):
    data = stream(magic=b"L119547037146038801333356L\n.")
    assert read(tmp_path, "m.pt", data + archive(DICT)).kind == "torch legacy"


@pytest.mark.parametrize("place", ["magic", "version", "info", "keys"])
def test_the_small_pickles_of_a_stream_are_looked_at(tmp_path: Path, place: str):
    parts = {"magic": b"\x80\x02" + EVIL + b"0" + MAGIC} if place == "magic" else {place: EVIL + b"0"}
    assert unsafe(read(tmp_path, "good.pt", stream())) == set()
    assert unsafe(read(tmp_path, "m.pt", stream(**parts))) == {"os.system"}


def tar(*members: tuple[str, bytes], format: int = tarfile.USTAR_FORMAT) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=format) as out:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            out.addfile(info, io.BytesIO(data))
    return file.getvalue()


EMPTY = (("storages", pickle.dumps(0, 2)), ("tensors", pickle.dumps(0, 2)), ("pickle", pickle.dumps({}, 2)))


def test_all_pickles_of_a_tar_are_looked_at(tmp_path: Path):
    assert read(tmp_path, "good.pt", tar(*EMPTY)).kind == "torch tar"
    storages = ("storages", b"\x80\x02" + EVIL + b"0K\x00.")
    assert unsafe(read(tmp_path, "m.pt", tar(storages, *EMPTY[1:]))) == {"os.system"}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (tar(*EMPTY, ("pickle", EVIL + b".")), "two members"),
        (tar(*[(str(n), b"") for n in range(70)], *EMPTY), "more than 64 members"),
        (tar(("é" * 120, b""), *EMPTY, format=tarfile.PAX_FORMAT), "no plain file"),
    ],
)
def test_tars_in_which_readers_see_other_members_are_refused(tmp_path: Path, data: bytes, reason: str):
    with pytest.raises(InputError, match=reason):
        read(tmp_path, "m.pt", data)


def test_a_tar_that_is_a_stream_too(tmp_path: Path):
    data = bytearray(tar(("x" * 40, b""), *EMPTY))
    data[:15] = b"\x80\x02" + MAGIC
    signed = sum(struct.unpack("512b", data[:148] + b" " * 8 + data[156:512]))
    data[148:156] = b"%06o\0 " % signed  # a sum of signed bytes, which tarfile takes as well
    assert is_tar(bytes(data[:512]))
    with tarfile.open(fileobj=io.BytesIO(data)) as members:
        assert members.getnames()[-1] == "pickle"
    with pytest.raises(InputError, match="at once"):
        read(tmp_path, "m.pt", bytes(data))


def test_zips_in_which_readers_see_other_members(tmp_path: Path):
    with pytest.raises(InputError, match="NUL"):
        read(tmp_path, "nul.npz", npz(("a.npy", NPY), ("a.npyX", NPY)).replace(b"a.npyX", b"a.npy\0"))
    data = npz(("a.npy", NPY))
    at = data.index(b"a.npy")
    assert "local-header" in codes(read(tmp_path, "local.npz", data[:at] + b"b" + data[at + 1 :]))


def wide_end(data: bytes, *, locator: int = 0, offset: int = 0) -> bytes:
    """The archive with a zip64 end record, with lies added to its place and to the short record's offset."""
    end, directory = data.rindex(b"PK\5\6"), data.index(b"PK\1\2")
    size = end - directory
    wide = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, size, directory)
    place = struct.pack("<4sLQL", b"PK\6\7", 0, end - locator, 1)
    return data[:end] + wide + place + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, size, directory + offset, 0)


def test_two_ends_of_a_zip_archive(tmp_path: Path):
    data = npz(("a.npy", NPY))
    assert len(read(tmp_path, "good.npz", wide_end(data)).tensors) == 1
    with pytest.raises(InputError, match="locator"):
        read(tmp_path, "locator.npz", wide_end(data, locator=10))
    with pytest.raises(InputError, match="contradict"):
        read(tmp_path, "offset.npz", wide_end(data, offset=1))


def test_deflate_cannot_become_what_it_claims(tmp_path: Path):
    data = bytearray(npz(("a.npy", NPY), method=zipfile.ZIP_DEFLATED))
    struct.pack_into("<I", data, data.rindex(b"PK\1\2") + 24, 4_000_000_000)
    with pytest.raises(InputError, match="more than deflate can"):
        read(tmp_path, "m.npz", bytes(data))


def test_an_integer_too_long_for_text_is_no_key(tmp_path: Path):
    huge = b"\x8b" + struct.pack("<i", 4096) + b"\x7f" * 4096
    with pytest.raises(InputError, match="key or location"):
        read(tmp_path, "m.pt", archive(b"\x80\x02}" + text("x") + tensor(storage(huge)) + b"s."))


def test_keys_that_python_takes_for_one(tmp_path: Path):
    one = b"K\x01" + tensor(storage(text("0"))) + b"\x88" + tensor(storage(text("0"))) + b"G" + struct.pack(">d", 1.0)
    file = read(tmp_path, "m.pt", archive(b"\x80\x02}(" + one + tensor(storage(text("0"))) + b"u."))
    assert [found.name for found in file.tensors] == ["1"]


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is Linux's")
@pytest.mark.parametrize(
    "pickled",
    [
        b"\x80\x04N" + b"\x94" * 6_000_000 + b".",  # memo entries
        b"\x80\x04(" + b"M\xff\xff" * 6_000_000 + b"t.",  # integers
        b"\x80\x04(" + b"N)R" * 2_000_000 + b"t.",  # calls
        b"\x80\x04(" + (text("é" * 500) * 20_000) + b"t.",  # text that is not ASCII
        b"\x80\x04Nr\xff\xff\xff\x7f.",  # a memo index
    ],
    ids=["memo", "integers", "calls", "text", "index"],
)
def test_a_pickle_takes_bounded_memory(pickled: bytes):
    code = f"import sys, resource; resource.setrlimit(resource.RLIMIT_AS, ({330 << 20},) * 2)\n"
    code += "from stridetool.sources.pickle_machine import Machine\nfrom stridetool.errors import InputError\n"
    code += "data = sys.stdin.buffer.read()\ntry: Machine(data).run()\nexcept InputError: pass\n"
    done = subprocess.run([sys.executable, "-c", code], input=pickled, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_many_tied_tensors_are_not_compared_with_each_other(tmp_path: Path):
    """The group of all that share a storage grows with the file: a search in a list would take minutes."""
    names = b"".join(text(str(n)) + b"h\x00" for n in range(30_000))
    file = read(
        tmp_path, "m.pt", archive(b"\x80\x02}(" + text("x") + tensor(storage(text("0"))) + b"q\x00" + names + b"u.")
    )
    _, findings = file_report([file])
    assert any(finding.code == "shared-storage" for finding in findings)


def test_an_index_of_many_missing_shards(tmp_path: Path):
    path = tmp_path / "m.index.json"
    path.write_text(json.dumps({"weight_map": {f"t{n}": f"s{n % 9_000}" for n in range(90_000)}}))
    (file,) = open_tensor_files(str(path))
    missing = [note for note in file.notes if note.code == "missing-shard"]
    assert len(missing) == 21
    assert "10 tensors" in missing[0].message


def test_findings_of_one_kind_are_counted(tmp_path: Path):
    entry = '"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
    header = ("{" + ",".join([entry] * 1000) + "}").encode()
    file = read(tmp_path, "m.safetensors", struct.pack("<Q", len(header)) + header + b"x")
    assert [note.message for note in file.notes][-1] == "799 more findings of this kind"


@pytest.mark.parametrize("header", ["{b'descr': '<f4', %s (1,)}", "{'descr': '<f4', %s (01,)}"])
def test_literals_that_numpy_refuses(tmp_path: Path, header: str):
    raw = (header % "'fortran_order': False, 'shape':").encode()
    with pytest.raises(InputError):
        read(tmp_path, "m.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(raw)) + raw + bytes(4))


def test_minus_zero_is_no_size(tmp_path: Path):
    header = b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[-0,1]}}'
    with pytest.raises(InputError, match="-0"):
        read(tmp_path, "m.safetensors", struct.pack("<Q", len(header)) + header + b"x")


def test_memo_entries_that_are_not_there():
    for pickled in (b"g-1\n.", b"Nq\x05h\x03.", b"h\x00."):
        with pytest.raises(InputError, match=r"memo|stack"):
            Machine(pickled).run()
