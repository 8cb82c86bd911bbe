"""Which function runs an operator: a table operator × dispatch key, with priority and a cached look-up.

A call's keys are the union of its tensors' keys and of the modes that are on; the highest key answers first and hands
on to the next. A key's number is its bit, so priority is the bit's weight: Trace over Autograd over the backends.
A new backend is `register_backend`, a new operator is the `operator` decorator, a better kernel is
`OPERATORS["copy_into"].register(CPU, kernel)`: nothing else has to change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from stridetool.errors import ArgumentTypeError, UnsupportedError

Kernel = Callable[..., Any]
GradName = str | Callable[[tuple[Any, ...]], str] | None
F = TypeVar("F", bound=Kernel)
Layer = Callable[["Operator", Kernel], Kernel]

CPU, CUDA, META = 1, 2, 4
AUTOGRAD, TRACE = 1 << 30, 1 << 31
BACKENDS = AUTOGRAD - 1

OPERATORS: dict[str, Operator] = {}
_backends: dict[str, int] = {"cpu": CPU, "cuda": CUDA, "meta": META}
_layers: dict[int, Layer] = {}
_modes = 0


class Operator:
    """One operator: its kernels by key, and the functions that calls of a given key set resolve to.

    `grad` is torch's name of the backward node, or a function from arguments to it (None: built from other
    operators, or not differentiable).
    `composite` answers for every backend that has no kernel of its own.
    """

    __slots__ = ("call", "composite", "grad", "is_method", "is_property", "kernels", "name", "table")

    def __init__(self, name: str, composite: Kernel | None, grad: GradName) -> None:
        self.name = name
        self.composite = composite
        self.grad = grad
        self.kernels: dict[int, Kernel] = {}
        self.table = _Table(self)
        self.call: Kernel = _missing
        self.is_method = False
        self.is_property = False

    def register(self, key: int, kernel: Kernel) -> None:
        """Let `kernel` answer for the backend `key`."""
        self.kernels[key] = kernel
        self.table.clear()

    def resolve(self, keys: int) -> Kernel:
        """The function for a set of keys: the backend's kernel, wrapped by each layer that is on."""
        kernel = self._backend_kernel(keys & BACKENDS)
        for key in sorted(_layers):
            if keys & key:
                kernel = _layers[key](self, kernel)
        return kernel

    def _backend_kernel(self, keys: int) -> Kernel:
        for key in sorted(self.kernels, reverse=True):
            if key & keys:
                return self.kernels[key]
        if self.composite is not None:
            return self.composite
        names = ", ".join(name for name, key in _backends.items() if key & keys) or "no"
        raise UnsupportedError(
            f"Could not run '{self.name}' with arguments from the '{names}' backend",
            hint="register a kernel for it with the dispatcher",
        )


class _Table(dict[int, Kernel]):
    """Key set → function, resolved when first asked for."""

    __slots__ = ("operator",)

    def __init__(self, operator: Operator) -> None:
        self.operator = operator

    def __missing__(self, keys: int) -> Kernel:
        kernel = self[keys] = self.operator.resolve(keys)
        return kernel


def _missing(*_: Any, **__: Any) -> Any:
    raise UnsupportedError("operator without an entry point")


def register_backend(device_type: str) -> int:
    """The dispatch key of tensors on `device_type`; a new one for a type that is not known yet."""
    if device_type not in _backends:
        _backends[device_type] = 1 << len(_backends)
    return _backends[device_type]


def backends() -> tuple[str, ...]:
    """The device types that have a dispatch key."""
    return tuple(_backends)


def register_layer(key: int, layer: Layer) -> None:
    """Let `layer` wrap every operator that is called with `key`."""
    _layers[key] = layer


def set_mode(key: int, on: bool) -> None:
    """Turn a key on or off for all calls of the process."""
    global _modes
    _modes = _modes | key if on else _modes & ~key


def operator(
    name: str | None = None,
    *,
    grad: GradName = None,
    method: bool = True,
    attribute: bool = False,
    keys: str = "self",
) -> Callable[[F], F]:
    """Make an operator of a function, which answers for every backend; returns the dispatching call.

    `keys` says where a call's keys come from: "self" (the first argument, the fast way), "all" (every tensor among
    the arguments) or "none" (factories: the function looks at its options). `attribute`: read without a call.
    """

    def decorate(function: F) -> F:
        op = Operator(name or function.__name__, function, grad)
        op.is_method, op.is_property = method, attribute
        op.call = _ENTRIES[keys](op)
        op.call.__name__ = op.call.__qualname__ = op.name
        op.call.__doc__ = function.__doc__
        op.call.__wrapped__ = function  # type: ignore[attr-defined]  # what inspect.signature shows
        OPERATORS[op.name] = op
        return cast(F, op.call)

    return decorate


def _entry_self(op: Operator) -> Kernel:
    table = op.table

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            keys = self._keys
        except AttributeError:
            raise _not_a_tensor(op, self) from None
        return table[keys | _modes](self, *args, **kwargs)

    return call


def _entry_all(op: Operator) -> Kernel:
    table = op.table

    def call(*args: Any, **kwargs: Any) -> Any:
        keys = _modes
        for value in args:
            keys |= _keys_of(value)
        if not keys & BACKENDS and not (args and isinstance(args[0], list | tuple)):
            raise _not_a_tensor(op, args[0] if args else None)
        return table[keys](*args, **kwargs)

    return call


def _entry_none(op: Operator) -> Kernel:
    table = op.table

    def call(*args: Any, **kwargs: Any) -> Any:
        return table[_modes](*args, **kwargs)

    return call


_ENTRIES: dict[str, Callable[[Operator], Kernel]] = {
    "self": _entry_self,
    "all": _entry_all,
    "none": _entry_none,
}


def _keys_of(value: Any) -> int:
    keys: int | None = getattr(value, "_keys", None)
    if keys is not None:
        return keys
    if not isinstance(value, list | tuple):
        return 0
    keys = 0
    for item in value:
        keys |= getattr(item, "_keys", 0)
    return keys


def _not_a_tensor(op: Operator, value: object) -> ArgumentTypeError:
    return ArgumentTypeError(f"{op.name}(): argument 'input' (position 1) must be Tensor, not {type(value).__name__}")
