"""Where values leave the library: Python numbers and lists, NumPy, and Python's own protocols on tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from stridetool.core import autograd, elements
from stridetool.core.tensor import Tensor
from stridetool.errors import ArgumentTypeError, TensorError


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Hang a function that is no operator (it makes no tensor) on the class."""
    setattr(Tensor, function.__name__, function)
    return function


@_method
def item(self: Tensor) -> Any:
    """The only element as a Python number."""
    return elements.item(self)


@_method
def tolist(self: Tensor) -> Any:
    """The values as nested lists of Python numbers."""
    return elements.read(self).tolist()


@_method
def __bool__(self: Tensor) -> bool:
    if self._layout.numel > 1:
        raise TensorError("Boolean value of Tensor with more than one value is ambiguous")
    if self._layout.numel == 0:
        raise TensorError("Boolean value of Tensor with no values is ambiguous")
    return bool(elements.item(self))


@_method
def __int__(self: Tensor) -> int:
    return int(elements.item(self))


@_method
def __float__(self: Tensor) -> float:
    return float(elements.item(self))


@_method
def __complex__(self: Tensor) -> complex:
    return complex(elements.item(self))


@_method
def __index__(self: Tensor) -> int:
    if self._dtype.kind not in "bui" or self._layout.numel != 1:
        raise ArgumentTypeError("only integer tensors of a single element can be converted to an index")
    return int(elements.item(self))


@_method
def __iter__(self: Tensor) -> Iterator[Tensor]:
    if not self._layout.sizes:
        raise ArgumentTypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))


@_method
def __contains__(self: Tensor, value: Any) -> bool:
    return bool(elements.read(self.eq(value)).any())


@_method
def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Ask for gradients with respect to this tensor."""
    return autograd.set_requires_grad(self, requires_grad)


@_method
def backward(self: Tensor, *_: Any, **__: Any) -> None:
    """Refused: no gradients are computed."""
    autograd.refuse_backward(self)
