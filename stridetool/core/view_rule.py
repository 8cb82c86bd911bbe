"""When can a tensor be seen under another shape or element size without a copy? torch's rules, and what is in the way.

Dimensions are merged from the last to the first into *runs*: a dimension joins the run inside it when its stride is
the run's length times the run's stride. Inside a run elements are evenly spaced, so a run may be split anyhow; a new
dimension that straddles the boundary of two runs makes the view impossible.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import msgspec

from stridetool.core.shapes import Ints, checked_numel, contiguous_strides
from stridetool.errors import TensorError


class Run(msgspec.Struct, frozen=True):
    """Neighbouring dimensions that act as one: `size` elements, each `stride` elements after the one before."""

    dims: Ints
    size: int
    stride: int


class Boundary(msgspec.Struct, frozen=True):
    """The place between dimension `outer_dim` and the next, where one run ends and another begins."""

    outer_dim: int
    stride_found: int
    stride_needed: int
    """The stride of `outer_dim` that would merge the two runs, in elements."""
    inner_numel: int
    """Elements of all dimensions inside the boundary: a new shape keeps it when a suffix of it multiplies to this."""
    new_dim: int
    """The dimension of the new shape that straddles the boundary."""


class ViewBlocker(msgspec.Struct, frozen=True):
    """Why a shape is no view: the runs there are, and the boundaries that the shape does not keep, innermost first.

    torch's own walk stops at the first of `boundaries`.
    """

    shape: Ints
    runs: tuple[Run, ...]
    boundaries: tuple[Boundary, ...]


class Runs(msgspec.Struct, frozen=True):
    """The elements as evenly spaced runs, outermost first, from `offset` on; no runs when there are no elements."""

    offset: int
    numel: int
    runs: tuple[Run, ...]

    @property
    def block_numel(self) -> int:
        """Length of the contiguous blocks: 1 when not even the innermost two elements are neighbours."""
        steps = self._steps()
        return steps[-1].size if steps and steps[-1].stride == 1 else min(self.numel, 1)

    @property
    def repeats(self) -> tuple[Run, ...]:
        """How the blocks repeat, outermost first."""
        steps = self._steps()
        return steps[:-1] if steps and steps[-1].stride == 1 else steps

    @property
    def kind(self) -> str:
        """`one` block, `uniform` (blocks at one constant distance) or `nested` (distances within distances)."""
        return ("one", "uniform")[len(self.repeats)] if len(self.repeats) < 2 else "nested"

    def _steps(self) -> tuple[Run, ...]:
        return tuple(run for run in self.runs if run.size != 1)


def merge_dims(sizes: Ints, strides: Ints) -> list[Run]:
    """The maximal runs, innermost first. A size of 1 never ends a run, but a last one sets the run's stride."""
    runs: list[Run] = []
    end = len(sizes)
    size, stride = 1, 0
    for d in range(len(sizes) - 1, -1, -1):
        if d == len(sizes) - 1:
            stride = strides[d]
        elif sizes[d] != 1 and strides[d] != size * stride:
            runs.append(Run(tuple(range(d + 1, end)), size, stride))
            end, size, stride = d + 1, 1, strides[d]
        size *= sizes[d]
    if sizes:
        runs.append(Run(tuple(range(end)), size, stride))
    return runs


def view_strides(sizes: Ints, strides: Ints, shape: Ints) -> Ints | None:
    """The strides of a view of that shape, or None. `shape` must have as many elements as `sizes`.

    A tensor without dimensions gives strides of 1; one without elements keeps its strides under its own shape and
    gets fresh ones under any other.
    """
    if not sizes:
        return (1,) * len(shape)
    if 0 in sizes:
        return strides if shape == sizes else contiguous_strides(shape)
    result = [0] * len(shape)
    new = len(shape)
    size, stride = 1, strides[-1]
    for d in range(len(sizes) - 1, -1, -1):
        size *= sizes[d]
        if d and (sizes[d - 1] == 1 or strides[d - 1] == size * stride):
            continue
        covered = 1
        while new and (covered < size or shape[new - 1] == 1):
            new -= 1
            result[new] = covered * stride
            covered *= shape[new]
        if covered != size:
            return None
        size, stride = 1, strides[d - 1]
    return tuple(result)


def view_blocker(sizes: Ints, strides: Ints, shape: Ints) -> ViewBlocker | None:
    """What makes a view of that shape impossible, or None. `shape` must have as many elements as `sizes`."""
    if not sizes or 0 in sizes:
        return None
    runs = merge_dims(sizes, strides)
    kept = {prod(shape[d:]): d for d in range(len(shape), -1, -1)}
    boundaries = []
    inner_numel = 1
    for run in runs[:-1]:
        inner_numel *= run.size
        if inner_numel not in kept:
            outer = run.dims[0] - 1
            new_dim = min(d for numel, d in kept.items() if numel < inner_numel) - 1
            boundaries.append(Boundary(outer, strides[outer], run.size * run.stride, inner_numel, new_dim))
    return ViewBlocker(shape, tuple(reversed(runs)), tuple(boundaries)) if boundaries else None


def expand(sizes: Ints, strides: Ints, shape: Sequence[int], type_name: str) -> tuple[Ints, Ints]:
    """Sizes and strides under a shape that repeats dimensions of size 1 (stride 0) and adds dimensions in front.

    -1 keeps a size. Raises TensorError in torch's words; `type_name` is what they call the tensor.
    """
    extra = len(shape) - len(sizes)
    if extra < 0:
        raise TensorError(
            f"expand({type_name}{{{list(sizes)}}}, size={list(shape)}): the number of sizes provided ({len(shape)}) "
            f"must be greater or equal to the number of dimensions in the tensor ({len(sizes)})"
        )
    new_sizes, new_strides = list(shape), [0] * len(shape)
    for d in range(len(shape) - 1, -1, -1) if sizes else ():
        if d >= extra:
            size, stride = sizes[d - extra], strides[d - extra]
        else:
            size, stride = 1, new_sizes[d + 1] * new_strides[d + 1]
        if shape[d] == -1 and d < extra:
            raise TensorError(
                f"The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {d}"
            )
        if shape[d] not in (-1, size) and size != 1:
            raise TensorError(
                f"The expanded size of the tensor ({shape[d]}) must match the existing size ({size}) at non-singleton "
                f"dimension {d}.  Target sizes: {list(shape)}.  Tensor sizes: {list(sizes)}"
            )
        kept = shape[d] in (-1, size)
        new_sizes[d], new_strides[d] = (size, stride) if kept else (shape[d], 0)
    checked_numel(new_sizes)
    return tuple(new_sizes), tuple(new_strides)


def as_smaller_elements(sizes: Ints, strides: Ints, offset: int, ratio: int, differ: str) -> tuple[Ints, Ints, int]:
    """Sizes, strides and offset of the same bytes in elements `ratio` times smaller.

    Raises TensorError that ends in `differ`, torch's naming of the two types, unless the last stride is 1: literally,
    even for a last dimension of size 1.
    """
    _check_last_stride(strides, differ)
    return (*sizes[:-1], sizes[-1] * ratio), (*(s * ratio for s in strides[:-1]), 1), offset * ratio


def as_larger_elements(sizes: Ints, strides: Ints, offset: int, ratio: int, differ: str) -> tuple[Ints, Ints, int]:
    """Sizes, strides and offset of the same bytes in elements `ratio` times larger; checks in torch's order."""
    _check_multiple("size(-1)", sizes[-1], ratio, differ)
    _check_multiple("storage_offset()", offset, ratio, differ)
    _check_last_stride(strides, differ)
    for d, stride in enumerate(strides[:-1]):
        _check_multiple(f"stride({d})", stride, ratio, differ)
    return (*sizes[:-1], sizes[-1] // ratio), (*(s // ratio for s in strides[:-1]), 1), offset // ratio


def _check_last_stride(strides: Ints, differ: str) -> None:
    if strides[-1] != 1:
        raise TensorError(f"self.stride(-1) must be 1 {differ}, but got {strides[-1]}")


def _check_multiple(name: str, value: int, ratio: int, differ: str) -> None:
    if value % ratio:
        raise TensorError(f"self.{name} must be divisible by {ratio} {differ}, but got {value}")
