"""Numbers of every element type: what their bits mean, and how one type becomes another, as in torch."""

import itertools

import numpy as np
import pytest

import stridetool as st
from stridetool.core import numeric
from stridetool.core.dtype import DTYPES, promote_types

torch = pytest.importorskip("torch")

SMALL = ("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")


@pytest.fixture(scope="module")
def numbers():
    """float32 numbers of every magnitude, and the edges."""
    rng = np.random.default_rng(0)
    anything = rng.integers(0, 1 << 32, 20_000, dtype="u4").view("f4")
    usual = (rng.normal(size=20_000) * 10 ** rng.uniform(-6, 6, 20_000)).astype("f4")
    edges = np.float32([0.0, -0.0, np.inf, -np.inf, 448, 464, 480, 57344, 61440, 240, 248, 2**-10, -(2**-17), 2**-127])
    found = np.concatenate([anything, usual, edges, np.arange(-1000, 1000, dtype="f4") / 4])
    return found[~np.isnan(found)]


@pytest.mark.parametrize("name", SMALL)
def test_float32_rounds_to_the_same_bits(name, numbers):
    dtype = DTYPES[name]
    raw = "u1" if dtype.itemsize == 1 else "i2"
    expected = (
        torch.from_numpy(numbers).to(getattr(torch, name)).view(getattr(torch, {"u1": "uint8", "i2": "int16"}[raw]))
    )
    got = numeric.encode(numeric.convert(numbers, DTYPES["float32"], dtype), dtype).view(raw)
    assert np.array_equal(got, expected.numpy())


@pytest.mark.parametrize("name", SMALL)
def test_every_code_means_the_same(name):
    dtype = DTYPES[name]
    raw = np.arange(1 << 8 * dtype.itemsize, dtype=f"u{dtype.itemsize}")
    stored = torch.from_numpy(raw.view("u1" if dtype.itemsize == 1 else "i2"))
    expected = stored.view(getattr(torch, name)).float().numpy()
    assert np.array_equal(numeric.decode(raw, dtype).astype("f4"), expected, equal_nan=True)


def test_promotion_of_every_pair():
    def answer(function, a, b):
        try:
            return str(function(a, b)).rpartition(".")[2]
        except RuntimeError as error:
            return str(error).split("\n")[0]

    for a, b in itertools.product(DTYPES, repeat=2):
        expected = answer(torch.promote_types, getattr(torch, a), getattr(torch, b))
        assert answer(promote_types, DTYPES[a], DTYPES[b]) == expected, (a, b)


@pytest.mark.filterwarnings("ignore:Casting complex:UserWarning", "ignore:ComplexHalf:UserWarning")
def test_conversion_of_every_pair():
    values = [0, 1, 2, 5, 100]
    for a, b in itertools.product(DTYPES, repeat=2):
        x = st.tensor(values).to(DTYPES[a]).to(DTYPES[b])
        y = torch.tensor(values).to(getattr(torch, a)).to(getattr(torch, b))
        expected = y.view(torch.uint8).tolist()
        assert x.view(st.uint8).tolist() == expected, (a, b)


def test_large_integers_round_through_float32_as_in_torch():
    values = [2**31 - 1, 2**53 + 1, -(2**62) - 12345, 16777217, 65519, 65520]
    for name in ("float16", "bfloat16", "float32", "float64"):
        expected = torch.tensor(values).to(getattr(torch, name)).tolist()
        assert st.tensor(values).to(DTYPES[name]).tolist() == expected


def test_facts_of_every_type():
    for name, dtype in DTYPES.items():
        other = getattr(torch, name)
        assert dtype.itemsize == other.itemsize
        assert dtype.is_floating_point == other.is_floating_point
        assert dtype.is_complex == other.is_complex
        assert dtype.is_signed == other.is_signed
        assert getattr(st, name) is dtype
