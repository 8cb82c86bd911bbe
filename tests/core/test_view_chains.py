"""Chains of view operators on tensors: as recorded from torch, and fresh random ones beside torch itself."""

import gzip
import itertools
import json
import random
from pathlib import Path

import pytest
from chains import Observer, apply, run, start

import stridetool as st

RECORDED = Path(__file__).parents[1] / "data" / "view_semantics" / "view_fuzz.A.jsonl.gz"
FACTS = ("dt", "sz", "st", "off", "fl", "sid", "nb", "crc")
EVERY = 6  # all 10,000 chains take a minute
FRESH = 400


def recorded():
    with gzip.open(RECORDED, "rt") as lines:
        yield from map(json.loads, itertools.islice(lines, 0, None, EVERY))


def wanted(step):
    return {key: step[key] for key in (*FACTS, "same") if key in step}


def differences(chain):
    """The steps of one recorded chain that come out otherwise here."""
    observer, x, known = Observer(st), start(st, chain["base"]), True
    observer.facts(x, False)
    for number, step in enumerate(chain["steps"]):
        if step["op"] == "slice" and "err" in step:
            continue  # recorded from aten::slice, whose errors are worded unlike indexing's
        try:
            result = apply(st, x, step)
        except Exception as error:
            names = [c.__name__ for c in type(error).__mro__]
            message = str(error).split("\n  hint:")[0]
            if step.get("err") not in names or message[:600] != step["msg"]:
                yield chain["seed"], number, step, repr(error)
            if "after" in step:
                assert [list(x.shape), list(x.stride())] == [step["after"]["sz"], step["after"]["st"]]
                return
            continue
        if "nout" in step:
            parts = [[list(part.shape), list(part.stride()), part.storage_offset()] for part in result]
            if (len(parts), parts[:8]) != (step["nout"], step["outs"]):
                yield chain["seed"], number, step, parts
            if not parts:
                continue
            result = result[step["pick"]]
        known &= step["op"] not in ("set_", "resize_", "empty_like")  # may expose fresh memory
        want = {key: value for key, value in wanted(step).items() if known or key != "crc"}
        got = {**observer.facts(result, "crc" in want), "same": int(result is x)}
        if {key: got[key] for key in want} != want:
            yield chain["seed"], number, step, got
        x = result


def test_recorded_chains():
    count = 0
    wrong = []
    for chain in recorded():
        count += 1
        wrong += differences(chain)
    assert count > 1600
    assert wrong == []


def random_base(rng):
    sizes = [rng.choice([1, 1, 2, 3, 4, 0]) for _ in range(rng.randint(0, 5))]
    strides = [rng.choice([0, 1, 2, 3, 6, 12]) for _ in sizes]
    reach = 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True) if n)
    names = ["bool", "uint8", "int16", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
    offset = rng.choice([0, 0, 1, 2, 4])
    return {"dt": rng.choice(names), "n": reach + offset + rng.randint(0, 8), "sz": sizes, "st": strides, "off": offset}


OPERATORS = [
    "transpose",
    "swapaxes",
    "permute",
    "movedim",
    "T",
    "mT",
    "H",
    "mH",
    "t",
    "select",
    "narrow",
    "unsqueeze",
    "squeeze",
    "squeeze_dims",
    "expand",
    "broadcast_to",
    "view",
    "reshape",
    "flatten",
    "unflatten",
    "ravel",
    "diagonal",
    "unfold",
    "split",
    "chunk",
    "tensor_split",
    "hsplit",
    "vsplit",
    "dsplit",
    "unbind",
    "index",
    "as_strided",
    "view_dtype",
    "view_as_real",
    "view_as_complex",
    "real",
    "imag",
    "conj",
    "resolve_conj",
    "resolve_neg",
    "contiguous",
    "clone",
    "to",
    "flip",
    "roll",
    "repeat",
    "detach",
    "transpose_",
    "t_",
    "squeeze_",
    "unsqueeze_",
    "as_strided_",
    "resize_",
    "empty_like",
    "set_",
]


def random_step(rng):
    """Any operator with arguments that are often wrong."""

    def ints(most, low=-2, high=4):
        return [rng.randint(low, high) for _ in range(rng.randint(0, most))]

    def dim():
        return rng.randint(-5, 4)

    def size_or_list():
        return rng.choice([rng.randint(-1, 4), ints(3, -1, 3)])

    formats = ("contiguous_format", "channels_last", "channels_last_3d", "preserve_format")
    items = ["n", "...", 0, 1, -1, 2, ["s", 1, None, None], ["s", None, None, 2], ["s", None, -1, 1]]
    op = rng.choice(OPERATORS)
    args = {
        "transpose": lambda: [dim(), dim()],
        "permute": lambda: [rng.sample(range(4), rng.randint(0, 4))],
        "movedim": lambda: [ints(2, -3, 3), ints(2, -3, 3)],
        "select": lambda: [dim(), rng.randint(-4, 4)],
        "narrow": lambda: [dim(), rng.randint(-3, 4), rng.randint(-1, 4)],
        "unsqueeze": lambda: [dim()],
        "squeeze": lambda: rng.choice([[], [dim()]]),
        "squeeze_dims": lambda: [ints(2, -3, 3)],
        "expand": lambda: [ints(5, -1, 4)],
        "view": lambda: [ints(4, -1, 6)],
        "flatten": lambda: [dim(), dim()],
        "unflatten": lambda: [dim(), ints(3, -1, 3)],
        "diagonal": lambda: [rng.randint(-2, 2), dim(), dim()],
        "unfold": lambda: [dim(), rng.randint(-1, 3), rng.randint(-1, 2)],
        "split": lambda: [size_or_list(), dim()],
        "chunk": lambda: [rng.randint(-1, 4), dim()],
        "hsplit": lambda: [size_or_list()],
        "unbind": lambda: [dim()],
        "index": lambda: [[rng.choice(items) for _ in range(rng.randint(1, 4))]],
        "as_strided": lambda: [ints(3, 0, 3), ints(3, -1, 4), rng.randint(-1, 5)],
        "view_dtype": lambda: [rng.choice(["uint8", "int16", "float32", "float64", "bfloat16", "complex64", "int64"])],
        "flip": lambda: [ints(2, -3, 3)],
        "roll": lambda: [rng.randint(-3, 3), dim()],
        "repeat": lambda: [ints(4, 0, 2)],
        "resize_": lambda: [ints(3, 0, 4)],
        "set_": lambda: [rng.randint(0, 3), [2, 3], [rng.randint(0, 3), 1]],
    }
    same = {"swapaxes": "transpose", "transpose_": "transpose", "squeeze_": "squeeze", "unsqueeze_": "unsqueeze"}
    same |= {"broadcast_to": "expand", "reshape": "view", "tensor_split": "split", "vsplit": "hsplit"}
    same |= {"dsplit": "hsplit", "as_strided_": "as_strided"}
    step = {"op": op, "a": args.get(same.get(op, op), list)()}
    if op in ("contiguous", "clone", "to", "empty_like"):
        step["k"] = {"memory_format": rng.choice(formats)}
    if op in ("expand", "broadcast_to") and 0 in step["a"][0]:
        step["a"][0] = [max(n, 0) for n in step["a"][0]]  # torch lets a negative size pass beside one of 0
    if op == "index" and step["a"][0].count("...") > 1:
        step["a"][0] = [item for item in step["a"][0] if item != "..."]
    return step


def test_fresh_chains_beside_torch():
    torch = pytest.importorskip("torch")
    wrong = []
    for seed in range(FRESH):
        rng = random.Random(seed)
        base, steps = random_base(rng), [random_step(rng) for _ in range(8)]
        expected, got = run(torch, base, steps), run(st, base, steps)
        wrong += [
            (seed, base, ([None, *steps])[i], a, b)
            for i, (a, b) in enumerate(zip(expected, got, strict=True))
            if a != b
        ][:1]
    assert wrong == []
