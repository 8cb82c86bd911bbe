"""GGUF, the format of llama.cpp: header, metadata skipped by length, and the table of tensors with its alignment.

Rules: `gguf.h` and the format's description (versions 1 to 3, little-endian; version 3 also big-endian).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from stridetool.core.layout import Layout
from stridetool.core.tensor_file import FileStorage, FileTensor, Note, Region, TensorFile
from stridetool.errors import InputError
from stridetool.sources.detect import GGUF_MAGIC
from stridetool.sources.file_bytes import Bytes

MAX_TENSORS = 100_000
_MAX_DIMS = 4
_MAX_NAME = 1 << 16
_MAX_METADATA = 1 << 17
_MAX_STRINGS = 1_000_000  # in all arrays; a vocabulary has some hundred thousand
_MAX_HEADER = 64 << 20
_CHUNK = 1 << 18
_DEFAULT_ALIGNMENT = 32


class _Type(NamedTuple):
    name: str
    block: int  # elements in a block
    nbytes: int  # bytes of a block


_TYPES = {
    0: _Type("float32", 1, 4), 1: _Type("float16", 1, 2), 2: _Type("q4_0", 32, 18), 3: _Type("q4_1", 32, 20),
    6: _Type("q5_0", 32, 22), 7: _Type("q5_1", 32, 24), 8: _Type("q8_0", 32, 34), 9: _Type("q8_1", 32, 36),
    10: _Type("q2_K", 256, 84), 11: _Type("q3_K", 256, 110), 12: _Type("q4_K", 256, 144), 13: _Type("q5_K", 256, 176),
    14: _Type("q6_K", 256, 210), 15: _Type("q8_K", 256, 292), 16: _Type("iq2_xxs", 256, 66),
    17: _Type("iq2_xs", 256, 74), 18: _Type("iq3_xxs", 256, 98), 19: _Type("iq1_s", 256, 50),
    20: _Type("iq4_nl", 32, 18), 21: _Type("iq3_s", 256, 110), 22: _Type("iq2_s", 256, 82),
    23: _Type("iq4_xs", 256, 136), 24: _Type("int8", 1, 1), 25: _Type("int16", 1, 2), 26: _Type("int32", 1, 4),
    27: _Type("int64", 1, 8), 28: _Type("float64", 1, 8), 29: _Type("iq1_m", 256, 56), 30: _Type("bfloat16", 1, 2),
    34: _Type("tq1_0", 256, 54), 35: _Type("tq2_0", 256, 66), 39: _Type("mxfp4", 32, 17),
}  # fmt: skip
_VALUE_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_UINT32, _STRING, _ARRAY = 4, 8, 9


class _Info(NamedTuple):
    name: str
    dims: tuple[int, ...]  # the fastest first
    type: _Type
    offset: int


class _Cursor:
    """A place in the header that moves on; reads are buffered."""

    def __init__(self, data: Bytes) -> None:
        self._data, self._chunk, self._start = data, b"", 0
        self.position = 0
        self.strings_left = _MAX_STRINGS
        self.order = "<"
        self.length = "Q"  # version 1 counts in 32 bits

    def take(self, count: int) -> bytes:
        at = self.position - self._start
        if at < 0 or at + count > len(self._chunk):
            self._start, at = self.position, 0
            self._chunk = self._data.read(self.position, min(max(count, _CHUNK), self._data.size - self.position))
            if count > len(self._chunk):
                raise InputError(f"the file ends at byte {self._data.size:,}, inside its header")
        self._advance(count)
        return self._chunk[at : at + count]

    def skip(self, count: int) -> None:
        if count > self._data.size - self.position:
            raise InputError(f"a value of {count:,} bytes at byte {self.position:,}: the file is shorter")
        self._advance(count)

    def _advance(self, count: int) -> None:
        self.position += count
        if self.position > _MAX_HEADER:
            raise InputError(f"a header of more than {_MAX_HEADER:,} bytes")

    def integer(self, code: str) -> int:
        layout = self.order + code
        value: int = struct.unpack(layout, self.take(struct.calcsize(layout)))[0]
        return value

    def text(self) -> str:
        length = self.integer(self.length)
        if length > _MAX_NAME:
            raise InputError(f"a name of {length:,} bytes at byte {self.position:,}")
        return self.take(length).decode("utf-8", "backslashreplace")


def read_gguf(data: Bytes, path: str) -> TensorFile:
    """A whole file. Raises InputError where the header breaks a rule, or a tensor lies outside the file."""
    cursor = _Cursor(data)
    tensor_count, alignment = _read_metadata(cursor)
    infos = _infos(cursor, tensor_count)
    start = -(-cursor.position // alignment) * alignment
    notes = [note for info in infos if (note := _unaligned(info, alignment))]
    storages = tuple(_storage(info, start, data.size) for info in infos)
    regions = [Region(0, cursor.position, "header")]
    if infos and start > cursor.position:
        regions.append(Region(cursor.position, min(start, data.size), "padding"))
    regions += [Region(s.file_offset or 0, (s.file_offset or 0) + s.nbytes, "data") for s in storages]
    return TensorFile(
        kind="gguf", path=path, size=data.size, tensors=tuple(_tensor(info) for info in infos), storages=storages,
        regions=tuple(regions), notes=tuple(notes),
    )  # fmt: skip


def _read_metadata(cursor: _Cursor) -> tuple[int, int]:
    """(tensors, alignment), with the cursor behind the metadata."""
    if cursor.take(4) != GGUF_MAGIC:
        raise InputError("no GGUF file: the magic is missing")
    version = int.from_bytes(cursor.take(4), "little")
    if version & 0xFFFF == 0:
        cursor.order, version = ">", version >> 24
    if not 1 <= version <= 3:
        raise InputError(f"version {version} of GGUF is not known")
    cursor.length = "I" if version == 1 else "Q"
    tensors, values = cursor.integer(cursor.length), cursor.integer(cursor.length)
    if tensors > MAX_TENSORS or values > _MAX_METADATA:
        raise InputError(f"the header claims {tensors:,} tensors and {values:,} values")
    alignment = _DEFAULT_ALIGNMENT
    for _ in range(values):
        key, kind = cursor.text(), cursor.integer("I")
        if key == "general.alignment" and kind == _UINT32:
            alignment = cursor.integer("I")
        else:
            _skip_value(cursor, kind)
    if not alignment or alignment % 8 or alignment > 1 << 20:
        raise InputError(f"an alignment of {alignment:,} bytes")
    return tensors, alignment


def _skip_value(cursor: _Cursor, kind: int) -> None:
    if kind in _VALUE_BYTES:
        cursor.skip(_VALUE_BYTES[kind])
    elif kind == _STRING:
        cursor.skip(cursor.integer(cursor.length))
    elif kind == _ARRAY:
        _skip_array(cursor)
    else:
        raise InputError(f"a value of type {kind} at byte {cursor.position:,}")


def _skip_array(cursor: _Cursor) -> None:
    kind, count = cursor.integer("I"), cursor.integer(cursor.length)
    if kind in _VALUE_BYTES:
        cursor.skip(count * _VALUE_BYTES[kind])
    elif kind == _STRING and count <= cursor.strings_left:
        cursor.strings_left -= count
        for _ in range(count):
            cursor.skip(cursor.integer(cursor.length))
    else:
        raise InputError(f"an array of {count:,} values of type {kind} at byte {cursor.position:,}")


def _infos(cursor: _Cursor, count: int) -> list[_Info]:
    infos = list[_Info]()
    for _ in range(count):
        name, rank = cursor.text(), cursor.integer("I")
        if rank > _MAX_DIMS:
            raise InputError(f"tensor `{name}` has {rank:,} dimensions, GGUF allows {_MAX_DIMS}")
        dims = tuple(cursor.integer(cursor.length) for _ in range(rank))
        type_ = _TYPES.get(code := cursor.integer("I"))
        if type_ is None:
            raise InputError(f"tensor `{name}` is of type {code}, which is not known")
        infos.append(_Info(name, dims, type_, cursor.integer("Q")))
    if len({info.name for info in infos}) != len(infos):
        raise InputError("two tensors have the same name")
    return infos


def _nbytes(info: _Info) -> int:
    elements = 1
    for size in info.dims:
        elements *= size
    if elements >= 1 << 63:
        raise InputError(f"tensor `{info.name}`: the sizes overflow 63 bits")
    if (info.dims[0] if info.dims else 1) % info.type.block:
        raise InputError(f"tensor `{info.name}`: rows of {info.dims[0]:,} are no whole blocks of {info.type.block}")
    return elements // info.type.block * info.type.nbytes


def _tensor(info: _Info) -> FileTensor:
    return FileTensor(
        name=info.name, dtype=info.type.name, itemsize=info.type.nbytes if info.type.block == 1 else 0,
        nbytes=_nbytes(info), layout=Layout.contiguous(info.dims[::-1]), storage=info.name,
    )  # fmt: skip


def _storage(info: _Info, start: int, size: int) -> FileStorage:
    nbytes, place = _nbytes(info), start + info.offset
    if place + nbytes > size:
        raise InputError(f"tensor `{info.name}` claims [{place:,}, {place + nbytes:,}), the file ends at {size:,}")
    return FileStorage(key=info.name, nbytes=nbytes, stored_bytes=nbytes, file_offset=place)


def _unaligned(info: _Info, alignment: int) -> Note | None:
    if info.offset % alignment == 0:
        return None
    return Note(
        "misaligned", "warning", f"offset {info.offset:,} is no multiple of the file's alignment, {alignment}",
        info.name, "llama.cpp refuses the file: convert it again",
    )  # fmt: skip
