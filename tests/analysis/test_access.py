"""Access patterns: the examples of NVIDIA's guides by their published numbers, and laws against counting by hand."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stridetool.analysis.access import access, jumps, tiles, touched
from stridetool.analysis.reach import repeated_intervals
from stridetool.analysis.rows import tensor_row
from stridetool.core.facts import ArrayFacts
from stridetool.core.layout import Layout


def row(sizes, strides, offset=0, itemsize=4, address=1 << 20):
    facts = ArrayFacts(
        name="x", library="numpy", dtype="float32", itemsize=itemsize, device="cpu",
        layout=Layout(sizes, strides, offset), unit=itemsize, storage=1, address=address, storage_nbytes=1 << 30,
    )  # fmt: skip
    return tensor_row(facts, "s0")


@pytest.mark.parametrize(
    ("stride", "offset", "sectors", "least"),
    [
        (1, 0, 4, 4),  # "adjacent 4-byte words … four coalesced 32-byte transactions"
        (1, 1, 5, 4),  # "a misaligned sequential … five 32-byte segments"
        (2, 0, 8, 4),  # "a stride of 2 … 50 % of load/store efficiency"
        (32, 0, 32, 4),
        (0, 0, 1, 1),
    ],
)
def test_coalescing_as_in_the_best_practices_guide(stride, offset, sectors, least):
    along = access(row((1024,), (stride,), offset)).dims[0]
    assert (along.sectors, along.least_sectors) == (sectors, least)
    assert len(along.sector_bytes_used) == sectors


def test_a_tile_column_conflicts_32_fold_until_rows_are_padded_by_one():
    plain, padded = tiles(4)
    assert (plain.column_wavefronts, plain.row_wavefronts, plain.least_wavefronts) == (32, 1, 1)
    assert (padded.padding_elems, padded.column_wavefronts) == (1, 1)


def test_wide_elements_take_their_bytes_worth_of_passes():
    for tile in tiles(8):
        assert tile.least_wavefronts == tile.row_wavefronts == 2
    assert tiles(8)[-1].column_wavefronts == 2


@pytest.mark.parametrize(
    ("sizes", "strides", "offset", "dim", "widest"),
    [
        ((8, 64), (64, 1), 0, 1, 16),
        ((8, 62), (62, 1), 0, 1, 8),
        ((8, 64), (64, 1), 1, 1, 4),
        ((8, 63), (64, 1), 0, 1, 4),  # the last load would reach past the row
        ((8, 64), (64, 1), 0, 0, 4),
    ],
)
def test_the_widest_load_is_aligned_at_every_index(sizes, strides, offset, dim, widest):
    assert {d.dim: d.vector_bytes for d in access(row(sizes, strides, offset)).dims}[dim] == widest


@given(
    first=st.integers(0, 300),
    step=st.integers(-40, 40),
    count=st.integers(1, 32),
    itemsize=st.sampled_from([1, 2, 4, 8, 16]),
)
def test_touched_blocks_hold_each_byte_once(first, step, count, itemsize):
    wanted = {first + k * step + b for k in range(count) for b in range(itemsize)}
    used = touched(first, step, count, itemsize, 32)
    assert sum(used) == len(wanted)
    assert len(used) == len({byte // 32 for byte in wanted})


layouts = st.lists(st.tuples(st.integers(1, 5), st.integers(-7, 7)), min_size=1, max_size=4)


@given(layouts)
def test_jumps_are_the_differences_of_offsets_in_logical_order(dims):
    sizes, strides = zip(*dims, strict=True)
    offsets = [
        sum(i * s for i, s in zip(index, strides, strict=True)) for index in itertools.product(*map(range, sizes))
    ]
    values, counts = np.unique(np.diff(offsets), return_counts=True)
    found = {jump.elements: jump.count for jump in jumps(row(sizes, strides))}
    assert found == dict(zip(values.tolist(), counts.tolist(), strict=True))


@given(layouts, st.sampled_from([1, 4]))
def test_repeated_bytes_are_those_that_two_indices_reach(dims, itemsize):
    sizes, strides = zip(*dims, strict=True)
    counts = {}
    for index in itertools.product(*map(range, sizes)):
        start = sum(i * s for i, s in zip(index, strides, strict=True)) * itemsize
        for byte in range(start, start + itemsize):
            counts[byte] = counts.get(byte, 0) + 1
    found = repeated_intervals(Layout(sizes, strides, 0), itemsize, itemsize)
    assert {b for first, end in found for b in range(first, end)} == {b for b, n in counts.items() if n > 1}


def test_huge_tensors_cost_no_more_than_small_ones():
    huge = access(row((1 << 30, 1 << 30), (1 << 30, 1)))
    assert huge.jumps[0].count == (1 << 60) - 1
