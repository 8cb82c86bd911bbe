"""The explanation of impossible views, over every recorded view that torch 2.13.0 refused."""

import gzip
import json
from math import prod
from pathlib import Path

import numpy as np
import pytest

from stridetool.analysis.views import remedies, why_not_view
from stridetool.core.layout import Layout
from stridetool.errors import TensorError

ROWS = Path(__file__).parents[1] / "data" / "view_semantics" / "view_rule.jsonl.gz"


@pytest.fixture(scope="module")
def rows():
    with gzip.open(ROWS, "rt") as lines:
        return [json.loads(line) for line in lines]


def offsets(layout):
    cells = np.arange(max(layout.reach()[1], 1))
    return np.lib.stride_tricks.as_strided(cells, layout.sizes, [8 * s for s in layout.strides])


def test_an_explanation_exactly_where_torch_refuses(rows):
    for sizes, strides, shape, answer in rows:
        if answer == "size":
            continue
        layout = Layout(tuple(sizes), tuple(strides))
        why = why_not_view(layout, shape, 4, "t at a.py:3")
        assert (why is None) == (answer is not None)
        if why:
            left, right = why.boundary
            assert why.stride_found == strides[left] != why.stride_needed
            assert right == left + 1
            assert any(run[-1] == left for run in why.runs)
            assert any(run[0] == right for run in why.runs)
            assert why.reshape_copied_bytes == 4 * prod(sizes)
            assert why.set_by == "t at a.py:3"
            assert why.remedies[-1].startswith("reshape(")


def test_every_remedy_works_as_it_says(rows):
    """The views exist and read the same memory: kept apart in the same order, reordered with the same elements."""
    apart = reordered = 0
    for sizes, strides, shape, answer in rows:
        if answer is not None:
            continue
        layout = Layout(tuple(sizes), tuple(strides))
        *free, copy = remedies(layout, shape, 2)
        assert copy.copied_bytes == 2 * layout.numel
        for remedy in free:
            assert remedy.copied_bytes == 0
            if remedy.order is None:
                apart += 1
                view = layout.view(remedy.shape)
                np.testing.assert_array_equal(offsets(view).ravel(), offsets(layout).ravel())
                assert set(suffix_products(remedy.shape)) >= set(suffix_products(copy.shape))
            else:
                reordered += 1
                view = layout.permute(remedy.order).view(remedy.shape)
                assert view.sizes == copy.shape
                np.testing.assert_array_equal(np.sort(offsets(view).ravel()), np.sort(offsets(layout).ravel()))
    assert apart > 300
    assert reordered > 300


def suffix_products(shape):
    return [prod(shape[d:]) for d in range(len(shape) + 1)]


@pytest.mark.parametrize(
    ("layout", "shape", "texts"),
    [
        (Layout.contiguous((8, 5)).transpose(0, 1).narrow(0, 0, 2), (-1,), ["reshape(16) copies 64 B"]),
        (
            Layout.contiguous((4, 6, 8)).transpose(0, 1),
            (24, 8),
            ["transpose(0, 1).view(24, 8) copies nothing", "reshape(24, 8) copies 768 B"],
        ),
        (
            Layout.contiguous((2, 3, 4, 5)).permute((0, 2, 3, 1)),
            (2, 60),
            ["view(2, 20, 3) copies nothing", "permute(0, 3, 1, 2).view(2, 60)", "reshape(2, 60) copies 480 B"],
        ),
        (Layout((6, 2), (1, 6)), (12,), ["transpose(0, 1).view(12) copies nothing", "reshape(12) copies 48 B"]),
        (Layout((3, 1), (1, 1)).expand((3, 4)), (12,), ["reshape(12) copies 48 B"]),
    ],
)
def test_remedies_of_common_failures(layout, shape, texts):
    why = why_not_view(layout, shape, 4)
    assert len(why.remedies) == len(texts)
    assert all(remedy.startswith(text) for remedy, text in zip(why.remedies, texts, strict=True)), why.remedies


def test_a_shape_of_another_size_is_an_error_and_a_possible_view_needs_no_excuse():
    with pytest.raises(TensorError, match="invalid for input of size 6"):
        why_not_view(Layout.contiguous((2, 3)), (7,), 4)
    assert why_not_view(Layout.contiguous((2, 3)), (6,), 4) is None
    assert why_not_view(Layout.contiguous((2, 0)), (0,), 4) is None
