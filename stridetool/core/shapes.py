"""Sizes and dimension numbers: what can be said before any stride is known.

Wrapping of negative dimensions, inference of -1, the strides that a fresh tensor gets. The error texts are those of
torch 2.13; `core/layout.py` builds the view algebra on these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from stridetool.errors import DimensionError, TensorError

Ints = tuple[int, ...]

MAX_ELEMENTS = 2**63 - 1
"""Sizes are 64-bit in torch: a tensor of more elements is refused there, and so here."""

_CHANNELS_LAST_ORDER = {"channels_last": (1, 3, 2, 0), "channels_last_3d": (1, 4, 3, 2, 0)}


def wrap_dim(dim: int, ndim: int, *, scalar: bool = True) -> int:
    """`dim` as a number in [0, ndim); a 0-d tensor takes -1 and 0, unless `scalar` is False.

    Raises DimensionError in torch's words.
    """
    if 0 <= dim < ndim:
        return dim
    if -ndim <= dim < 0:
        return dim + ndim
    if ndim == 0:
        if not scalar:
            raise DimensionError(f"Dimension specified as {dim} but tensor has no dimensions")
        if dim in (-1, 0):
            return 0
    low, high = (-ndim, ndim - 1) if ndim else (-1, 0)
    raise DimensionError(
        f"Dimension out of range (expected to be in range of [{low}, {high}], but got {dim})",
        hint=f"the tensor has {ndim} dimension{'' if ndim == 1 else 's'}",
    )


def wrap_unique_dims(dims: Iterable[int], ndim: int) -> list[int]:
    """Each dimension wrapped, in the order given; TensorError when one comes twice."""
    wrapped: list[int] = []
    for dim in dims:
        d = wrap_dim(dim, ndim)
        if d in wrapped:
            raise TensorError(f"dim {d} appears multiple times in the list of dims")
        wrapped.append(d)
    return wrapped


def checked_numel(sizes: Sequence[int]) -> int:
    """The product of `sizes`; TensorError when a size is negative or the product needs more than 63 bits."""
    numel = prod(sizes)
    if numel > MAX_ELEMENTS or min(sizes, default=0) < 0:
        raise TensorError("numel: integer multiplication overflow")
    return numel


def infer_shape(shape: Sequence[int], numel: int) -> Ints:
    """`shape` with its -1, if any, replaced by what makes the product `numel`.

    Raises TensorError, with torch's texts and in torch's order of checks.
    """
    if prod(shape) == numel and (not shape or min(shape) >= 0):
        return tuple(shape)
    free = -1
    for i, size in enumerate(shape):
        if size == -1:
            if free >= 0:
                raise TensorError("only one dimension can be inferred")
            free = i
        elif size < 0:
            raise TensorError(f"invalid shape dimension {size} at index {i} of shape {list(shape)}")
    rest = -prod(shape) if free >= 0 else prod(shape)
    if free < 0 or (rest != numel and (rest <= 0 or numel % rest)):
        beside = " beside -1" if free >= 0 else ""
        product = rest if rest <= MAX_ELEMENTS else "more than 2^63"  # Python refuses to print thousands of digits
        raise TensorError(
            f"shape '{list(shape)}' is invalid for input of size {numel}",
            hint=f"the sizes{beside} multiply to {product}, the tensor has {numel} elements",
        )
    if rest == 0:
        raise TensorError(
            f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified dimension size -1 "
            "can be any value and is ambiguous"
        )
    return (*shape[:free], numel // rest, *shape[free + 1 :])


def flatten_sizes(sizes: Ints, start_dim: int, end_dim: int) -> Ints:
    """`sizes` with the dimensions from `start_dim` to `end_dim` as one; a 0-d tensor becomes (1,)."""
    start, end = wrap_dim(start_dim, len(sizes)), wrap_dim(end_dim, len(sizes))
    if start > end:
        raise TensorError("flatten() has invalid args: start_dim cannot come after end_dim")
    return (*sizes[:start], prod(sizes[start : end + 1]), *sizes[end + 1 :])


def unflatten_sizes(sizes: Ints, dim: int, parts: Sequence[int]) -> Ints:
    """`sizes` with one dimension given as `parts`, which may hold one -1."""
    if not parts:
        raise TensorError("unflatten: sizes must be non-empty")
    dim = wrap_dim(dim, len(sizes))
    try:
        wrap_dim(dim, len(sizes), scalar=False)
        inferred = infer_shape(parts, sizes[dim])
    except (TensorError, DimensionError) as error:
        if "is invalid for input of size" not in error.message:
            raise TensorError(f"unflatten got an unexpected error:\n{error.message}") from error
        raise TensorError(
            f"unflatten: Provided sizes {list(parts)} don't multiply up to the size of dim {dim} ({sizes[dim]}) in "
            "the input tensor"
        ) from error
    return (*sizes[:dim], *inferred, *sizes[dim + 1 :])


def permute_order(dims: Sequence[int], ndim: int) -> Sequence[int]:
    """`dims` wrapped; TensorError unless they name each of `ndim` dimensions once."""
    if sorted(dims) == list(range(ndim)):
        return dims
    if len(dims) != ndim:
        raise TensorError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {ndim} is not equal to len(dims) = {len(dims)}"
        )
    order: list[int] = []
    for dim in dims:
        d = wrap_dim(dim, ndim)
        if d in order:
            raise TensorError("permute(): duplicate dims are not allowed.")
        order.append(d)
    return order


def movedim_order(source: Sequence[int], destination: Sequence[int], ndim: int) -> list[int]:
    """The permutation that brings `source` to the places `destination` and keeps the order of the others."""
    if len(source) != len(destination):
        raise TensorError(
            f"movedim: Invalid source or destination dims: source ({list(source)} dims) should contain the same "
            f"number of dims as destination ({list(destination)} dims)"
        )
    moved = [wrap_dim(d, ndim) for d in source]
    places = [wrap_dim(d, ndim) for d in destination]
    for name, given, wrapped in (("source", source, moved), ("destination", destination, places)):
        if len(set(wrapped)) != len(wrapped):
            raise TensorError(f"movedim: repeated dim in `{name}` ({list(given)})")
    target = dict(zip(places, moved, strict=True))
    others = iter([d for d in range(ndim) if d not in moved])
    return [target[d] if d in target else next(others) for d in range(ndim)]


def contiguous_strides(sizes: Sequence[int]) -> Ints:
    """C order. A size of 0 counts as 1 in the running product, as in torch: (2, 0, 3) gives (3, 3, 1)."""
    strides = []
    step = 1
    for size in reversed(sizes):
        strides.append(step)
        step *= size or 1
    strides.reverse()
    return tuple(strides)


def channels_last_order(ndim: int, memory_format: str) -> Ints:
    """The dimensions from the innermost out; TensorError unless `ndim` is the rank of the format."""
    order = _CHANNELS_LAST_ORDER[memory_format]
    if len(order) != ndim:
        raise TensorError(f"required rank {len(order)} tensor to use {memory_format} format")
    return order


def format_strides(sizes: Sequence[int], memory_format: str = "contiguous_format") -> Ints:
    """Strides of a fresh tensor; channels-last ones let a size of 0 zero all strides outside it, as torch does."""
    if memory_format == "contiguous_format":
        return contiguous_strides(sizes)
    strides = [1] * len(sizes)
    step = 1
    for d in channels_last_order(len(sizes), memory_format):
        strides[d] = step
        step *= sizes[d]
    return tuple(strides)
