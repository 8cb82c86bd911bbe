"""The Trace key: one record per operator that the user called, handed to whoever installed a sink.

A record holds facts and no tensor, so tracing changes no lifetime. An operator that is built from others (reshape
calling clone) is recorded as the one that was called.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import msgspec

from stridetool.core import dispatch
from stridetool.core.drivers.device import Device
from stridetool.core.dtype import DType
from stridetool.core.layout import Layout
from stridetool.core.tensor import Tensor
from stridetool.errors import StrideToolError


class TensorFacts(msgspec.Struct, frozen=True, gc=False):
    """A tensor at one moment. `tensor` and `storage` are serial numbers, `storage_nbytes` bytes."""

    tensor: int
    storage: int
    layout: Layout
    dtype: DType
    device: Device
    storage_nbytes: int


class CopyFacts(msgspec.Struct, frozen=True, gc=False):
    """One copy of elements: the kernel that ran and the bytes that it wrote."""

    kernel: str
    nbytes: int


class ErrorFacts(msgspec.Struct, frozen=True, gc=False):
    """How an operator failed."""

    type: str
    message: str
    hint: str | None


class Record(msgspec.Struct, frozen=True):
    """One operator. `inputs` are as they were before it ran, `outputs` as they are after.

    `arguments` are those that are no tensors and small: integers, sizes, formats, dtypes.
    """

    op: str
    file: str
    line: int
    arguments: tuple[Any, ...]
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    copies: tuple[CopyFacts, ...]
    error: ErrorFacts | None = None

    @property
    def copied(self) -> bool:
        """Whether elements were copied."""
        return bool(self.copies)

    @property
    def copied_bytes(self) -> int:
        """Bytes written by copies."""
        return sum(copy.nbytes for copy in self.copies)

    @property
    def strides_changed(self) -> bool:
        """Whether an output has other strides than the first input."""
        return self._differs("strides")

    @property
    def offset_changed(self) -> bool:
        """Whether an output has another offset than the first input."""
        return self._differs("offset")

    @property
    def shares_storage(self) -> bool:
        """Whether an output shares the storage of an input."""
        return bool({facts.storage for facts in self.inputs} & {facts.storage for facts in self.outputs})

    @property
    def kind(self) -> str:
        """`self` (the very input), `in-place`, `view`, `copy`, `new` (made or computed) or `none` (no output)."""
        if not self.outputs:
            return "none"
        if self.inputs and self.outputs[0].tensor == self.inputs[0].tensor:
            changed = self.op.endswith("_") and not self.op.endswith("get__")
            return "in-place" if changed else "self"
        if self.shares_storage:
            return "view"
        return "copy" if self.copies else "new"

    def _differs(self, field: str) -> bool:
        if not self.inputs:
            return False
        before = getattr(self.inputs[0].layout, field)
        return any(getattr(facts.layout, field) != before for facts in self.outputs)


Sink = Callable[[Record], None]


class _State(threading.local):
    """Per thread: the copies made so far by the operator that is being recorded; None outside one."""

    copies: list[CopyFacts] | None = None


_state = _State()
_sinks: list[Sink] = []
_SMALL = 64  # items of a sequence that a record keeps


@contextmanager
def trace(sink: Sink) -> Iterator[None]:
    """Call `sink` with the record of every operator, in every thread, until the block ends."""
    _sinks.append(sink)
    dispatch.set_mode(dispatch.TRACE, True)
    try:
        yield
    finally:
        _sinks.remove(sink)
        dispatch.set_mode(dispatch.TRACE, bool(_sinks))


def note_copy(kernel: str, nbytes: int) -> None:
    """Kernels that copy elements say so here: `nbytes` were written."""
    if _state.copies is not None and nbytes:
        _state.copies.append(CopyFacts(kernel, nbytes))


def facts_of(x: Tensor) -> TensorFacts:
    """The facts of `x` now."""
    storage = x._storage
    pointer = storage.pointer
    return TensorFacts(
        x._serial or x.serial,
        storage._serial or storage.serial,
        x._layout,
        x._dtype,
        pointer.device,
        pointer.nbytes,
    )


def _layer(op: dispatch.Operator, below: dispatch.Kernel) -> dispatch.Kernel:
    """`below`, recorded, unless it runs inside an operator that is being recorded."""
    state, name = _state, op.name

    def recorded(*args: Any, **kwargs: Any) -> Any:
        if state.copies is not None:
            return below(*args, **kwargs)
        inputs = _tensors(args) if not kwargs else _tensors((*args, *kwargs.values()))
        copies: list[CopyFacts] = []
        state.copies = copies
        out, error = None, None
        try:
            out = below(*args, **kwargs)
        except Exception as raised:
            error = _error_facts(raised)
            raise
        finally:
            state.copies = None
            file, line = _caller()
            outputs = (facts_of(out),) if type(out) is Tensor else _outputs(out)
            record = Record(name, file, line, _plain(args, kwargs), inputs, outputs, tuple(copies), error)
            for sink in _sinks:
                sink(record)
        return out

    return recorded


def _tensors(values: Sequence[Any]) -> tuple[TensorFacts, ...]:
    found: list[TensorFacts] = []
    for value in values:
        if type(value) is Tensor:
            found.append(facts_of(value))
        elif type(value) in (list, tuple):
            found += [facts_of(item) for item in value if type(item) is Tensor]
    return tuple(found)


def _outputs(out: Any) -> tuple[TensorFacts, ...]:
    return _tensors(out) if type(out) in (list, tuple) else ()


def _error_facts(error: Exception) -> ErrorFacts:
    if isinstance(error, StrideToolError):
        builtin = next(c for c in type(error).__mro__ if c.__module__ == "builtins")
        return ErrorFacts(builtin.__name__, error.message, error.hint)
    return ErrorFacts(type(error).__name__, str(error), None)


_PLAIN = (int, float, complex, str, slice, type(None), type(...), DType, Device)


def _plain(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    values = (*args, *kwargs.values()) if kwargs else args
    return tuple([_kept(value) for value in values if type(value) is not Tensor])


def _kept(value: Any) -> Any:
    """Small values as they are, sequences of them as tuples; `...` for anything else, which is not kept alive."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, list | tuple) and len(value) <= _SMALL:
        return tuple([item if isinstance(item, _PLAIN) else ... for item in value])
    return ...


def _caller() -> tuple[str, int]:
    """File and line of the innermost frame that is not this package's."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith("stridetool."):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return "?", 0


dispatch.register_layer(dispatch.TRACE, _layer)
