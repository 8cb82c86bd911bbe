"""Any path → tensor files: the content decides what a file is, the suffix only what is worth mentioning."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import msgspec

from stridetool.core.tensor_file import Note, Region, Severity, TensorFile
from stridetool.errors import InputError
from stridetool.sources import (
    gguf,
    npy,
    npz,
    safetensors,
    shards,
    torch_archive,
    torch_legacy,
    torch_tar,
    zip_directory,
)
from stridetool.sources.detect import HEAD_BYTES, detect
from stridetool.sources.file_bytes import FileBytes, head
from stridetool.sources.torch_pickle import start_notes

Progress = Callable[[int, int, str], None]  # files read, files in all, the path of the next

# The suffixes that say what a file is, by the kinds that may have them.
_SUFFIXES = {
    ".npy": ("npy",),
    ".npz": ("npz",),
    ".safetensors": ("safetensors",),
    ".gguf": ("gguf",),
    **dict.fromkeys((".pt", ".pth", ".ckpt", ".bin"), ("torch zip", "torch legacy", "torch tar", "torchscript")),
}
_READERS: dict[str, Callable[[FileBytes, str], TensorFile]] = {
    "npy": npy.read_npy,
    "gguf": gguf.read_gguf,
    "safetensors": safetensors.read_safetensors,
    "tar": torch_tar.read_tar,
    "pickle": torch_legacy.read_legacy,
}
_KINDS_HINT = ".npy, .npz, .safetensors, .gguf and what torch.save and torch.jit.save write can be read"
_MAX_DEPTH = 8
_MAX_FILES = 10_000
_MAX_NOTES = 200  # of one kind in one file
_MAX_TENSORS = 300_000  # in all files of a directory or an index


def open_tensor_files(path: str, progress: Progress | None = None) -> list[TensorFile]:
    """The tensor files at `path`: one file, the shards of an index, or all below a directory.

    In a directory, and among shards, a file that cannot be read becomes a record of kind `unreadable` whose note
    says why. Raises InputError where `path` itself cannot be read.
    """
    if os.path.isdir(path):
        return _directory(path, progress)
    if shards.is_index_name(path):
        return _sharded(path, progress)
    return [open_tensor_file(path)]


def open_tensor_file(path: str) -> TensorFile:
    """One file, read by its headers. Raises InputError for what is no tensor file, damaged or hostile."""
    with FileBytes(path) as data:
        try:
            found = _read(data, path)
        except InputError as error:
            raise InputError(f"cannot read {path}: {error.message}", hint=error.hint) from error
    suffix = os.path.splitext(path)[1].lower()
    notes = _not_too_many(found.notes)
    if found.kind not in _SUFFIXES.get(suffix, (found.kind,)):
        notes.insert(
            0, Note("suffix", "warning", f"the file is called {suffix} and is {found.kind}", None, "rename it")
        )
    return msgspec.structs.replace(found, notes=tuple(notes))


def _not_too_many(notes: Iterable[Note]) -> list[Note]:
    """The first notes of each kind, and how many more there are: a file can give cause for one per byte."""
    counts, kept = Counter[tuple[str, Severity]](), list[Note]()
    for note in notes:
        kind = (note.code, note.severity)
        counts[kind] += 1
        if counts[kind] <= _MAX_NOTES:
            kept.append(note)
    more = [(kind, count - _MAX_NOTES) for kind, count in counts.items() if count > _MAX_NOTES]
    return kept + [Note(code, severity, f"{count:,} more findings of this kind") for (code, severity), count in more]


def _read(data: FileBytes, path: str) -> TensorFile:
    start = head(data, HEAD_BYTES)
    if not start:
        raise InputError("the file is empty")
    family = detect(start)
    reader = _READERS.get(family or "")
    # A zip archive is known by its end, too: whatever stands before it is a prefix.
    if family == "zip":
        return _read_zip(data, path)
    # A pickle of protocol 0 or 1 begins like any text.
    if family is None and torch_legacy.begins_as_legacy(data):
        return torch_legacy.read_legacy(data, path)
    if family is None and zip_directory.has_directory(data):
        return _behind_prefix(_read_zip(data, path), data)
    if reader is None:
        raise _unknown(data, path, start)
    return reader(data, path)


def _read_zip(data: FileBytes, path: str) -> TensorFile:
    directory = zip_directory.read_directory(data)
    if torch_archive.is_torch_archive(directory):
        return torch_archive.read_archive(data, path, directory)
    return npz.read_npz(data, path, directory)


def _behind_prefix(found: TensorFile, data: FileBytes) -> TensorFile:
    """An archive behind other bytes, which torch.load and numpy.load take for a pickle: what these would do is told."""
    notes = [*found.notes]
    if not any(note.code == "prefix" for note in notes):
        notes.append(Note("prefix", "warning", "the file begins with no archive: other programs may see another file"))
    return msgspec.structs.replace(found, notes=(*notes, *start_notes(data)))


def _unknown(data: FileBytes, path: str, start: bytes) -> InputError:
    """Which rule it breaks of the format that it is called after; else that it is of no known kind."""
    reader = _READERS.get(os.path.splitext(path)[1].lower().removeprefix("."))
    if reader is not None:
        try:
            reader(data, path)
        except InputError as error:
            return error
    shown = start[:8].decode("ascii", "backslashreplace")
    return InputError(f"no tensor file of a known kind: it begins with {shown!r}", hint=_KINDS_HINT)


def _directory(path: str, progress: Progress | None) -> list[TensorFile]:
    paths = sorted(itertools.islice(_files_below(path), _MAX_FILES + 1))
    if len(paths) > _MAX_FILES:
        raise InputError(f"cannot read {path}: more than {_MAX_FILES:,} files below this directory")
    indices = [found for found in paths if shards.is_index_name(found)]
    candidates = [found for found in paths if os.path.splitext(found)[1].lower() in _SUFFIXES]
    if not candidates and not indices:
        raise InputError(f"cannot read {path}: no tensor files below this directory", hint=_KINDS_HINT)
    files = _read_all(candidates, progress)
    indexed = [shards.check(index, shards.read_index(index), files) for index in indices]
    return [*indexed, *files]


def _files_below(path: str, depth: int = 0) -> Iterator[str]:
    """Regular files; directories that are links are not followed, and of those below `path` unreadable ones left out.

    Raises InputError where `path` itself cannot be read.
    """
    try:
        entries = list(itertools.islice(os.scandir(path), _MAX_FILES + 1))
    except OSError as error:
        if depth:
            return
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if depth < _MAX_DEPTH:
                yield from _files_below(entry.path, depth + 1)
        elif _is_file(entry):
            yield entry.path


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Whether a regular file is there, also behind a link; what cannot be asked is none."""
    try:
        return entry.is_file()
    except OSError:
        return False


def _sharded(path: str, progress: Progress | None) -> list[TensorFile]:
    index = shards.read_index(path)
    folder = os.path.dirname(path)
    present = [os.path.join(folder, name) for name in index.files if os.path.isfile(os.path.join(folder, name))]
    files = _read_all(present, progress)
    return [shards.check(path, index, files), *files]


def _read_all(paths: list[str], progress: Progress | None) -> list[TensorFile]:
    files, tensors = list[TensorFile](), 0
    for number, path in enumerate(paths):
        if progress is not None:
            progress(number, len(paths), path)
        try:
            files.append(open_tensor_file(path))
        except InputError as error:
            files.append(_unreadable(path, error))
        tensors += len(files[-1].tensors)
        if tensors > _MAX_TENSORS:
            raise InputError(f"more than {_MAX_TENSORS:,} tensors in the files up to {path}", hint="name fewer files")
    return files


def _unreadable(path: str, error: InputError) -> TensorFile:
    note = Note("unreadable", "error", error.message, None, error.hint)
    size = os.path.getsize(path) if os.path.isfile(path) else 0
    return TensorFile(
        kind="unreadable", path=path, size=size, tensors=(), storages=(), regions=(Region(0, size, "unread"),),
        notes=(note,),
    )  # fmt: skip
