"""Sharded checkpoints and directories: one list over all files, with what is missing, doubled or unreadable."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from stridetool.errors import InputError
from stridetool.sources import open_tensor_files


def shard(path: Path, names: list[str]) -> None:
    entries = {name: {"dtype": "F32", "shape": [2], "data_offsets": [8 * i, 8 * i + 8]} for i, name in enumerate(names)}
    header = json.dumps(entries).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(8 * len(names)))


def index(folder: Path, weights: dict[str, str], total: int | None = None) -> str:
    metadata = {} if total is None else {"total_size": total}
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": metadata, "weight_map": weights}))
    return str(path)


def codes(files) -> dict[str, str | None]:
    return {note.code: note.where for file in files for note in file.notes}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shard(tmp_path / "model-1.safetensors", ["a", "b"])
    shard(tmp_path / "model-2.safetensors", ["c", "b"])
    return tmp_path


def test_all_is_well(tmp_path: Path):
    shard(tmp_path / "model-1.safetensors", ["a", "b"])
    path = index(tmp_path, {"a": "model-1.safetensors", "b": "model-1.safetensors"}, total=16)
    files = open_tensor_files(path)
    assert [file.kind for file in files] == ["shard index", "safetensors"]
    assert [t.name for file in files for t in file.tensors] == ["a", "b"]
    assert codes(files) == {}


def test_missing_doubled_and_unindexed(folder: Path):
    weights = {
        "a": "model-1.safetensors",
        "b": "model-1.safetensors",
        "d": "model-2.safetensors",
        "e": "gone.safetensors",
    }
    files = open_tensor_files(index(folder, weights))
    assert codes(files) == {
        "missing-shard": "gone.safetensors",
        "missing-tensor": "d",
        "doubled-tensor": "b",
        "unindexed-tensor": "c",
    }


def test_total_size(folder: Path):
    weights = {"a": "model-1.safetensors", "b": "model-1.safetensors"}
    assert "total-size" in codes(open_tensor_files(index(folder, weights, total=17)))


@pytest.mark.parametrize("name", ["../model-1.safetensors", "/etc/passwd", "sub/x.safetensors", "..", "", "a\\b"])
def test_names_in_an_index_are_no_paths(folder: Path, name: str):
    with pytest.raises(InputError, match="no file beside it"):
        open_tensor_files(index(folder, {"a": name}))


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"weight_map": 3}', '{"weight_map": {"a": 1}}', "{", '{"weight_map": []}']
)
def test_broken_indices(tmp_path: Path, text: str):
    path = tmp_path / "x.index.json"
    path.write_text(text)
    with pytest.raises(InputError):
        open_tensor_files(str(path))


def test_a_directory_lists_what_can_be_read(folder: Path):
    (folder / "sub").mkdir()
    shard(folder / "sub" / "other.safetensors", ["z"])
    (folder / "broken.pt").write_text("no tensor file")
    (folder / "notes.txt").write_text("text")
    index(folder, {"a": "model-1.safetensors", "b": "model-1.safetensors", "c": "model-2.safetensors"})
    seen = []
    files = open_tensor_files(str(folder), lambda done, count, path: seen.append((done, count)))
    assert [file.kind for file in files] == ["shard index", "unreadable", "safetensors", "safetensors", "safetensors"]
    assert codes(files).keys() == {"unreadable", "doubled-tensor"}
    assert seen == [(0, 4), (1, 4), (2, 4), (3, 4)]


def test_an_empty_directory_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="no tensor files"):
        open_tensor_files(str(tmp_path))
