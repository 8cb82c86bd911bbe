"""The Trace key: one record per operator that the user called, handed to whoever installed a sink.

A record holds facts and no tensor, so tracing changes no lifetime. An operator that is built from others (reshape
calling clone) is recorded as the one that was called.
"""

from __future__ import annotations

import itertools
import sys
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import msgspec

from stridetool.core import dispatch
from stridetool.core.drivers.device import Device
from stridetool.core.dtype import DType
from stridetool.core.facets import Size
from stridetool.core.layout import Layout
from stridetool.core.options import MemoryFormat
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


class Record(msgspec.Struct, frozen=True, gc=False):
    """One operator. `inputs` are as they were before it ran, `outputs` as they are after.

    `arguments` are those that are no tensors and small: integers, sizes, formats, dtypes. The call was
    made by the innermost frame that is not this package's: `source` and `position` are its code and instruction, or
    a file and a line.
    """

    op: str
    source: CodeType | str
    position: int
    arguments: tuple[Any, ...]
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    copies: tuple[CopyFacts, ...]
    error: ErrorFacts | None = None

    @property
    def file(self) -> str:
        """The file of the line that called the operator."""
        return self.source if isinstance(self.source, str) else self.source.co_filename

    @property
    def line(self) -> int:
        """That line; found when asked for, because most records are never looked at."""
        return self.position if isinstance(self.source, str) else _line_of(self.source, self.position)

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


def _line_of(code: CodeType, instruction: int) -> int:
    """The line of an instruction, by bisection: a frame's own `f_lineno` walks the code from its start each time."""
    known = _line_tables.get(id(code))
    if known is None:
        table = [(start, line) for start, _, line in code.co_lines() if line is not None]
        known = _line_tables[id(code)] = code, [start for start, _ in table], [line for _, line in table]
    _, starts, lines = known
    return lines[max(bisect_right(starts, instruction) - 1, 0)]


_line_tables: dict[int, tuple[CodeType, list[int], list[int]]] = {}

Sink = Callable[[Record], None]


class _State(threading.local):
    """Per thread: the copies made so far by the operator that is being recorded; None outside one."""

    copies: list[CopyFacts] | None = None


_state = _State()
_sinks: list[Sink] = []
_serials = itertools.count(1)
_SIMPLE = frozenset((int, bool, float, complex, str, MemoryFormat, slice, type(None), type(...), DType, Device))
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
    """The facts of `x` now; kept with it, because an output is mostly an input soon."""
    storage = x._storage
    pointer = storage.pointer
    known: TensorFacts | None = x._facts
    if known is None:
        serial = next(_serials)
    elif known.layout is x._layout and known.storage == storage._serial and known.storage_nbytes == pointer.nbytes:
        return known
    else:
        serial = known.tensor
    facts = TensorFacts(serial, storage._serial or storage.serial, x._layout, x._dtype, pointer.device, pointer.nbytes)
    x._facts = facts
    return facts


def _layer(op: dispatch.Operator, below: dispatch.Kernel) -> dispatch.Kernel:
    """`below`, recorded, unless it runs inside an operator that is being recorded.

    Written for speed: this may not cost more than the operator itself.
    """
    state, name, simple, frame_at = _state, op.name, _SIMPLE, sys._getframe

    def recorded(*args: Any, **kwargs: Any) -> Any:
        if state.copies is not None:
            return below(*args, **kwargs)
        copies: list[CopyFacts] = []
        state.copies = copies
        try:
            arguments = args[1:]
            plain = bool(args) and not kwargs and type(args[0]) is Tensor
            for value in arguments:
                if type(value) not in simple and not (type(value) is tuple and simple.issuperset(map(type, value))):
                    plain = False
                    break
            if plain:
                inputs: tuple[TensorFacts, ...] = (facts_of(args[0]),)
                out = below(*args)
            else:
                inputs, arguments = _described((*args, *kwargs.values()))
                out = below(*args, **kwargs)
        except Exception as error:
            record = Record(name, *_caller(frame_at(1)), arguments, inputs, (), tuple(copies), _error_facts(error))
            _send(record)
            raise
        finally:
            state.copies = None
        outputs = (facts_of(out),) if type(out) is Tensor else _tensors(out)
        frame = frame_at(2)
        if frame.f_globals.get("__name__", "")[:11] == "stridetool.":
            source, position = _caller(frame)
        else:
            source, position = frame.f_code, frame.f_lasti
        record = Record(name, source, position, arguments, inputs, outputs, tuple(copies) if copies else ())
        for sink in _sinks:
            sink(record)
        return out

    return recorded


def _caller(frame: FrameType | None) -> tuple[CodeType, int]:
    """Where the innermost frame that is not this package's stands."""
    while frame is not None:
        if not frame.f_globals.get("__name__", "").startswith("stridetool."):
            return frame.f_code, frame.f_lasti
        frame = frame.f_back
    return _caller.__code__, 0


def _send(record: Record) -> None:
    for sink in _sinks:
        sink(record)


def _described(values: Sequence[Any]) -> tuple[tuple[TensorFacts, ...], tuple[Any, ...]]:
    """The tensors among arguments, and the other arguments as far as a record keeps them."""
    plain = [v if type(v) in _SIMPLE else _kept(v) for v in values if type(v) is not Tensor]
    return _tensors(values), tuple(plain)


def _tensors(values: Any) -> tuple[TensorFacts, ...]:
    """The facts of the tensors in a list or tuple, and in lists and tuples in it."""
    found: list[TensorFacts] = []
    if type(values) is list or type(values) is tuple:
        for value in values:
            if type(value) is Tensor:
                found.append(facts_of(value))
            elif type(value) is list or type(value) is tuple:
                found += _tensors(value)
    return tuple(found)


def _error_facts(error: Exception) -> ErrorFacts:
    if isinstance(error, StrideToolError):
        builtin = next(c for c in type(error).__mro__ if c.__module__ == "builtins")
        return ErrorFacts(builtin.__name__, error.message, error.hint)
    return ErrorFacts(type(error).__name__, str(error), None)


def _kept(value: Any) -> Any:
    """Sequences of small values as tuples; `...` for anything else, which is not kept alive."""
    if type(value) in (tuple, list, Size) and len(value) <= _SMALL:
        return tuple([item if type(item) in _SIMPLE else ... for item in value])
    return ...


dispatch.register_layer(dispatch.TRACE, _layer)
