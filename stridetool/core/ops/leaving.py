"""Where values leave the library: Python numbers and lists, NumPy, and Python's own protocols on tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from stridetool.core import autograd, elements
from stridetool.core.drivers.device import Device
from stridetool.core.dtype import DTYPES
from stridetool.core.layout import Layout
from stridetool.core.storage import Storage, storage_of
from stridetool.core.tensor import Tensor, bump, make_tensor
from stridetool.errors import ArgumentTypeError, ArgumentValueError, TensorError, UnsupportedError

F = TypeVar("F", bound=Callable[..., Any])


def _method(name: str) -> Callable[[F], F]:
    """Hang a function that is no operator (it makes no tensor) on the class."""

    def hang(function: F) -> F:
        setattr(Tensor, name, function)
        return function

    return hang


@_method("item")
def item(self: Tensor) -> Any:
    """The only element as a Python number."""
    return elements.item(self)


@_method("tolist")
def tolist(self: Tensor) -> Any:
    """The values as nested lists of Python numbers."""
    return elements.read(self).tolist()


@_method("__bool__")
def _bool(self: Tensor) -> bool:
    if self._layout.numel > 1:
        raise TensorError("Boolean value of Tensor with more than one value is ambiguous")
    if self._layout.numel == 0:
        raise TensorError("Boolean value of Tensor with no values is ambiguous")
    return bool(elements.item(self))


def _scalar(self: Tensor) -> Any:
    if self._layout.numel != 1:
        raise ArgumentValueError("only one element tensors can be converted to Python scalars")
    return elements.item(self)


@_method("__int__")
def _int(self: Tensor) -> int:
    return int(_scalar(self))


@_method("__float__")
def _float(self: Tensor) -> float:
    return float(_scalar(self))


@_method("__complex__")
def _complex(self: Tensor) -> complex:
    return complex(_scalar(self))


@_method("__index__")
def _index(self: Tensor) -> int:
    if self._dtype.kind not in "bui" or self._layout.numel != 1:
        raise ArgumentTypeError("only integer tensors of a single element can be converted to an index")
    return int(elements.item(self))


@_method("__iter__")
def _iter(self: Tensor) -> Iterator[Tensor]:
    if not self._layout.sizes:
        raise ArgumentTypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))


@_method("__contains__")
def _contains(self: Tensor, value: Any) -> bool:
    return bool(elements.read(self.eq(value)).any())


@_method("requires_grad_")
def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Ask for gradients with respect to this tensor."""
    if requires_grad and self._dtype.kind not in "fc":
        raise TensorError("only Tensors of floating point dtype can require gradients")
    return autograd.set_requires_grad(self, requires_grad)


@_method("backward")
def backward(self: Tensor, *_: Any, **__: Any) -> None:
    """Refused: no gradients are computed."""
    autograd.refuse_backward(self)


def is_tensor(value: object) -> bool:
    """Whether it is a tensor of this library."""
    return isinstance(value, Tensor)


def _function(name: str) -> Callable[[Any], Any]:
    """A method of tensors that states a fact, as the function that torch also has."""

    def function(input: Any) -> Any:
        if not isinstance(input, Tensor):
            raise ArgumentTypeError(
                f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
            )
        return getattr(input, name)()

    function.__name__ = function.__qualname__ = name
    return function


FUNCTIONS = {
    name: _function(name)
    for name in (
        *("get_device", "is_complex", "is_conj", "is_floating_point", "is_inference", "is_neg", "is_signed"),
        "numel",
    )
}
"""Functions over facts of a tensor; they make none, so they are no operators."""


@_method("__deepcopy__")
def _deepcopy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    """A copy of the whole storage, with the same layout over it; tensors that shared it share the copy."""
    if not self.is_leaf:
        raise TensorError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  "
            "If you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, "
            "see https://github.com/pytorch/pytorch/pull/103001"
        )
    if id(self) not in memo:
        memo[id(self)] = _rebuilt(copy.deepcopy(self._storage, memo), self)
    out: Tensor = memo[id(self)]
    return out


def _rebuilt(storage: Storage, like: Tensor) -> Tensor:
    out = make_tensor(storage, like._layout, like._dtype)
    out._bits = like._bits
    bump(out)  # as torch's, which is made by set_
    return autograd.set_requires_grad(out, like.requires_grad)


@_method("__copy__")
def _copy(self: Tensor) -> Tensor:
    """Another tensor over the same memory."""
    return _rebuilt(self._storage, self.detach())


@_method("__reduce_ex__")
def _reduce(self: Tensor, protocol: Any) -> Any:
    """As torch pickles: the whole storage (once for each tensor, even if they share it), the layout, the type."""
    storage = self._storage
    held = bytes(storage), storage.device, storage.nbytes()
    return _restore, (held, self._layout, self._dtype.name, self._bits, self.requires_grad)


def _restore(held: tuple[bytes, Device, int], layout: Layout, dtype: str, bits: int, requires_grad: bool) -> Tensor:
    out = make_tensor(storage_of(*held), layout, DTYPES[dtype])
    out._bits = bits
    return autograd.set_requires_grad(out, requires_grad)


def _refuse(sign: str) -> Callable[..., Any]:
    def refused(*_: Any) -> Any:
        raise UnsupportedError(
            f"the operator {sign} on tensors is not supported: this library is about memory layout, not arithmetic",
            hint="compute in NumPy: x.numpy()",
        )

    return refused


_REFUSED = {
    "@": ("matmul", "rmatmul"),
    "//": ("floordiv", "rfloordiv"),
    "%": ("mod", "rmod"),
    "&": ("and", "rand"),
    "|": ("or", "ror"),
    "^": ("xor", "rxor"),
    "<<": ("lshift", "rlshift"),
    ">>": ("rshift", "rrshift"),
    "~": ("invert",),
    "abs()": ("abs",),
}
for _sign, _names in _REFUSED.items():
    for _name in _names:
        setattr(Tensor, f"__{_name}__", _refuse(_sign))
