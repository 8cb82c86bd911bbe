"""A tensor as text: values as NumPy prints them, and what cannot be seen from the values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stridetool.core.options import get_default_dtype

if TYPE_CHECKING:
    from stridetool.core.tensor import Tensor


def tensor_text(x: Tensor) -> str:
    """`tensor([[1., 2.]], dtype=…, grad_fn=…)`; large tensors are summarised."""
    import numpy as np

    values = "..." if x.is_meta else np.array2string(_values(x), separator=", ", prefix="tensor(", threshold=1000)
    return f"tensor({', '.join([values, *_suffixes(x)])})"


def _values(x: Tensor) -> Any:
    from stridetool.core.elements import read

    return read(x)


def _suffixes(x: Tensor) -> list[str]:
    out = []
    if x.device.type != "cpu":
        out.append(f"device='{x.device}'")
    if x.is_meta or (not x.numel() and x.shape != (0,)):
        out.append(f"size={tuple(x.shape)}")
    if (x.dtype.name not in ("int64", "bool") and x.dtype is not get_default_dtype()) or not x.numel():
        out.append(f"dtype={x.dtype}")
    if x.grad_fn is not None:
        out.append(f"grad_fn=<{x.grad_fn.name()}>")
    elif x.requires_grad:
        out.append("requires_grad=True")
    return out
