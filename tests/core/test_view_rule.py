"""The view rule against 22,000 recorded answers of torch 2.13.0, and its own explanation against itself."""

import gzip
import json
from math import prod
from pathlib import Path

import pytest

from stridetool.core.layout import Layout
from stridetool.errors import TensorError

ROWS = Path(__file__).parents[1] / "data" / "view_semantics" / "view_rule.jsonl.gz"


@pytest.fixture(scope="module")
def rows():
    with gzip.open(ROWS, "rt") as lines:
        return [json.loads(line) for line in lines]


def new_strides(layout, shape):
    try:
        view = layout.try_view(shape)
    except TensorError:
        return "size"
    return None if view is None else list(view.strides)


def test_every_recorded_row(rows):
    assert len(rows) == 22_000
    wrong = [row for row in rows if new_strides(Layout(tuple(row[0]), tuple(row[1])), row[2]) != row[3]]
    assert wrong == []


def test_a_blocker_exactly_where_torch_refuses_and_its_facts_hold(rows):
    for sizes, strides, shape, answer in rows:
        if answer == "size":
            continue
        layout = Layout(tuple(sizes), tuple(strides))
        blocker = layout.view_blocker(shape)
        assert (blocker is None) == (answer is not None), (sizes, strides, shape)
        if blocker:
            assert [d for run in blocker.runs for d in run.dims] == list(range(layout.ndim))
            for at in blocker.boundaries:
                inside = blocker.shape[at.new_dim + 1 :]
                assert at.stride_found == strides[at.outer_dim] != at.stride_needed
                assert at.inner_numel == prod(sizes[at.outer_dim + 1 :])
                assert prod(inside) < at.inner_numel < prod(inside) * blocker.shape[at.new_dim]


def test_mending_every_boundary_makes_the_view_possible(rows):
    """The stride needed is what it says: with it (and those outside moved along) the view exists."""
    for sizes, strides, shape, answer in rows:
        if answer is not None:
            continue
        layout = Layout(tuple(sizes), tuple(strides))
        while blocker := layout.view_blocker(shape):
            at = blocker.boundaries[0]
            mended = list(layout.strides)
            mended[at.outer_dim] = at.stride_needed
            layout = Layout(layout.sizes, tuple(mended))
        assert layout.try_view(shape) is not None


def test_error_is_torchs_and_the_hint_names_the_boundary():
    with pytest.raises(RuntimeError) as caught:
        Layout((4, 6), (1, 4)).view((24,))
    first, hint = str(caught.value).split("\n")
    assert first == (
        "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
        "contiguous subspaces). Use .reshape(...) instead."
    )
    assert "dimensions 0 and 1" in hint
    assert "stride 24 is needed, 1 found" in hint
