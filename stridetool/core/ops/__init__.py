"""All operators. Loading this package hangs them on the Tensor class as methods and attributes."""

from __future__ import annotations

from stridetool.core.dispatch import OPERATORS
from stridetool.core.ops import (
    complexes,
    copies,
    elementwise,
    factories,
    index,
    leaving,
    likes,
    metadata,
    split,
    views,
)
from stridetool.core.tensor import Tensor

__all__ = ["complexes", "copies", "elementwise", "factories", "index", "leaving", "likes", "metadata", "split", "views"]

for _op in OPERATORS.values():
    if _op.is_method:
        setattr(Tensor, _op.name, property(_op.call) if _op.is_property else _op.call)
