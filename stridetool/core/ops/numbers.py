"""Python numbers and nested lists of them as NumPy arrays, with torch's inference and torch's refusals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from stridetool.core.dtype import DType
from stridetool.core.options import infer_dtype
from stridetool.errors import ArgumentTypeError, ArgumentValueError, TensorError

_WIDE = {"b": "?", "i": "O", "f": "f8", "c": "c16"}


def array_of_numbers(data: Any, dtype: DType | None) -> tuple[Any, DType]:
    """The numbers in the widest type of their kind, and the type that the tensor shall have.

    Raises ArgumentTypeError or ArgumentValueError for ragged lists and for what is no number, TensorError for
    integers that the type cannot hold.
    """
    data = _plain(data)
    sizes = _sizes_of_first(data)
    numbers = list(_flattened(data, sizes, 0))
    source = infer_dtype(numbers)
    target = dtype or source
    if target.kind in "uif" and source.kind == "c":
        real = target.kind == "f"
        raise ArgumentTypeError(
            "must be real number, not complex" if real else "'complex' object cannot be interpreted as an integer"
        )
    values = np.array(numbers, dtype=_WIDE[source.kind]).reshape(sizes)
    return (_integers(values, numbers, target) if source.kind == "i" else values), target


def _plain(data: Any) -> Any:
    """Sequences as lists, tensors and NumPy scalars in them as Python numbers."""
    if isinstance(data, str) or not hasattr(data, "__getitem__"):
        return data
    if hasattr(data, "item") and not data.shape:
        return data.item()
    return [_plain(value) for value in data]


def _sizes_of_first(data: Any) -> tuple[int, ...]:
    """Sizes by the first entry of each list, as torch takes them."""
    sizes = []
    while isinstance(data, list):
        sizes.append(len(data))
        if not data:
            break
        data = data[0]
    if isinstance(data, str):
        if not sizes:
            raise ArgumentTypeError("new(): invalid data type 'str'")
        raise ArgumentValueError("too many dimensions 'str'")
    return tuple(sizes)


def _flattened(data: Any, sizes: tuple[int, ...], dim: int) -> Iterator[Any]:
    if dim == len(sizes):
        yield _number(data)
        return
    if not isinstance(data, list):
        raise ArgumentTypeError("not a sequence")
    if len(data) != sizes[dim]:
        raise ArgumentValueError(f"expected sequence of length {sizes[dim]} at dim {dim} (got {len(data)})")
    for value in data:
        yield from _flattened(value, sizes, dim + 1)


def _number(value: Any) -> Any:
    if isinstance(value, list):
        raise ArgumentTypeError("'list' object cannot be interpreted as an integer")
    if not isinstance(value, bool | int | float | complex):
        raise TensorError(f"Could not infer dtype of {type(value).__name__}")
    return value


def _integers(values: Any, numbers: list[int], target: DType) -> Any:
    """Python integers of any length as 64-bit ones, where the type can hold them."""
    low, high = min(numbers, default=0), max(numbers, default=0)
    if target.name == "uint64" and low >= 0 and high < 1 << 64:
        return values.astype("u8")
    if low < -(1 << 63) or high >= 1 << 63:
        raise ArgumentValueError("Overflow when unpacking long long")
    for number in (low, high):
        checked_number(number, target, target.name)
    return values.astype("i8")


def checked_number(value: Any, dtype: DType, name: str = "") -> Any:
    """`value` if it fits. Raises TensorError when `dtype` cannot hold it; unsigned types take negative numbers.

    `name` is what the message calls the type (by default C's name).
    """
    if dtype.kind in "ui" and isinstance(value, int | float) and not isinstance(value, bool):
        high = 1 << (dtype.itemsize * 8 - (dtype.kind == "i"))
        if not -high <= value < high:
            raise TensorError(f"value cannot be converted to type {name or dtype.name + '_t'} without overflow")
    return value
