"""Bytes to numbers and back, for every element type, and the conversion of one type into another.

Numbers are NumPy (or CuPy) arrays: of the counterpart where there is one, of float32 for bfloat16 and float8, of
complex64 for complex32. Rounding is to nearest, ties to even, and goes through float32 where torch's does.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np

from stridetool.core.dtype import DType

Array = Any  # numpy.ndarray or cupy.ndarray

# (mantissa bits, exponent bias, code of what lies beyond the largest finite value, code of NaN)
_MINIFLOATS = {
    "float8_e4m3fn": (3, 7, 0x7E, 0x7F),  # saturates
    "float8_e5m2": (2, 15, 0x7C, 0x7F),
    "float8_e4m3fnuz": (3, 8, 0x80, 0x80),
    "float8_e5m2fnuz": (2, 16, 0x80, 0x80),
}


def module_of(array: Array) -> Any:
    """`numpy` or `cupy`, whichever made `array`."""
    return sys.modules[type(array).__module__.partition(".")[0]]


def value_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy type in which the numbers of `dtype` are computed."""
    return np.dtype(dtype.numpy_name or ("complex64" if dtype.is_complex else "float32"))


def decode(raw: Array, dtype: DType) -> Array:
    """The numbers that `raw` (bytes, or elements of type `dtype.raw`) stands for."""
    raw = raw.view(dtype.raw)
    if dtype.numpy_name:
        return raw
    if dtype.name == "bfloat16":
        return (raw.astype("u4") << 16).view("f4")
    if dtype.name == "complex32":
        pair = raw.reshape(*raw.shape, 1).view("f2").astype("f4")
        return pair.view("c8").reshape(raw.shape)
    table = module_of(raw).asarray(_decode_table(dtype.name))
    return table[raw]


def encode(values: Array, dtype: DType) -> Array:
    """The elements of type `dtype.raw` that stand for `values` (of `value_dtype(dtype)`)."""
    if dtype.numpy_name:
        return values
    if dtype.name == "bfloat16":
        bits = module_of(values).ascontiguousarray(values).view("u4").reshape(values.shape)
        rounded = ((bits + (0x7FFF + ((bits >> 16) & 1)).astype("u4")) >> 16).astype("u2")
        return module_of(values).where(values != values, np.uint16(0x7FC0), rounded)
    if dtype.name == "complex32":
        pair = module_of(values).ascontiguousarray(values).reshape(*values.shape, 1).view("f4").astype("f2")
        return pair.view("u4").reshape(values.shape)
    if dtype.name == "float8_e8m0fnu":
        return _encode_exponent(values)
    return _encode_minifloat(values, dtype.name)


def convert(values: Array, source: DType, target: DType) -> Array:
    """Numbers of `source` as numbers of `value_dtype(target)`, by the rules of a C cast."""
    if source is target:
        return values
    if target.kind == "b":
        return values != 0
    if source.is_complex and not target.is_complex:
        values = values.real
    if target.itemsize <= 2 and target.kind == "f":
        with np.errstate(all="ignore"):
            values = values.astype("f4")
    with np.errstate(all="ignore"):
        return values.astype(value_dtype(target))


@functools.cache
def _decode_table(name: str) -> Array:
    """The value of each of the 256 codes, as float32."""
    codes = np.arange(256)
    if name == "float8_e8m0fnu":
        return np.where(codes == 255, np.nan, np.ldexp(1.0, codes - 127)).astype("f4")
    nan = _MINIFLOATS[name][-1]
    values = _magnitudes(codes & 0x7F, name)
    values = np.where(codes & 0x80, -values, values)
    if nan == 0x80:
        return np.where(codes == nan, np.nan, values).astype("f4")
    if name == "float8_e5m2":
        values = np.where((codes & 0x7F) == 0x7C, np.copysign(np.inf, values), values)
    return np.where((codes & 0x7F) > (0x7C if name == "float8_e5m2" else 0x7E), np.nan, values).astype("f4")


@functools.cache
def _boundaries(name: str) -> Array:
    """The midpoints between neighbouring magnitudes, the last one towards what would come after the largest."""
    values = _magnitudes(np.arange(129), name)
    return (values[1:] + values[:-1]) / 2


def _magnitudes(codes: Array, name: str) -> Array:
    """What codes without a sign bit stand for, as float64, infinities and NaN not told apart."""
    mantissa_bits, bias = _MINIFLOATS[name][:2]
    exponent, mantissa = codes >> mantissa_bits, codes & ((1 << mantissa_bits) - 1)
    significand = np.where(exponent == 0, mantissa, mantissa + (1 << mantissa_bits))
    return np.ldexp(significand.astype("f8"), np.maximum(exponent, 1) - bias - mantissa_bits)


def _encode_minifloat(values: Array, name: str) -> Array:
    xp = module_of(values)
    _, _, beyond, nan = _MINIFLOATS[name]
    boundaries = xp.asarray(_boundaries(name))
    with np.errstate(invalid="ignore"):  # signalling NaNs
        magnitude = abs(values).astype("f8")
    low = xp.searchsorted(boundaries, magnitude, side="left")
    high = xp.searchsorted(boundaries, magnitude, side="right")
    code = xp.where(low % 2 == 0, low, high)  # they differ only at a tie
    code = xp.where(code >= (0x80 if nan == 0x80 else beyond), beyond, code)
    negative = xp.signbit(values) & ((code != 0) | (nan != 0x80))
    code = xp.where(negative, code | 0x80, code)
    sign = xp.where(xp.signbit(values), 0x80, 0) if nan != 0x80 else 0
    return xp.where(values != values, nan | sign, code).astype("u1")


def _encode_exponent(values: Array) -> Array:
    """The exponent alone, rounded to nearest with ties away from zero, as c10's float8_e8m0fnu; the sign is lost."""
    xp = module_of(values)
    bits = xp.ascontiguousarray(values).view("u4").reshape(values.shape)
    exponent, mantissa = (bits >> 23) & 0xFF, bits & 0x7FFFFF
    up = (mantissa > 0x400000) | ((mantissa == 0x400000) & (exponent > 0))
    return (exponent + (up & (exponent != 0xFF))).astype("u1")
