"""What is copied: the layout of a source, to be copied into contiguous memory. The standard cases stand here.

A case is a layout and a type; what the bytes are does not matter to a copy, so a tensor of a file or a script is
timed without its data.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from stridetool.core.dtype import ALIASES, BY_NUMPY, DTYPES
from stridetool.core.layout import Layout
from stridetool.errors import UsageError

MAX_DIMS = 64  # NumPy's limit

_LETTERS = {**{dtype.raw: dtype for dtype in BY_NUMPY.values()}, "bf16": DTYPES["bfloat16"]}


@dataclass(frozen=True, slots=True)
class Case:
    """One copy. `layout` is that of the source, in steps of `unit` bytes: the item size unless strides are odd."""

    name: str
    layout: Layout
    dtype: str
    itemsize: int
    unit: int

    @property
    def nbytes(self) -> int:
        """Bytes written."""
        return self.layout.numel * self.itemsize

    @property
    def bytes_moved(self) -> int:
        """Bytes read and written, a repeated element counted each time."""
        return 2 * self.nbytes

    @property
    def byte_strides(self) -> tuple[int, ...]:
        return tuple(stride * self.unit for stride in self.layout.strides)

    def extent(self) -> tuple[int, int]:
        """(bytes from the lowest byte reached to the highest, bytes from the lowest to the first element)."""
        low, high = self.layout.reach()
        if low == high:
            return 0, 0
        return (high - 1 - low) * self.unit + self.itemsize, (self.layout.offset - low) * self.unit


def make_case(name: str, layout: Layout, dtype: str = "float32") -> Case:
    """A case of a dtype that is known by name, NumPy's letters (`f4`) included.

    Raises UsageError for a dtype that is not known, or a layout that no machine has memory for.
    """
    known = DTYPES.get(dtype) or ALIASES.get(dtype) or _LETTERS.get(dtype)
    if known is None:
        raise UsageError(f"cannot copy dtype {dtype!r}: it is not known", hint=f"one of {', '.join(DTYPES)}")
    return Case(name, layout, known.name, known.itemsize, known.itemsize)


def case_of(sizes: Sequence[int], permute: Sequence[int] | None, strides: Sequence[int] | None, dtype: str) -> Case:
    """The case that `--shape`, `--permute` or `--strides` describe: a contiguous tensor, seen so.

    Raises UsageError when the options do not fit together.
    """
    if len(sizes) > MAX_DIMS or min(sizes, default=0) < 0 or prod(sizes) >= 1 << 60:
        raise UsageError(f"cannot copy shape {tuple(sizes)}: sizes are 0 or more, in at most {MAX_DIMS} dimensions")
    if strides is not None:
        if permute is not None:
            raise UsageError("cannot use --permute and --strides together", hint="strides say the order already")
        if len(strides) != len(sizes) or max(map(abs, strides), default=0) >= 1 << 60:
            raise UsageError(f"cannot use {len(strides)} strides on {len(sizes)} sizes", hint="one for each dimension")
        return make_case(_name(sizes, "strides", strides, dtype), Layout(tuple(sizes), tuple(strides)), dtype)
    layout = Layout.contiguous(sizes)
    if permute is None:
        return make_case(_name(sizes, "contiguous", (), dtype), layout, dtype)
    if sorted(permute) != list(range(len(sizes))):
        raise UsageError(
            f"cannot permute {len(sizes)} dimensions by {','.join(map(str, permute))}",
            hint="name each dimension from 0 once, like --permute 0,2,1",
        )
    return make_case(_name(sizes, "permute", permute, dtype), layout.permute(permute), dtype)


def _name(sizes: Sequence[int], how: str, numbers: Sequence[int], dtype: str) -> str:
    return " ".join(filter(None, ("x".join(map(str, sizes)) or "scalar", how, ",".join(map(str, numbers)), dtype)))


def standard_cases(*, quick: bool = False) -> tuple[Case, ...]:
    """Ordinary copies of every kind; with `quick`, one small one of each kind."""
    return tuple(make_case(name, layout, dtype) for name, layout, dtype in (_quick() if quick else _standard()))


def select(cases: Iterable[Case], patterns: Sequence[str]) -> tuple[Case, ...]:
    """The cases whose names match one of the glob patterns. Raises UsageError when a pattern matches none."""
    cases = tuple(cases)
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(case.name, pattern) for case in cases):
            raise UsageError(f"no case matches {pattern!r}", hint=f"there are: {', '.join(c.name for c in cases)}")
    return tuple(case for case in cases if any(fnmatch.fnmatchcase(case.name, pattern) for pattern in patterns))


_Named = tuple[str, Layout, str]


def _standard() -> list[_Named]:
    full = Layout.contiguous
    image, features = full((16, 3, 512, 512)), full((16, 64, 112, 112))
    return [
        ("contiguous", full((8 << 20,)), "float32"),
        ("contiguous-4KiB", full((1024,)), "float32"),
        ("transpose", full((2048, 2048)).transpose(0, 1), "float32"),
        ("transpose-odd", full((2049, 2047)).transpose(0, 1), "float32"),
        ("transpose-float64", full((2048, 2048)).transpose(0, 1), "float64"),
        ("transpose-float16", full((2048, 2048)).transpose(0, 1), "float16"),
        ("transpose-uint8", full((2048, 2048)).transpose(0, 1), "uint8"),
        ("transpose-256", full((256, 256)).transpose(0, 1), "float32"),
        ("transpose-skinny", full((1 << 20, 8)).transpose(0, 1), "float32"),
        ("reversed-dimensions", full((96, 100, 104, 8)).permute((3, 2, 1, 0)), "float32"),
        ("nchw-to-nhwc", features.permute((0, 2, 3, 1)), "float32"),
        ("nhwc-to-nchw", full((16, 112, 112, 64)).permute((0, 3, 1, 2)), "float32"),
        ("image-to-nhwc-uint8", image.permute((0, 2, 3, 1)), "uint8"),
        ("image-to-nchw-uint8", full((16, 512, 512, 3)).permute((0, 3, 1, 2)), "uint8"),
        ("attention-heads", full((4, 1024, 16, 128)).transpose(1, 2), "float16"),
        ("attention-keys", full((4, 1024, 16, 64)).permute((0, 2, 3, 1)), "float16"),
        ("slice-rows", full((4096, 4096)).slice(0, None, None, 2), "float32"),
        ("slice-columns-step-2", full((2048, 4096)).slice(1, None, None, 2), "float32"),
        ("slice-narrow-columns", full((1 << 17, 64)).narrow(1, 8, 16), "float32"),
        ("one-column", full((1 << 20, 16)).select(1, 3), "float32"),
        ("windows-of-16", full((1 << 20,)).unfold(0, 16, 1), "float32"),
        ("image-patches-3x3", full((8, 8, 114, 114)).unfold(2, 3, 1).unfold(3, 3, 1), "float32"),
        ("broadcast-row", full((1, 4096)).expand((2048, 4096)), "float32"),
        ("broadcast-column", full((2048, 1)).expand((2048, 4096)), "float32"),
        ("reverse", full((8 << 20,)).flip((0,)), "float32"),
        ("reverse-columns-uint8", full((2048, 4096)).flip((1,)), "uint8"),
    ]


def _quick() -> list[_Named]:
    full = Layout.contiguous
    return [
        ("contiguous", full((2 << 20,)), "float32"),
        ("transpose", full((1024, 1024)).transpose(0, 1), "float32"),
        ("transpose-uint8", full((1024, 1024)).transpose(0, 1), "uint8"),
        ("nchw-to-nhwc", full((4, 64, 56, 56)).permute((0, 2, 3, 1)), "float32"),
        ("nhwc-to-nchw", full((4, 56, 56, 64)).permute((0, 3, 1, 2)), "float32"),
        ("attention-heads", full((2, 512, 16, 64)).transpose(1, 2), "float16"),
        ("slice-columns-step-2", full((1024, 2048)).slice(1, None, None, 2), "float32"),
        ("windows-of-16", full((1 << 17,)).unfold(0, 16, 1), "float32"),
        ("broadcast-column", full((1024, 1)).expand((1024, 2048)), "float32"),
        ("reverse", full((2 << 20,)).flip((0,)), "float32"),
    ]
