"""Element types: name, size in bytes and, where there is one, the NumPy counterpart; and how two types promote.

bfloat16, the float8 types and complex32 have no NumPy counterpart: NumPy sees their bytes as unsigned integers
(`raw`), and `numeric.py` turns those into numbers. Names and rules are torch's.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from stridetool.errors import TensorError

_LEGACY = frozenset(("Byte", "Char", "Short", "Int", "Long", "Half", "Float", "Double"))
_C_NAMES = {
    "bool": "bool",
    "uint8": "unsigned char",
    "int8": "signed char",
    "int16": "short int",
    "int32": "int",
    "int64": "long int",
    "uint16": "short unsigned int",
    "uint32": "unsigned int",
    "uint64": "long unsigned int",
    "float32": "float",
    "float64": "double",
    "complex32": "c10::complex<c10::Half>",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}
_BACKENDS = {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta"}


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """One element type; there is a single object of each, so `is` and `==` agree.

    `kind` is b, u, i, f or c (bool, unsigned, signed, floating, complex); `scalar_name` is the name in torch's
    messages ("Float"); `numpy_name` is None without a NumPy counterpart; `raw` is the NumPy type string under
    which the bytes can always be moved.
    """

    name: str
    itemsize: int
    kind: str
    scalar_name: str
    raw: str
    numpy_name: str | None

    @property
    def is_floating_point(self) -> bool:
        """Real and floating."""
        return self.kind == "f"

    @property
    def is_complex(self) -> bool:
        """A pair of floating numbers."""
        return self.kind == "c"

    @property
    def is_signed(self) -> bool:
        """Can hold a number below zero."""
        return self.kind in "ifc" and self.name != "float8_e8m0fnu"

    def to_real(self) -> DType:
        """The type of the real part."""
        return _REAL.get(self, self)

    def to_complex(self) -> DType:
        """The complex type whose parts have this type. Raises TensorError where torch has none."""
        if self.is_complex:
            return self
        if self not in _COMPLEX:
            raise TensorError(f"Unknown Complex ScalarType for {self.scalar_name}")
        return _COMPLEX[self]

    def type_name(self, device_type: str) -> str:
        """The name of tensors of this type in torch's messages: `torch.FloatTensor`, `CPUBoolType`."""
        backend = _BACKENDS.get(device_type, device_type.upper())
        if self.scalar_name in _LEGACY and backend in ("CPU", "CUDA"):
            return f"torch.{'' if backend == 'CPU' else 'cuda.'}{self.scalar_name}Tensor"
        return f"{backend}{self.scalar_name}Type"

    @property
    def c_name(self) -> str:
        """The name of the C++ type in torch's messages."""
        return _C_NAMES.get(self.name, f"c10::{self.scalar_name}")

    def __repr__(self) -> str:
        return f"stridetool.{self.name}"

    def __reduce__(self) -> str:
        return self.name


def _dtype(name: str, itemsize: int, kind: str, scalar_name: str, numpy: bool = True) -> DType:
    raw = "b1" if kind == "b" else f"{kind if numpy else 'u'}{itemsize}"
    return DType(name, itemsize, kind, scalar_name, raw, name if numpy else None)


# `bool`, `int` and `float` are Python's names: the face offers `st.bool` and so on, this module says `bool_`.
bool_ = _dtype("bool", 1, "b", "Bool")
uint8 = _dtype("uint8", 1, "u", "Byte")
int8 = _dtype("int8", 1, "i", "Char")
int16 = _dtype("int16", 2, "i", "Short")
int32 = _dtype("int32", 4, "i", "Int")
int64 = _dtype("int64", 8, "i", "Long")
uint16 = _dtype("uint16", 2, "u", "UInt16")
uint32 = _dtype("uint32", 4, "u", "UInt32")
uint64 = _dtype("uint64", 8, "u", "UInt64")
float16 = _dtype("float16", 2, "f", "Half")
float32 = _dtype("float32", 4, "f", "Float")
float64 = _dtype("float64", 8, "f", "Double")
complex64 = _dtype("complex64", 8, "c", "ComplexFloat")
complex128 = _dtype("complex128", 16, "c", "ComplexDouble")
bfloat16 = _dtype("bfloat16", 2, "f", "BFloat16", numpy=False)
complex32 = _dtype("complex32", 4, "c", "ComplexHalf", numpy=False)
float8_e4m3fn = _dtype("float8_e4m3fn", 1, "f", "Float8_e4m3fn", numpy=False)
float8_e5m2 = _dtype("float8_e5m2", 1, "f", "Float8_e5m2", numpy=False)
float8_e4m3fnuz = _dtype("float8_e4m3fnuz", 1, "f", "Float8_e4m3fnuz", numpy=False)
float8_e5m2fnuz = _dtype("float8_e5m2fnuz", 1, "f", "Float8_e5m2fnuz", numpy=False)
float8_e8m0fnu = _dtype("float8_e8m0fnu", 1, "f", "Float8_e8m0fnu", numpy=False)

_ALL = (
    *(bool_, uint8, int8, int16, int32, int64, uint16, uint32, uint64, float16, bfloat16, float32, float64),
    *(complex32, complex64, complex128, float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz),
    float8_e8m0fnu,
)
DTYPES: dict[str, DType] = {dtype.name: dtype for dtype in _ALL}
ALIASES: dict[str, DType] = {
    "half": float16,
    "float": float32,
    "double": float64,
    "short": int16,
    "int": int32,
    "long": int64,
    "chalf": complex32,
    "cfloat": complex64,
    "cdouble": complex128,
}
BY_NUMPY: dict[str, DType] = {dtype.numpy_name: dtype for dtype in _ALL if dtype.numpy_name}

_REAL = {complex32: float16, complex64: float32, complex128: float64}
_COMPLEX = {float16: complex32, float32: complex64, float64: complex128, bfloat16: complex64}
_FLOAT_RANK = {float16: 1, bfloat16: 1, float32: 2, float64: 3}
_FLOAT8 = frozenset(dtype for dtype in _ALL if dtype.name.startswith("float8"))
_BAREBONES = frozenset((uint16, uint32, uint64))  # torch promotes these only with themselves and with floats


@functools.cache
def promote_types(a: DType, b: DType) -> DType:
    """The type that holds both, as `torch.promote_types`. Raises TensorError where torch refuses."""
    if a is b:
        return a
    if _FLOAT8 & {a, b}:
        raise TensorError(
            f"Promotion for Float8 Types is not supported, attempted to promote {a.scalar_name} and {b.scalar_name}"
        )
    if _BAREBONES & {a, b} and "f" not in (a.kind, b.kind):
        raise TensorError(
            "Promotion for uint16, uint32, uint64 types is not supported, "
            f"attempted to promote {a.scalar_name} and {b.scalar_name}"
        )
    if a.is_complex or b.is_complex:
        return _promote_complex(a, b)
    if a.kind == "f" or b.kind == "f":
        return _promote_float(a, b)
    return _promote_integer(a, b)


def _promote_float(a: DType, b: DType) -> DType:
    if a.kind != b.kind:
        return a if a.kind == "f" else b
    if _FLOAT_RANK[a] == _FLOAT_RANK[b]:
        return float32  # float16 with bfloat16
    return max(a, b, key=_FLOAT_RANK.__getitem__)


def _promote_complex(a: DType, b: DType) -> DType:
    parts = [dtype.to_real() for dtype in (a, b) if dtype.kind in "fc"]
    if len(parts) == 2 and parts[0] is not parts[1]:
        return _promote_float(*parts).to_complex()
    return parts[0].to_complex() if parts[0] is not bfloat16 else complex64


def _promote_integer(a: DType, b: DType) -> DType:
    if bool_ in (a, b):
        return b if a is bool_ else a
    if {a, b} == {uint8, int8}:
        return int16
    return max(a, b, key=lambda dtype: (dtype.itemsize, dtype.kind == "i"))
