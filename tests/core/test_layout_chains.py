"""Every recorded step of a view operator, on layouts alone: sizes, strides, offset, or the error and its message.

The chains were recorded by running torch 2.13.0; their steps are replayed one by one from the recorded input.
Beside them stand the overlap facts of every state (`ov` is torch's code, `u` the number of distinct elements).
"""

import gzip
import json
from math import prod
from pathlib import Path

import pytest
from view_operators import OPS, outcome

from stridetool.core.layout import Layout

CHAINS = Path(__file__).parents[1] / "data" / "view_semantics" / "view_fuzz.A.jsonl.gz"
ITEMSIZES = {"bool": 1, "bfloat16": 2, "complex32": 4, "complex64": 8, "complex128": 16}


def itemsize(dtype):
    return ITEMSIZES.get(dtype) or int("".join(c for c in dtype if c.isdigit())) // 8


def layout_of(facts):
    return Layout(tuple(facts["sz"]), tuple(facts["st"]), facts["off"])


@pytest.fixture(scope="module")
def chains():
    with gzip.open(CHAINS, "rt") as lines:
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def steps(chains):
    """(facts before, step) for every recorded step; a failed in-place operator ends its chain."""
    pairs = []
    for chain in chains:
        facts = chain["base_out"]
        for step in chain["steps"]:
            pairs.append((facts, step))
            if "sz" in step:
                facts = step
    return pairs


def agrees(got, step):
    if "err" in step:
        if not isinstance(got, tuple):
            return False
        classes, message = got
        same = message == step["msg"] or message.partition("{")[2] == step["msg"].partition("{")[2] != ""
        return same and step["err"] in [c.__name__ for c in classes]
    return got == [step["sz"], step["st"], step["off"]]


def test_every_recorded_step_of_a_view_operator(steps):
    chosen = [(facts, step) for facts, step in steps if step["op"] in OPS and not step.get("k")]
    assert len(chosen) > 20_000
    wrong = [
        (facts["sz"], facts["st"], facts["off"], step)
        for facts, step in chosen
        if not agrees(outcome(OPS[step["op"]], layout_of(facts), step.get("a", [])), step)
    ]
    assert wrong == []


def test_every_recorded_view_of_another_dtype(steps):
    wrong = []
    for facts, step in steps:
        if step["op"] != "view_dtype" or "conjugate" in step.get("msg", ""):
            continue
        target = step["a"][0]
        names = [message_name(step, 0), message_name(step, 1)]
        got = outcome(Layout.view_dtype, layout_of(facts), [itemsize(facts["dt"]), itemsize(target), *names])
        if not agrees(got, step):
            wrong.append((facts, step, got))
    assert wrong == []


def message_name(step, which):
    """torch's name of the old or the new type, out of "... to view OLD as NEW (different ..."."""
    words = step.get("msg", "").split(" to view ")[-1].split()
    return words[2 * which] if len(words) > 2 else ""


def test_flatten_sizes_of_every_recorded_flatten(steps):
    for facts, step in steps:
        if step["op"] != "flatten":
            continue
        got = outcome(lambda t, *a: Layout.contiguous(t.flatten_sizes(*a)), layout_of(facts), step.get("a", []))
        assert agrees(got, step) if "err" in step else got[0] == step["sz"], (facts, step, got)


def test_overlap_of_every_recorded_state(chains):
    """torch's code, and the exact answer; nothing recorded is beyond the bounded work."""
    states = {
        (tuple(facts["sz"]), tuple(facts["st"]), facts["ov"], facts.get("u"))
        for chain in chains
        for facts in [chain["base_out"], *chain["steps"]]
        if "ov" in facts
    }
    assert len(states) > 15_000
    for sizes, strides, code, distinct in states:
        layout = Layout(sizes, strides)
        assert layout.overlap_code() == code, layout
        assert layout.has_internal_overlap() is (distinct is not None), layout
        assert layout.distinct_elements() == (prod(sizes) if distinct is None else distinct), layout
