"""The small parts of a tensor that are objects of their own: its sizes, its version counter, its place in a graph."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stridetool.core.tensor import Tensor


class Size(tuple[int, ...]):
    """The sizes of a tensor: a tuple that knows its product."""

    __slots__ = ()

    def numel(self) -> int:
        """The number of elements of a tensor of these sizes."""
        product = 1
        for size in self:
            product *= size
        return product

    def __repr__(self) -> str:
        return f"stridetool.Size({list(self)})"


class Version:
    """How often the memory behind a family of views was written; one object, shared by the family."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class AutogradMeta:
    """What autograd remembers of a tensor that takes part in a graph."""

    __slots__ = ("accumulator", "grad", "grad_fn", "output_nr", "requires_grad")

    def __init__(self, requires_grad: bool = False) -> None:
        self.requires_grad = requires_grad
        self.grad_fn: Any = None
        self.output_nr = 0
        self.grad: Tensor | None = None
        self.accumulator: weakref.ref[Any] | None = None
