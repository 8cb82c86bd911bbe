"""The few operators on values that scripts about layout use: + - * / ** comparisons, sum, equal, allclose, fill_."""

from __future__ import annotations

import operator as python_operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stridetool.core import numeric
from stridetool.core.dispatch import OPERATORS, GradName, operator
from stridetool.core.dtype import DType, bool_, int64, promote_types
from stridetool.core.elements import copy_elements, read, strided, writable, write
from stridetool.core.iteration import broadcast_sizes, common_device, iteration_strides
from stridetool.core.layout import Layout
from stridetool.core.ops.copies import refuse_overlap, refuse_partial_overlap, to
from stridetool.core.ops.factories import empty_tensor, fill
from stridetool.core.options import get_default_dtype, infer_dtype
from stridetool.core.shapes import wrap_unique_dims
from stridetool.core.tensor import Tensor, bump, view_of
from stridetool.errors import ArgumentTypeError, TensorError

Number = bool | int | float | complex
_OPERANDS = (Tensor, bool, int, float, complex)


def result_type(*operands: Any) -> DType:
    """The type that tensors and numbers give together: numbers and 0-d tensors only raise the category."""
    by_rank: list[DType | None] = [None, None, None]
    for x in operands:
        rank = (0 if x._layout.sizes else 1) if isinstance(x, Tensor) else 2
        dtype = x._dtype if isinstance(x, Tensor) else infer_dtype(x)
        before = by_rank[rank]
        by_rank[rank] = dtype if before is None else promote_types(before, dtype)
    result: DType | None = None
    for dtype_of_rank in by_rank:
        result = _combined(result, dtype_of_rank)
    assert result is not None
    return result


_CATEGORY = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


def _combined(higher: DType | None, lower: DType | None) -> DType | None:
    if higher is None or lower is None:
        return higher or lower
    if _CATEGORY[lower.kind] <= _CATEGORY[higher.kind]:
        return higher
    return promote_types(higher, lower)


def _operand(x: Any, other: Any) -> Tensor:
    """A number as a 0-d tensor beside `other`."""
    if isinstance(x, Tensor):
        return x
    if not isinstance(x, Number):
        raise ArgumentTypeError(f"argument 'other' (position 2) must be Tensor, not {type(x).__name__}")
    return fill(empty_tensor(Layout((), ()), infer_dtype(x), other.device), x)


def _binary(a: Any, b: Any, compute: Callable[[Any, Any], Any], dtype: DType, out_dtype: DType) -> Tensor:
    x, y = _operand(a, b), _operand(b, a)
    sizes = broadcast_sizes(x._layout.sizes, y._layout.sizes)
    layouts = [t._layout.expand(sizes) for t in (x, y)]
    device = common_device([x, y])
    out = empty_tensor(Layout(sizes, iteration_strides(sizes, layouts)), out_dtype, device)
    if out.is_meta:
        return out
    left, right = (numeric.convert(read(to(t, device)), t._dtype, dtype) for t in (x, y))
    with np.errstate(all="ignore"):
        values = compute(left, right)
    write(out, numeric.convert(values, dtype if out_dtype is not bool_ else bool_, out_dtype))
    return out


def _arithmetic(name: str, grad: GradName, ufunc: np.ufunc, *, true_division: bool = False) -> None:
    def forward(self: Any, other: Any) -> Tensor:
        dtype = result_type(self, other)
        if true_division and dtype.kind in "bui":
            dtype = get_default_dtype()
        if name == "sub" and dtype.kind == "b":
            raise TensorError(
                "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
                "`logical_xor()` operator instead."
            )
        return _binary(self, other, ufunc, dtype, dtype)

    def in_place(self: Tensor, other: Any) -> Tensor:
        refuse_overlap(self)
        if isinstance(other, Tensor):
            refuse_partial_overlap(self, other)
        if self._layout.overlap_code() and self._layout.has_internal_overlap() and _repeatedly(self, other, ufunc):
            return self
        result = forward(self, other)
        if _CATEGORY[result._dtype.kind] > _CATEGORY[self._dtype.kind]:
            raise TensorError(
                f"result type {result._dtype.scalar_name} can't be cast to the desired output type "
                f"{self._dtype.scalar_name}"
            )
        if result._layout.sizes != self._layout.sizes:
            raise TensorError(
                f"output with shape {list(self.shape)} doesn't match the broadcast shape {list(result.shape)}"
            )
        _store(self, result)
        return self

    forward.__doc__ = f"Elementwise {name}, with broadcasting and torch's type promotion."
    in_place.__doc__ = f"Elementwise {name} in place."
    call = operator(name=name, grad=grad, keys="all")(forward)
    call_in_place = operator(name=name + "_", grad=grad, keys="all")(in_place)
    python_name = {"div": "truediv"}.get(name, name)
    _hang(f"__{python_name}__", call)
    reversed_call = call if name in ("add", "mul") else lambda self, other: call(other, self)
    _hang(f"__r{python_name}__", reversed_call)
    _hang(f"__i{python_name}__", call_in_place)


def _hang(python_name: str, call: Callable[[Any, Any], Any]) -> None:
    """Let an operator answer for a Python operator, which has its own error for operands of other types."""

    def method(self: Tensor, other: Any) -> Any:
        return call(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    setattr(Tensor, python_name, method)


def _repeatedly(target: Tensor, other: Any, ufunc: np.ufunc) -> bool:
    """Compute in place element by element, so that one that is reached twice is changed twice, as torch's loop does.

    False (and nothing done) where the result would have to be converted.
    """
    operand = _operand(other, target)
    writable(target)
    if result_type(target, other) is not target._dtype or target._dtype.numpy_name is None or target.is_meta:
        return False
    layout, values = target._layout, numeric.convert(read(operand), operand._dtype, target._dtype)
    places = np.zeros((), "i8")
    for size, stride in zip(layout.sizes, layout.strides, strict=True):
        places = places[..., None] + np.arange(size) * stride
    low, high = layout.reach()
    flat = strided(target._storage, Layout((high - low,), (1,), low), target._dtype.raw)
    bump(target)
    ufunc.at(flat, places + (layout.offset - low), np.broadcast_to(values, layout.sizes))
    return True


def _store(target: Tensor, result: Tensor) -> None:
    """The values of a fresh result into an existing tensor; arithmetic, not a copy that anybody asked for."""
    bump(target)
    if not target.is_meta:
        write(target, numeric.convert(read(result), result._dtype, target._dtype))


def _sub_name(args: Sequence[Any]) -> str:
    return "SubBackward0" if isinstance(args[0], Tensor) else "RsubBackward1"


def _pow_name(args: Sequence[Any]) -> str:
    if not isinstance(args[0], Tensor):
        return "PowBackward2"
    return "PowBackward1" if isinstance(args[1], Tensor) else "PowBackward0"


_arithmetic("add", "AddBackward0", np.add)
_arithmetic("sub", _sub_name, np.subtract)
_arithmetic("mul", "MulBackward0", np.multiply)
_arithmetic("div", "DivBackward0", np.true_divide, true_division=True)
_arithmetic("pow", _pow_name, np.power)


@operator(grad="ReciprocalBackward0")
def reciprocal(self: Tensor) -> Tensor:
    """Elementwise 1 / x."""
    dtype = get_default_dtype() if self._dtype.kind in "bui" else self._dtype
    return _binary(1, self, np.true_divide, dtype, dtype)


_hang("__rtruediv__", lambda self, other: OPERATORS["mul"].call(reciprocal(self), other))


def _comparison(name: str, compute: Callable[[Any, Any], Any]) -> None:
    def compare(self: Any, other: Any) -> Any:
        return _binary(self, other, compute, result_type(self, other), bool_)

    compare.__doc__ = f"Elementwise {name}: a tensor of bool."
    _hang(f"__{name}__", operator(name=name, keys="all")(compare))


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _comparison(_name, getattr(python_operator, _name))


@operator(grad="NegBackward0")
def neg(self: Tensor) -> Tensor:
    """Elementwise minus."""
    if self._dtype.kind == "b":
        raise TensorError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use "
            "the `~` or `logical_not()` operator instead."
        )
    out = empty_tensor(Layout.dense_like(self._layout), self._dtype, self.device)
    if not out.is_meta:
        write(out, -read(self))
    return out


setattr(Tensor, "__neg__", neg)  # noqa: B010  mypy would take it for an operand


@operator()
def positive(self: Tensor) -> Tensor:
    """The tensor itself."""
    return self


setattr(Tensor, "__pos__", positive)  # noqa: B010  as above


def _sum_name(args: Sequence[Any]) -> str:
    return "SumBackward0" if len(args) < 2 or args[1] is None or isinstance(args[1], DType) else "SumBackward1"


@operator(grad=_sum_name)
def sum(
    self: Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """The sum of all elements, or along dimensions; integers and bool add up in int64."""
    target = dtype or (int64 if self._dtype.kind in "bui" else self._dtype)
    ndim = len(self._layout.sizes)
    dims = range(ndim) if dim is None or dim == () else wrap_unique_dims([dim] if isinstance(dim, int) else dim, ndim)
    kept = [1 if d in dims else n for d, n in enumerate(self._layout.sizes)]
    sizes = kept if keepdim else [n for d, n in enumerate(self._layout.sizes) if d not in dims]
    out = empty_tensor(Layout.contiguous(sizes), target, self.device)
    if not out.is_meta:
        values = numeric.convert(read(self), self._dtype, target)
        axes = tuple([d for d in dims if d < ndim])
        write(out, values.sum(axis=axes, keepdims=keepdim).astype(values.dtype) if axes else values)
    return out


@operator(keys="all")
def equal(self: Tensor, other: Tensor) -> bool:
    """Whether sizes and all values agree. Raises TensorError for different types, as torch does."""
    if self._dtype is not other._dtype:
        promote_types(self._dtype, other._dtype)
    common_device([self, other])
    return self._layout.sizes == other._layout.sizes and bool((read(self) == read(other)).all())


@operator(keys="all")
def allclose(self: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all values agree within |a - b| <= atol + rtol·|b|."""
    if self._dtype is not other._dtype:
        raise TensorError(f"{self._dtype.scalar_name} did not match {other._dtype.scalar_name}")
    common_device([self, other])
    return bool(np.allclose(read(self), read(other), rtol, atol, equal_nan))


def _fill_name(args: Sequence[Any]) -> str:
    return "FillBackward3" if isinstance(args[1], Tensor) else "FillBackward2"


@operator(grad=_fill_name)
def fill_(self: Tensor, value: Any) -> Tensor:
    """Every element one number; allowed on expanded tensors."""
    if isinstance(value, Tensor):
        if value._layout.sizes:
            raise TensorError(
                "fill_ only supports 0-dimension value tensor but got tensor with "
                f"{len(value._layout.sizes)} dimensions."
            )
        bump(self)
        copy_elements(self, view_of(value, value._layout.expand(self._layout.sizes)))
    else:
        bump(self)
        fill(self, value)
    return self


@operator(grad="ZeroBackward0")
def zero_(self: Tensor) -> Tensor:
    """Every element 0."""
    bump(self)
    fill(self, 0)
    return self
