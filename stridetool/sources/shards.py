"""The index of a sharded checkpoint (`*.index.json`): which shard holds which tensor, held against the shards."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from stridetool.core.tensor_file import Note, Region, Severity, TensorFile
from stridetool.errors import InputError
from stridetool.sources.bounded_json import Pairs, parse
from stridetool.sources.file_bytes import FileBytes

SUFFIX = ".index.json"
_MAX_BYTES = 32 << 20
_MAX_SHARDS = 10_000
_MAX_WEIGHTS = 500_000
_MAX_NAMED = 20


class ShardIndex(msgspec.Struct, frozen=True):
    """`weights` maps tensors to names of files beside the index."""

    weights: dict[str, str]
    total_size: int | None
    size: int
    notes: tuple[Note, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """The shards, each once, in order of their names."""
        return tuple(sorted(set(self.weights.values())))


def is_index_name(path: str) -> bool:
    """Whether a file is called as an index of shards is."""
    return path.endswith(SUFFIX)


def read_index(path: str) -> ShardIndex:
    """The index at `path`. Raises InputError where it is none, or names a file that is not beside it."""
    with FileBytes(path) as data:
        if data.size > _MAX_BYTES:
            raise InputError(f"cannot read {path}: an index of {data.size:,} bytes")
        try:
            return _checked(parse(data.read(0, data.size)), data.size)
        except InputError as error:
            raise InputError(f"cannot read {path}: {error.message}", hint=error.hint) from error


def check(path: str, index: ShardIndex, files: Sequence[TensorFile]) -> TensorFile:
    """The index as a record without tensors, whose notes say where it and the shards (`files`) disagree."""
    beside = {os.path.basename(f.path): f for f in files if os.path.dirname(f.path) == os.path.dirname(path)}
    notes = [*index.notes, *_missing(index, beside), *_doubled(index, beside), *_total(index, beside)]
    return TensorFile(
        kind="shard index", path=path, size=index.size, tensors=(), storages=(),
        regions=(Region(0, index.size, "header"),), notes=tuple(notes),
    )  # fmt: skip


def _checked(value: object, size: int) -> ShardIndex:
    fields = dict(value) if isinstance(value, Pairs) else {}
    weights = fields.get("weight_map")
    if not isinstance(weights, Pairs) or not all(isinstance(file, str) for _, file in weights):
        raise InputError("no index of shards: `weight_map` from tensors to files is missing")
    if len(weights) > _MAX_WEIGHTS:
        raise InputError(f"an index of {len(weights):,} tensors")
    for file in {file for _, file in weights}:
        # Names of files beside the index, never paths: an index must not choose what else is opened.
        if not file or file != os.path.basename(file) or file in (".", "..") or "\0" in file or "\\" in file:
            raise InputError(f"the index names {file[:80]!r}, which is no file beside it")
    index = ShardIndex(dict(weights), _total_size(fields.get("metadata")), size, _twice(weights))
    if len(index.files) > _MAX_SHARDS:
        raise InputError(f"an index of {len(index.files):,} shards")
    return index


def _total_size(metadata: object) -> int | None:
    size = dict(metadata).get("total_size") if isinstance(metadata, Pairs) else None
    return int(size) if isinstance(size, int | float) and 0 <= size < 1 << 63 else None


def _twice(weights: Pairs) -> tuple[Note, ...]:
    if len(dict(weights)) == len(weights):
        return ()
    return (Note("duplicate-name", "warning", "a tensor stands twice in the index: its last file counts"),)


def _missing(index: ShardIndex, beside: dict[str, TensorFile]) -> Iterator[Note]:
    counts = Counter(index.weights.values())
    gone = [file for file in index.files if file not in beside]
    for file in gone[:_MAX_NAMED]:
        yield Note("missing-shard", "error", f"the shard is not there, with {counts[file]:,} tensors", file)
    if len(gone) > _MAX_NAMED:
        yield Note("missing-shard", "error", f"{len(gone) - _MAX_NAMED:,} more shards are not there")
    held = {name: {tensor.name for tensor in found.tensors} for name, found in beside.items()}
    absent = [t for t, file in index.weights.items() if file in held and t not in held[file]]
    yield from _each("missing-tensor", "error", "the index places it in {}, which does not hold it", index, absent)
    extra = [t.name for f in index.files if f in beside for t in beside[f].tensors if t.name not in index.weights]
    for name in extra[:_MAX_NAMED]:
        yield Note("unindexed-tensor", "warning", "a shard holds it, the index does not name it", name)
    yield from _more("unindexed-tensor", "warning", extra)


def _doubled(index: ShardIndex, beside: dict[str, TensorFile]) -> Iterator[Note]:
    seen, twice = dict[str, str](), list[str]()
    for file in index.files:
        for name in {tensor.name for tensor in beside[file].tensors} if file in beside else ():
            if seen.setdefault(name, file) != file:
                twice.append(name)
    yield from _each("doubled-tensor", "warning", "more than one shard holds it; the index takes {}", index, twice)


def _each(code: str, severity: Severity, text: str, index: ShardIndex, names: list[str]) -> Iterator[Note]:
    for name in names[:_MAX_NAMED]:
        yield Note(code, severity, text.format(index.weights.get(name, "none")), name)
    yield from _more(code, severity, names)


def _more(code: str, severity: Severity, names: list[str]) -> Iterator[Note]:
    if len(names) > _MAX_NAMED:
        yield Note(code, severity, f"{len(names) - _MAX_NAMED:,} more tensors like these")


def _total(index: ShardIndex, beside: dict[str, TensorFile]) -> Iterator[Note]:
    held = sum(tensor.nbytes for file in index.files if file in beside for tensor in beside[file].tensors)
    complete = all(file in beside for file in index.files)
    if complete and index.total_size is not None and held != index.total_size:
        yield Note("total-size", "info", f"the index says {index.total_size:,} B in all, the shards hold {held:,} B")
