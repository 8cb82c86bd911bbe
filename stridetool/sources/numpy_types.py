"""NumPy's type descriptors, as they stand in .npy headers: text like `str(dtype)`, item size, without NumPy."""

from __future__ import annotations

import re
import sys
from math import prod
from typing import Any

import msgspec

from stridetool.errors import InputError

_TYPE = re.compile(r"([<>|=]?)([?biufcSaUVOMm])(\d{0,9})(\[[0-9A-Za-z/]{1,20}\])?")
_NUMBERS = {
    **{f"i{n}": f"int{8 * n}" for n in (1, 2, 4, 8)},
    **{f"u{n}": f"uint{8 * n}" for n in (1, 2, 4, 8)},
    **{f"f{n}": f"float{8 * n}" for n in (2, 4, 8, 16)},
    **{f"c{n}": f"complex{8 * n}" for n in (8, 16, 32)},
    "b1": "bool",
}
_TIMES = {"M8": "datetime64", "m8": "timedelta64"}
_TIME_UNIT = re.compile(r"\[\d{0,9}(Y|M|W|D|h|m|s|ms|us|μs|ns|ps|fs|as|generic)(/\d{1,9})?\]")
_NATIVE = "<" if sys.byteorder == "little" else ">"
MAX_ITEM_BYTES = (1 << 31) - 1  # NumPy's own limit


class NumpyType(msgspec.Struct, frozen=True):
    """`text` is what `str(dtype)` says; `has_objects` means pickled Python objects in place of bytes."""

    text: str
    itemsize: int
    has_objects: bool = False
    swapped: bool = False  # holds numbers in the byte order that is not this machine's


class _Field(msgspec.Struct, frozen=True):
    name: str
    title: str | None
    offset: int
    type: NumpyType


def numpy_type(descr: Any) -> NumpyType:
    """The type that `descr` stands for, as `numpy.lib.format.descr_to_dtype`. Raises InputError where it is none."""
    if isinstance(descr, str):
        return _plain(descr)
    if isinstance(descr, tuple) and len(descr) == 2:
        return _subarray(numpy_type(descr[0]), descr[1])
    if isinstance(descr, list) and descr:
        return _structured(descr)
    raise InputError(f"descr is no type: {str(descr)[:60]!r}")


def _plain(descr: str) -> NumpyType:
    match = _TYPE.fullmatch(descr)
    if match is None:
        raise InputError(f"descr is no type: {descr[:60]!r}")
    order, kind, digits, unit = match.groups()
    order = _NATIVE if order in ("", "=") else order
    key = "b1" if kind == "?" else kind + digits
    swapped = order not in ("|", _NATIVE)
    if key in _NUMBERS and unit is None:
        size = int(key[1:])
        swapped = swapped and size > 1
        return NumpyType(f"{order}{key}" if swapped else _NUMBERS[key], size, swapped=swapped)
    if key in _TIMES and (unit is None or _TIME_UNIT.fullmatch(unit)):
        text = f"{order}{key}{unit or ''}" if swapped else f"{_TIMES[key]}{unit or ''}"
        return NumpyType(text, 8, swapped=swapped)
    if kind == "O" and digits in ("", "4", "8") and unit is None:
        return NumpyType("object", 8, has_objects=True)
    if kind in "SaUV" and unit is None:
        return _flexible("S" if kind == "a" else kind, int(digits or 0), "<" if order == "|" else order)
    raise InputError(f"descr is no type: {descr[:60]!r}")


def _flexible(kind: str, length: int, order: str) -> NumpyType:
    size = length * (4 if kind == "U" else 1)
    if size > MAX_ITEM_BYTES:
        raise InputError(f"items of {size:,} bytes: NumPy allows {MAX_ITEM_BYTES:,}")
    swapped = kind == "U" and order != _NATIVE
    return NumpyType(f"{order if kind == 'U' else '|'}{kind}{length}", size, swapped=swapped)


def _subarray(base: NumpyType, shape: Any) -> NumpyType:
    shape = (shape,) if _is_dimension(shape) else shape
    if not isinstance(shape, tuple) or not all(map(_is_dimension, shape)):
        raise InputError(f"a subarray of shape {str(shape)[:60]!r}")
    itemsize = base.itemsize * prod(shape)
    if itemsize > MAX_ITEM_BYTES:
        raise InputError(f"items of {itemsize:,} bytes: NumPy allows {MAX_ITEM_BYTES:,}")
    text = f"({_quoted(base)}, {shape})"
    return NumpyType(text, itemsize, base.has_objects, base.swapped)


def _structured(entries: list[Any]) -> NumpyType:
    fields, offset, padded = [], 0, False
    for entry in entries:
        name, title, type_ = _entry(entry)
        if name or not type_.text.startswith("|V"):
            fields.append(_Field(name, title, offset, type_))
        else:
            padded = True  # a field without a name is padding
        offset += type_.itemsize
    if offset > MAX_ITEM_BYTES:
        raise InputError(f"items of {offset:,} bytes: NumPy allows {MAX_ITEM_BYTES:,}")
    if len({field.name for field in fields}) != len(fields):
        raise InputError("descr names a field twice")
    return NumpyType(
        _padded_text(fields, offset) if padded else _packed_text(fields),
        offset,
        any(field.type.has_objects for field in fields),
        any(field.type.swapped for field in fields),
    )


def _entry(entry: Any) -> tuple[str, str | None, NumpyType]:
    if not isinstance(entry, tuple) or len(entry) not in (2, 3):
        raise InputError("a field of descr is no (name, type) or (name, type, shape)")
    title, name = entry[0] if isinstance(entry[0], tuple) and len(entry[0]) == 2 else (None, entry[0])
    if not isinstance(name, str) or not isinstance(title, str | None):
        raise InputError("a field of descr has no name")
    base = numpy_type(entry[1])
    return name, title, base if len(entry) == 2 else _subarray(base, entry[2])


def _packed_text(fields: list[_Field]) -> str:
    return f"[{', '.join(_field_text(field) for field in fields)}]"


def _field_text(field: _Field) -> str:
    name = repr(field.name) if field.title is None else f"({field.title!r}, {field.name!r})"
    return f"({name}, {field.type.text[1:] if field.type.text[0] == '(' else _quoted(field.type) + ')'}"


def _padded_text(fields: list[_Field], itemsize: int) -> str:
    names = [field.name for field in fields]
    formats = ", ".join(f.type.text if f.type.text[0] in "([{" else _quoted(f.type) for f in fields)
    offsets = [field.offset for field in fields]
    titles = [field.title for field in fields]
    more = f", 'titles': {titles}" if any(titles) else ""
    return f"{{'names': {names}, 'formats': [{formats}], 'offsets': {offsets}{more}, 'itemsize': {itemsize}}}"


def _quoted(type_: NumpyType) -> str:
    """The type as it stands inside a structured one: `'<f4'`, not `float32`."""
    text = type_.text
    if text[0] in "([{":
        return text
    for time, short in (("datetime64", "M8"), ("timedelta64", "m8")):
        text = text.replace(time, _NATIVE + short)
    return f"'{_SHORT.get(text, text).removeprefix('|')}'"


_SHORT = {text: ("" if key in ("i1", "u1") else _NATIVE) + key for key, text in _NUMBERS.items()}
_SHORT |= {"object": "O", "bool": "?"}


def _is_dimension(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_ITEM_BYTES
