"""Random pairs of views to copy between, and what NumPy makes of them; for the tests and benchmarks/fuzz_copy.py.

A pair covers permutations, steps (negative and zero too), windows, gaps and misaligned starts on both sides, item
sizes of 1 to 32 bytes, 0 dimensions and no elements. The destination lies in the middle of guard bytes.
"""

from __future__ import annotations

import math
import random
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 100)
GUARD = 0xAB
POOL = np.random.default_rng(7).integers(0, 256, 64 << 20, dtype=np.uint8)


class Pair(NamedTuple):
    """A view to write, the view to read, all bytes around the first, and those bytes as NumPy leaves them."""

    dst: np.ndarray
    src: np.ndarray
    bytes: np.ndarray
    expected: np.ndarray


def random_pair(rng: random.Random, max_bytes: int) -> Pair:
    """One pair of at most about `max_bytes` bytes."""
    itemsize = rng.randint(1, 32) if rng.random() < 0.5 else rng.choice((1, 2, 4, 8, 16))
    shape = random_shape(rng, max_bytes // itemsize)
    src = random_source(rng, shape, itemsize)
    nbytes, window = random_window(rng, shape, itemsize)
    around = np.full(nbytes + 192, GUARD, np.uint8)
    start = rng.choice((-around.ctypes.data % 64, rng.randint(0, 64))) + 64
    dst, expected = window(around, start), around.copy()
    np.copyto(window(expected, start), src)
    return Pair(dst, src, around, expected)


def random_shape(rng: random.Random, elements: int) -> tuple[int, ...]:
    shape: list[int] = []
    for _ in range(rng.randint(0, 6)):
        room = max(1, elements // math.prod(shape)) if 0 not in shape else 1
        shape.append(min(rng.choice(SIZES), room))
    if shape and 0 not in shape and rng.random() < 0.5:  # one dimension takes what is left
        at = rng.randrange(len(shape))
        shape[at] *= max(1, elements // math.prod(shape))
    if shape and rng.random() < 0.02:
        shape[rng.randrange(len(shape))] = 0
    return tuple(shape)


def random_source(rng: random.Random, shape: tuple[int, ...], itemsize: int) -> np.ndarray:
    """A view into the pool: any order, steps of -3 to 4, and windows that overlap each other."""
    strides, step = [0] * len(shape), itemsize
    for dim in rng.sample(range(len(shape)), len(shape)):
        strides[dim] = step * rng.choice((1, 1, 1, 1, -1, 2, -2, 3, 0, 4))
        step = max(itemsize, abs(strides[dim]) * shape[dim]) + rng.choice((0, 0, 0, 0, itemsize, 1))
        if rng.random() < 0.05:
            step = itemsize  # the next dimension starts over: windows
    low = sum(min(0, s * (n - 1)) for s, n in zip(strides, shape, strict=True) if n)
    high = sum(max(0, s * (n - 1)) for s, n in zip(strides, shape, strict=True) if n) + itemsize
    if high - low > POOL.size - 64:
        return random_source(rng, shape, itemsize)
    start = -low + rng.randint(0, 63)
    pool = POOL[start : start + itemsize].view(f"V{itemsize}")[:1]
    return as_strided(pool, shape, strides)


def random_window(rng: random.Random, shape: tuple[int, ...], itemsize: int):
    """How many bytes a destination takes, and a function that lays it into some."""
    order = rng.sample(range(len(shape)), len(shape)) if rng.random() < 0.3 else list(range(len(shape)))
    gaps = [1] * len(shape)
    if shape and rng.random() < 0.3:
        gaps[rng.randrange(len(shape))] = rng.choice((-1, -1, 2, -2))
    base = [shape[dim] * abs(gap) for dim, gap in zip(order, gaps, strict=True)]
    nbytes = math.prod(base) * itemsize
    steps = tuple(slice(None, None, gap) for gap in gaps)
    back = [order.index(dim) for dim in range(len(shape))]

    def window(around: np.ndarray, start: int) -> np.ndarray:
        flat = around[start : start + nbytes].view(f"V{itemsize}") if nbytes else np.empty(0, f"V{itemsize}")
        return flat.reshape(base)[steps].transpose(back) if shape else flat.reshape(())

    return nbytes, window
