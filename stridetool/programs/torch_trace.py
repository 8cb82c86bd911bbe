"""Operations of a real PyTorch program as records: two modes of torch, seen from inside this process.

The function mode names the call that the program made (`reshape`), the dispatch mode sees the copies that torch
makes beneath it (`clone`). Copies inside a kernel (a matmul on a strided matrix, say) are seen by neither.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import CodeType
from typing import Any

from stridetool.core.drivers.device import Device
from stridetool.core.dtype import DTYPES
from stridetool.core.layout import Layout
from stridetool.core.trace import CopyFacts, ErrorFacts, Record, Sink, TensorFacts

# aten operators that write elements which exist already somewhere else.
_COPIES = frozenset(
    ("clone", "_to_copy", "copy_", "index", "index_select", "gather", "take", "repeat", "flip", "roll", "cat",
     "stack", "masked_select", "tril", "triu", "constant_pad_nd", "unfold_copy", "expand_copy", "view_copy")
)  # fmt: skip

_SMALL = (int, float, str, slice, type(None), type(...))
_FIRST_SERIAL = 1 << 40  # beyond those of our own tensors, which the same program may make


@contextmanager
def torch_trace(sink: Sink) -> Iterator[Callable[[Any], int]]:
    """Hand the record of each call on torch tensors to `sink`; gives tensor → serial number, as in the records."""
    import torch
    from torch.overrides import TorchFunctionMode, resolve_name
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.weak import WeakIdKeyDictionary

    serials: Any = WeakIdKeyDictionary()
    numbers = itertools.count(_FIRST_SERIAL)

    def serial(tensor: Any) -> int:
        if tensor not in serials:
            serials[tensor] = next(numbers)
        number: int = serials[tensor]
        return number

    def facts(values: Any) -> tuple[TensorFacts, ...]:
        return tuple(_facts(value, serial(value)) for value in _flat(values) if _is_known(value))

    def _is_known(value: Any) -> bool:
        """Plain tensors of a type that has a name here; fake, quantised and wrapped ones are left out."""
        return type(value) in (torch.Tensor, torch.nn.Parameter) and _dtype_name(value) in DTYPES

    copies: list[CopyFacts] = []

    class Copies(TorchDispatchMode):  # type: ignore[misc]  # torch is not there to be checked
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            name = func.overloadpacket.__name__
            if name in _COPIES and isinstance(out, torch.Tensor):
                copies.append(CopyFacts(f"aten::{name}", out.numel() * out.element_size()))
            return out

    class Calls(TorchFunctionMode):  # type: ignore[misc]  # torch is not there to be checked
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            inputs = facts((*args, *kwargs.values()))
            copies.clear()
            out, error = None, None
            try:
                out = func(*args, **kwargs)
                return out
            except Exception as raised:
                error = ErrorFacts(type(raised).__name__, str(raised).split("\nException raised from")[0], None)
                raise
            finally:
                outputs = facts(out)
                if outputs or error is not None:
                    name = (resolve_name(func) or func.__name__).removesuffix(".__get__").rpartition(".")[2]
                    sink(Record(name, *_caller(), _plain(args, kwargs), inputs, outputs, tuple(copies), error))

    with ExitStack() as stack:
        stack.enter_context(Copies())
        stack.enter_context(Calls())
        yield serial


def _facts(tensor: Any, number: int) -> TensorFacts:
    storage = tensor.untyped_storage()
    return TensorFacts(
        number,
        storage._cdata,
        Layout(tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset()),
        DTYPES[_dtype_name(tensor)],
        Device(tensor.device.type, tensor.device.index),
        storage.nbytes(),
    )


def _dtype_name(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _plain(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """The arguments that are no tensors and small, keywords with their names."""
    given = tuple(tuple(value) if isinstance(value, list) else value for value in args)
    named = (f"{name}={value}" for name, value in kwargs.items() if isinstance(value, _SMALL))
    return (*(value for value in given if _is_small(value)), *named)


def _is_small(value: Any) -> bool:
    return isinstance(value, _SMALL) or (isinstance(value, tuple) and all(isinstance(item, _SMALL) for item in value))


def _flat(values: Any) -> Iterator[Any]:
    if isinstance(values, list | tuple):
        for value in values:
            yield from _flat(value)
    else:
        yield values


def _caller() -> tuple[CodeType, int]:
    """Code and instruction of the innermost frame outside torch and this package."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("torch", "stridetool"):
        frame = frame.f_back
    return frame.f_code, frame.f_lasti
