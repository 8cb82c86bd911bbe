"""Operators that make tensors from nothing, from numbers, or in the likeness of another tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from stridetool.core import numeric
from stridetool.core.autograd import wanting_grad
from stridetool.core.dispatch import operator
from stridetool.core.drivers.device import Device
from stridetool.core.dtype import BY_NUMPY, DType, int64
from stridetool.core.elements import clear, write
from stridetool.core.grad_mode import is_inference_mode_enabled
from stridetool.core.layout import Layout
from stridetool.core.ops.arguments import ints
from stridetool.core.ops.numbers import array_of_numbers, checked_number
from stridetool.core.options import (
    TensorOptions,
    as_device,
    as_memory_format,
    get_default_device,
    get_default_dtype,
    infer_dtype,
    preserve_format,
)
from stridetool.core.shapes import MAX_ELEMENTS, checked_numel
from stridetool.core.storage import Storage, allocate
from stridetool.core.tensor import Tensor, make_tensor
from stridetool.errors import ArgumentTypeError, TensorError, UnsupportedError


def empty_tensor(layout: Layout, dtype: DType, device: Device) -> Tensor:
    """Uninitialised memory that is just large enough for `layout`."""
    nbytes = layout.reach()[1] * dtype.itemsize if layout.numel else 0
    out = make_tensor(Storage(allocate(nbytes, _indexed(device))), layout, dtype)
    if is_inference_mode_enabled():
        out._version_counter = None
    return out


def _indexed(device: Device) -> Device:
    return Device("cuda", 0) if device.type == "cuda" and device.index is None else device


def options_of(options: TensorOptions | None, keywords: dict[str, Any]) -> TensorOptions:
    """Options from keywords (dtype, device, memory_format, requires_grad, pin_memory), over those given whole."""
    merged = options or TensorOptions()
    dtype, device = keywords.pop("dtype", None), keywords.pop("device", None)
    memory_format = keywords.pop("memory_format", None)
    if dtype is not None and not isinstance(dtype, DType):
        raise ArgumentTypeError(f"argument 'dtype' must be stridetool.dtype, not {type(dtype).__name__}")
    said = TensorOptions(
        dtype,
        None if device is None else as_device(device),
        None if memory_format is None else as_memory_format(memory_format),
        keywords.pop("requires_grad", None),
        keywords.pop("pin_memory", None),
    )
    keywords.pop("layout", None)
    if keywords:
        raise TypeError(f"got an unexpected keyword argument '{next(iter(keywords))}'")
    return merged.merge_in(said)


def made(out: Tensor, options: TensorOptions) -> Tensor:
    """The finished tensor, with the requires_grad that the options ask for."""
    return wanting_grad(out) if options.requires_grad_ else out


def refuse_negative(name: str, sizes: Sequence[int]) -> None:
    """Raise TensorError, in the words that torch has for the operator `name`, when a size is below 0."""
    for n in sizes:
        if n < 0 and name in ("zeros", "ones", "full"):
            raise TensorError(f"{name}: Dimension size must be non-negative.")
        if n < 0:
            raise TensorError(f"Trying to create tensor with negative dimension {n}: {list(sizes)}")


def _fresh(name: str, size: Sequence[Any], options: TensorOptions) -> Tensor:
    sizes = ints(name, size)
    refuse_negative(name, sizes)
    checked_numel(sizes)
    memory_format = options.memory_format()
    if memory_format == preserve_format:
        raise TensorError("unsupported memory format Preserve")
    return empty_tensor(Layout.contiguous(sizes, memory_format), options.dtype(), options.device())


def _split_options(size: tuple[Any, ...]) -> tuple[tuple[Any, ...], TensorOptions | None]:
    """Trailing TensorOptions apart from the sizes before them."""
    return (size[:-1], size[-1]) if size and isinstance(size[-1], TensorOptions) else (size, None)


def _sized(name: str, size: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Tensor, TensorOptions]:
    if "size" in keywords:
        size = (keywords.pop("size"),)
    size, given = _split_options(size)
    if not size:
        raise ArgumentTypeError(f'{name}() missing 1 required positional arguments: "size"')
    options = options_of(given, keywords)
    return _fresh(name, size, options), options


@operator(method=False, keys="none")
def empty(*size: Any, **keywords: Any) -> Tensor:
    """Uninitialised memory."""
    return made(*_sized("empty", size, keywords))


@operator(method=False, keys="none")
def zeros(*size: Any, **keywords: Any) -> Tensor:
    """All elements 0."""
    out, options = _sized("zeros", size, keywords)
    return made(fill(out, 0), options)


@operator(method=False, keys="none")
def ones(*size: Any, **keywords: Any) -> Tensor:
    """All elements 1."""
    out, options = _sized("ones", size, keywords)
    return made(fill(out, 1), options)


@operator(method=False, keys="none")
def full(size: Sequence[int], fill_value: Any, **keywords: Any) -> Tensor:
    """All elements `fill_value`, whose type decides when no dtype is said."""
    options = options_of(None, keywords)
    if options.dtype_opt() is None:
        options = options.dtype(infer_dtype(fill_value))
    return made(fill(_fresh("full", (size,), options), fill_value), options)


def fill(x: Tensor, value: Any) -> Tensor:
    """Store one number everywhere."""
    if not x.is_meta and x._layout.numel:
        import numpy as np

        values = np.asarray(checked_number(value, x._dtype))
        converted = numeric.convert(values, BY_NUMPY[values.dtype.name], x._dtype)
        if x.device.type == "cuda" and not any(converted.tobytes()) and _is_plain(x):
            clear(x)  # a simulated device needs no memory of the host for zeros
        else:
            write(x, converted)
    return x


def _is_plain(x: Tensor) -> bool:
    return not x._bits and x._layout.is_non_overlapping_and_dense()


@operator(method=False, keys="none")
def arange(*bounds: Any, **keywords: Any) -> Tensor:
    """`arange(end)`, `arange(start, end, step)`: int64 when all are integers, else the default type."""
    for name in ("start", "end", "step"):
        if name in keywords:
            bounds = (*bounds, keywords.pop(name))
    start, end, step = _bounds(bounds)
    options = options_of(None, keywords)
    if options.dtype_opt() is None:
        whole = all(isinstance(value, int) for value in (start, end, step))
        options = options.dtype(int64 if whole else get_default_dtype())
    if step == 0:
        raise TensorError("step must be nonzero")
    if options.dtype().kind in "bc":
        raise UnsupportedError(f"\"arange_cpu\" not implemented for '{options.dtype().scalar_name}'")
    if (end - start) * step < 0:
        raise TensorError("upper bound and lower bound inconsistent with step sign")
    count = _count(start, end, step)
    if options.dtype().kind in "ui":  # torch counts in int64 with whole numbers, in smaller types with the given ones
        start, end, step = int(start), int(end), int(step)
        count = _count(start, end, step) if options.dtype() is int64 else count
    return made(_counted(count, start, step, options), options)


def _bounds(bounds: Sequence[Any]) -> tuple[Any, Any, Any]:
    if len(bounds) == 1:
        return 0, bounds[0], 1
    return (*bounds, 1) if len(bounds) == 2 else (bounds[0], bounds[1], bounds[2])


def _count(start: Any, end: Any, step: Any) -> int:
    if all(isinstance(value, int) for value in (start, end, step)):
        return int(-((start - end) // step))
    count: int = math.ceil((end - start) / step)
    if count > MAX_ELEMENTS:
        raise TensorError("invalid size, possible overflow?")
    return count


def _counted(count: int, start: Any, step: Any, options: TensorOptions) -> Tensor:
    out = _fresh("arange", (count,), options)
    if not out.is_meta and count:
        import numpy as np

        steps = np.arange(count, dtype="i8" if isinstance(start, int) and isinstance(step, int) else "f8")
        values = start + steps * step
        source = BY_NUMPY[values.dtype.name]
        write(out, numeric.convert(values, source, out._dtype))
    return out


@operator(method=False, keys="none")
def rand(*size: Any, **keywords: Any) -> Tensor:
    """Uniform numbers from [0, 1); `manual_seed` makes them the same each time, not the same as torch's."""
    return _random("rand", "random", size, keywords)


@operator(method=False, keys="none")
def randn(*size: Any, **keywords: Any) -> Tensor:
    """Normally distributed numbers."""
    return _random("randn", "standard_normal", size, keywords)


_generator: list[Any] = []


def manual_seed(seed: int) -> None:
    """Start the random numbers anew."""
    import numpy as np

    _generator[:] = [np.random.default_rng(seed)]


def _random(name: str, method: str, size: tuple[Any, ...], keywords: dict[str, Any]) -> Tensor:
    if not _generator:
        manual_seed(0)
    keywords.pop("generator", None)
    out, options = _sized(name, size, keywords)
    if not out.is_meta:
        values = getattr(_generator[0], method)(out._layout.sizes)
        write(out, numeric.convert(values, BY_NUMPY["float64"], out._dtype))
    return made(out, options)


@operator(method=False, keys="none")
def empty_strided(size: Sequence[int], stride: Sequence[int], **keywords: Any) -> Tensor:
    """Uninitialised memory with any strides, as large as they reach."""
    options = options_of(None, keywords)
    sizes, strides = ints("empty_strided", size), ints("empty_strided", stride)
    if len(sizes) != len(strides):
        raise TensorError(
            f"dimensionality of sizes ({len(sizes)}) must match dimensionality of strides ({len(strides)})"
        )
    refuse_negative("empty_strided", sizes)
    if min(strides, default=0) < 0:
        raise TensorError(
            f"Storage size calculation overflowed with sizes={list(sizes)} and strides={list(strides)}",
            hint="torch has no negative strides; flip() makes a reversed copy",
        )
    return made(empty_tensor(Layout(sizes, strides), options.dtype(), options.device()), options)


@operator(method=False, keys="none")
def tensor(data: Any, **keywords: Any) -> Tensor:
    """A copy of numbers, nested lists, an array or a tensor; the type is inferred as torch does."""
    options = options_of(None, keywords)
    if isinstance(data, Tensor):
        out = data.detach().clone()
        return made(out.to(options.dtype_opt() or data.dtype, device=options.device_ or data.device), options)
    if not isinstance(data, list | tuple) and hasattr(data, "__array__"):
        from stridetool.core.interchange import from_array_copy

        return made(from_array_copy(data, options), options)
    return made(_from_numbers(data, options), options)


def _from_numbers(data: Any, options: TensorOptions) -> Tensor:
    values, target = array_of_numbers(data, options.dtype_opt())
    out = _fresh("tensor", (values.shape,), options.dtype(target))
    if not out.is_meta and out._layout.numel:
        write(out, numeric.convert(values, BY_NUMPY[values.dtype.name], target))
    return out


def legacy_tensor(*data: Any) -> Tensor:
    """`Tensor(2, 3)`: uninitialised; `Tensor([1, 2])`: these numbers; of the default type either way."""
    options = TensorOptions(get_default_dtype(), get_default_device())
    if len(data) == 1 and isinstance(data[0], Tensor):
        made: Tensor = data[0].alias()
        return made
    if len(data) == 1 and not isinstance(data[0], int):
        return _from_numbers(data[0], options)
    return _fresh("Tensor", data or (0,), options)
