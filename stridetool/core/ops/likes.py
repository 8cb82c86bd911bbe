"""Operators that make a tensor in the likeness of another: its sizes, its type, its device, its order in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stridetool.core.dispatch import operator
from stridetool.core.ops.copies import layout_like
from stridetool.core.ops.factories import empty, empty_tensor, fill, full, made, ones, options_of, zeros
from stridetool.core.options import TensorOptions
from stridetool.core.tensor import Tensor


def _like(x: Tensor, keywords: dict[str, Any]) -> tuple[Tensor, TensorOptions]:
    options = TensorOptions(x._dtype, x.device).merge_in(options_of(None, keywords))
    layout = layout_like(x, options.memory_format_)
    return empty_tensor(layout, options.dtype(), options.device()), options


@operator(method=False)
def empty_like(input: Tensor, **keywords: Any) -> Tensor:
    """Uninitialised, with the sizes, type, device and order of another tensor."""
    return made(*_like(input, keywords))


@operator(method=False)
def zeros_like(input: Tensor, **keywords: Any) -> Tensor:
    """As `empty_like`, all elements 0."""
    return full_like(input, 0, **keywords)


@operator(method=False)
def ones_like(input: Tensor, **keywords: Any) -> Tensor:
    """As `empty_like`, all elements 1."""
    return full_like(input, 1, **keywords)


@operator(method=False)
def full_like(input: Tensor, fill_value: Any, **keywords: Any) -> Tensor:
    """As `empty_like`, all elements `fill_value`."""
    out, options = _like(input, keywords)
    return made(fill(out, fill_value), options)


@operator()
def new_empty(self: Tensor, *size: Any, **keywords: Any) -> Tensor:
    """As `empty`, with the type and device of this tensor."""
    return empty(*size, **_with_type_of(self, keywords))


@operator()
def new_zeros(self: Tensor, *size: Any, **keywords: Any) -> Tensor:
    """As `zeros`, with the type and device of this tensor."""
    return zeros(*size, **_with_type_of(self, keywords))


@operator()
def new_ones(self: Tensor, *size: Any, **keywords: Any) -> Tensor:
    """As `ones`, with the type and device of this tensor."""
    return ones(*size, **_with_type_of(self, keywords))


@operator()
def new_full(self: Tensor, size: Sequence[int], fill_value: Any, **keywords: Any) -> Tensor:
    """As `full`, with the type and device of this tensor."""
    return full(size, fill_value, **_with_type_of(self, keywords))


def _with_type_of(x: Tensor, keywords: dict[str, Any]) -> dict[str, Any]:
    return {"dtype": x._dtype, "device": x.device, **{k: v for k, v in keywords.items() if v is not None}}
