"""The safetensors format: its header by its own rules, the tensors that it places, and what the reader lets through.

Rules: safetensors 0.8 (`SafeTensors::read_metadata`); where that reader accepts what the format's description
forbids (duplicate names, null metadata), the file is listed with a note.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from stridetool.core.layout import Layout
from stridetool.core.tensor_file import FileStorage, FileTensor, Note, Region, TensorFile
from stridetool.errors import InputError
from stridetool.sources.bounded_json import Pairs, parse
from stridetool.sources.file_bytes import Bytes

MAX_HEADER = 100_000_000  # the reference reader's own limit
MAX_TENSORS = 100_000
_MAX_TEXT = 24 << 20  # more text than that, without its padding, is no header of tensors
_MAX_NOTES = 20
_MAX_NAME = 1 << 16
_MAX_SIZE = (1 << 64) - 1


class _DType(NamedTuple):
    name: str
    bits: int


# Names are torch's; the sub-byte types have none there.
_DTYPES = {
    "BOOL": _DType("bool", 8),
    "F4": _DType("float4_e2m1fn", 4),
    "F6_E2M3": _DType("float6_e2m3fn", 6),
    "F6_E3M2": _DType("float6_e3m2fn", 6),
    "U8": _DType("uint8", 8),
    "I8": _DType("int8", 8),
    "F8_E5M2": _DType("float8_e5m2", 8),
    "F8_E4M3": _DType("float8_e4m3fn", 8),
    "F8_E8M0": _DType("float8_e8m0fnu", 8),
    "F8_E4M3FNUZ": _DType("float8_e4m3fnuz", 8),
    "F8_E5M2FNUZ": _DType("float8_e5m2fnuz", 8),
    "I16": _DType("int16", 16),
    "U16": _DType("uint16", 16),
    "F16": _DType("float16", 16),
    "BF16": _DType("bfloat16", 16),
    "I32": _DType("int32", 32),
    "U32": _DType("uint32", 32),
    "F32": _DType("float32", 32),
    "C64": _DType("complex64", 64),
    "F64": _DType("float64", 64),
    "I64": _DType("int64", 64),
    "U64": _DType("uint64", 64),
}
_FIELDS = ("dtype", "shape", "data_offsets")


class _Entry(NamedTuple):
    name: str
    dtype: _DType
    shape: tuple[int, ...]
    begin: int
    end: int


def read_safetensors(data: Bytes, path: str) -> TensorFile:
    """A whole file. Raises InputError where the header breaks a rule that the reference reader holds."""
    length = _header_length(data)
    header = parse(_header_text(data, length))
    entries, notes = _entries(header)
    start = 8 + length
    _check_places(entries, data.size - start)
    notes += _misaligned_in_data(entries, start)
    tensors = tuple(_tensor(entry) for entry in entries)
    storages = tuple(_storage(entry, start) for entry in entries)
    regions = [Region(0, start, "header")]
    regions += [Region(start + e.begin, start + e.end, "data") for e in entries]
    return TensorFile(
        kind="safetensors", path=path, size=data.size, tensors=tensors, storages=storages, regions=tuple(regions),
        notes=tuple(notes),
    )  # fmt: skip


def _header_length(data: Bytes) -> int:
    if data.size < 8:
        raise InputError("header too small: a file of safetensors begins with 8 bytes of length")
    length = int.from_bytes(data.read(0, 8), "little")
    if length > MAX_HEADER:
        raise InputError(f"header too large: it claims {length:,} bytes, the format allows {MAX_HEADER:,}")
    if 8 + length > data.size:
        raise InputError(f"the header claims {length:,} bytes, the file has {data.size - 8:,} more")
    return length


def _header_text(data: Bytes, length: int) -> bytes:
    text = data.read(8, length).rstrip(b" \t\r\n")
    if len(text) > _MAX_TEXT:
        raise InputError(f"header too large: {len(text):,} bytes of JSON; {_MAX_TEXT:,} are read")
    return text


def _entries(header: Any) -> tuple[list[_Entry], list[Note]]:
    if not isinstance(header, Pairs):
        raise InputError("the header is no JSON object")
    if len(header) > MAX_TENSORS:
        raise InputError(f"{len(header):,} entries in the header; at most {MAX_TENSORS:,} are read")
    notes, entries, metadata = [], dict[str, _Entry](), 0
    for name, value in header:
        if name == "__metadata__":
            metadata += 1
            notes += _check_metadata(value)
            continue
        if len(name) > _MAX_NAME:
            raise InputError(f"a tensor name of {len(name):,} characters")
        if name in entries:
            notes.append(_duplicate(name))
        entries[name] = _entry(name, value)
    if metadata > 1:
        raise InputError("duplicate field `__metadata__`")
    return list(entries.values()), notes


def _check_metadata(value: Any) -> list[Note]:
    if value is None:
        return [
            Note("metadata-null", "warning", "`__metadata__` is null: the format wants an object of strings, or none")
        ]
    if not isinstance(value, Pairs) or not all(isinstance(item, str) for _, item in value):
        raise InputError("`__metadata__` is no object of strings")
    return []


def _entry(name: str, value: Any) -> _Entry:
    where = f"tensor `{name}`"
    if not isinstance(value, Pairs):
        raise InputError(f"{where} is no JSON object")
    fields = dict(value)
    for field in _FIELDS:
        if field not in fields:
            raise InputError(f"{where}: missing field `{field}`")
    if len([key for key, _ in value if key in _FIELDS]) != len(_FIELDS):
        raise InputError(f"{where}: duplicate field")
    dtype = _DTYPES.get(fields["dtype"]) if isinstance(fields["dtype"], str) else None
    if dtype is None:
        raise InputError(f"{where}: unknown dtype {str(fields['dtype'])[:40]!r}")
    shape, offsets = fields["shape"], fields["data_offsets"]
    if not isinstance(shape, list) or not all(map(_is_size, shape)) or isinstance(shape, Pairs):
        raise InputError(f"{where}: shape is no list of sizes")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_size, offsets)):
        raise InputError(f"{where}: data_offsets are no pair [begin, end)")
    return _Entry(name, dtype, tuple(shape), offsets[0], offsets[1])


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MAX_SIZE


def _check_places(entries: list[_Entry], available: int) -> None:
    """Sorted by offset, the tensors must follow each other without gap or overlap, up to the end of the file."""
    expected = 0
    for entry in sorted(entries, key=lambda entry: (entry.begin, entry.end)):
        if entry.begin != expected or entry.end < entry.begin:
            raise InputError(
                f"invalid offset for tensor `{entry.name}`: it lies at [{entry.begin:,}, {entry.end:,}), "
                f"the next byte without a tensor is {expected:,}"
            )
        if _bits(entry) != 8 * (entry.end - entry.begin):
            raise InputError(
                f"tensor `{entry.name}` has {entry.end - entry.begin:,} bytes, its dtype and shape want "
                f"{_bits(entry) / 8:,.10g}"
            )
        expected = entry.end
    if expected != available:
        raise InputError(f"the tensors end at byte {expected:,} of the data, the file at {available:,}")


def _bits(entry: _Entry) -> int:
    """Multiplied in order, as the reference reader does: a 0 in time saves what would overflow."""
    product = 1
    for size in (*entry.shape, entry.dtype.bits):
        product *= size
        if product > _MAX_SIZE:
            raise InputError(f"tensor `{entry.name}`: overflow computing its size from dtype and shape")
    return product


def _tensor(entry: _Entry) -> FileTensor:
    whole = entry.dtype.bits % 8 == 0
    return FileTensor(
        name=entry.name, dtype=entry.dtype.name, itemsize=entry.dtype.bits // 8 if whole else 0,
        nbytes=entry.end - entry.begin, layout=Layout.contiguous(entry.shape), storage=entry.name,
    )  # fmt: skip


def _storage(entry: _Entry, start: int) -> FileStorage:
    nbytes = entry.end - entry.begin
    return FileStorage(key=entry.name, nbytes=nbytes, stored_bytes=nbytes, file_offset=start + entry.begin)


def _misaligned_in_data(entries: list[_Entry], start: int) -> list[Note]:
    """Tensors that a map of the file would align by luck, but a buffer of the data alone does not."""
    bad = [
        entry for entry in entries
        if entry.begin != entry.end and entry.begin % (entry.dtype.bits // 8 or 1) and not
        (start + entry.begin) % (entry.dtype.bits // 8)
    ]  # fmt: skip
    notes = [
        Note(
            "misaligned", "warning",
            f"offset {entry.begin:,} in the data is no multiple of its item size, {entry.dtype.bits // 8} B",
            entry.name, "save again with the tensors sorted by item size, the largest first",
        )
        for entry in bad[:_MAX_NOTES]
    ]  # fmt: skip
    if len(bad) > _MAX_NOTES:
        notes.append(Note("misaligned", "warning", f"{len(bad) - _MAX_NOTES:,} more tensors are misaligned"))
    return notes


def _duplicate(name: str) -> Note:
    return Note(
        "duplicate-name", "warning", "the name stands twice in the header: the reference reader takes the last", name,
        "the format forbids it, and readers may disagree: save the file again",
    )  # fmt: skip
