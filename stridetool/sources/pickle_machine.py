"""An inert pickle machine: it builds records of what a pickle would make, and neither imports nor calls anything.

What it builds is in `pickle_records.py`. All opcodes of protocols 0 to 5 are taken that need no
registry and no buffers from outside. The work is bounded by a budget of steps, in which an opcode that allocates
counts for several, so that time and memory are bounded with it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from stridetool.core.collections_off import without_collections
from stridetool.errors import InputError
from stridetool.sources.pickle_records import Dict, Global, Made, Persistent, entries
from stridetool.sources.pickle_scan import INTEGER_BYTES, OPCODES, IncompleteError, line_end

BUDGET = 4_000_000  # steps of any pickle; a tensor of a checkpoint takes about 100
BUDGET_PER_RECORD = 200
MAX_BUDGET = 8_000_000
_LIGHT_STEP, _ALLOCATION, _NAME, _REFERENCE = 2, 4, 8, 32
_MAX_MEMO = 2_000_000  # the highest index; picklers count from 0 or 1
_MAX_WIDE = 4 << 20  # bytes of text beyond ASCII that is decoded: it takes up to four times as much as text
_ABSENT = object()


class Machine:
    """Runs one pickle. `globals` are the names in it, each once, `persistent` its references, each time; `budget` is
    what is left of the steps.
    """

    def __init__(self, data: bytes, budget: int = BUDGET) -> None:
        self._data = data
        self._stack: list[Any] = []
        self._marked: list[list[Any]] = []
        self._memo: list[Any] = []
        self._wide_left = _MAX_WIDE
        self.budget = budget
        self.globals: dict[tuple[str, str], Global] = {}
        self.persistent: list[Persistent] = []

    def run(self, start: int = 0) -> tuple[Any, int]:
        """The object of the pickle that begins at `start`, and where it ends (one past STOP).

        Raises InputError where it is broken, and IncompleteError (a subclass) where the data ends before STOP.
        """
        with without_collections():
            return self._run(start)

    def _run(self, start: int) -> tuple[Any, int]:
        position, data, size, handlers, budget = start, self._data, len(self._data), _HANDLERS, self.budget
        try:
            while True:
                width, counted, cost, handler = handlers[data[position]]
                position += 1
                budget -= cost
                if budget < 0:
                    raise InputError("the pickle has more steps than are taken for a file of its size")
                first, position = position, position + width
                if counted:
                    first, position = position, position + int.from_bytes(data[first:position], "little")
                elif width < 0:
                    position = line_end(data, first, -width)
                if position > size:
                    raise IncompleteError(f"the pickle claims {position - size:,} bytes more than there are")
                if handler is None:
                    break
                handler(self, data[first:position] if width else b"")
        except IndexError as error:
            if position >= size:
                raise IncompleteError("it is cut off: the pickle ends before its STOP") from error
            raise InputError(f"the pickle is broken at byte {position - start:,}: the stack lacks a value") from error
        except KeyError as error:
            raise InputError(f"byte 0x{data[position]:02x} at {position - start:,} is no opcode of a pickle") from error
        except (ValueError, struct.error) as error:
            raise InputError(f"the pickle is broken at byte {position - start:,}: {error}") from error
        self.budget = budget
        if len(self._stack) != 1 or self._marked:
            raise InputError("the pickle ends with more or less than one object")
        return self._stack[0], position

    # Each handler takes the raw argument of its opcode.

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _mark(self, _: bytes) -> None:
        self._marked.append(self._stack)
        self._stack = []

    def _pop_mark(self) -> list[Any]:
        items, self._stack = self._stack, self._marked.pop()
        return items

    def _drop_mark(self, _: bytes) -> None:
        self._pop_mark()

    def _pop(self, _: bytes) -> None:
        if self._stack:
            self._stack.pop()
        else:
            self._pop_mark()

    def _dup(self, _: bytes) -> None:
        self._stack.append(self._stack[-1])

    def _put(self, argument: bytes) -> None:
        self._remember(int.from_bytes(argument, "little"))

    def _put_line(self, argument: bytes) -> None:
        self._remember(int(argument))

    def _remember(self, index: int) -> None:
        memo = self._memo
        if index == len(memo):
            memo.append(self._stack[-1])
            return
        if not 0 <= index <= _MAX_MEMO:
            raise InputError(f"memo entry {index:,} of a pickle")
        memo.extend([_ABSENT] * (index + 1 - len(memo)))
        memo[index] = self._stack[-1]

    def _unsigned(self, argument: bytes) -> None:
        self._stack.append(int.from_bytes(argument, "little"))

    def _text(self, argument: bytes) -> None:
        self._stack.append(self._decoded(argument))

    def _decoded(self, argument: bytes) -> str | bytes:
        """The text; past the limit what is not ASCII stays as bytes."""
        if not argument.isascii():
            self._wide_left -= len(argument)
            if self._wide_left < 0:
                return argument
        return argument.decode("utf-8", "backslashreplace")

    def _get(self, index: int) -> None:
        if not 0 <= index < len(self._memo) or self._memo[index] is _ABSENT:
            raise InputError(f"the pickle uses memo entry {index:,} before it is there")
        self._stack.append(self._memo[index])

    def _memoize(self, _: bytes) -> None:
        self._remember(len(self._memo))

    def _global(self, argument: bytes) -> None:
        text = self._decoded(argument)
        if isinstance(text, bytes):
            raise InputError("the pickle names more than can be listed")
        module, name, _ = text.split("\n")
        self._stack.append(self._named(module, name))

    def _stack_global(self, _: bytes) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise InputError("STACK_GLOBAL over values that are no strings")
        self._stack.append(self._named(module, name))

    def _named(self, module: str, name: str) -> Global:
        return self.globals.setdefault((module, name), Global(module, name))

    def _reduce(self, _: bytes) -> None:
        args = self._stack.pop()
        self._stack[-1] = Made(self._stack[-1], args)

    def _newobj_ex(self, _: bytes) -> None:
        keywords, args = self._stack.pop(), self._stack.pop()
        self._stack[-1] = Made(self._stack[-1], (args, keywords))

    def _inst(self, argument: bytes) -> None:
        args = tuple(self._pop_mark())
        self._global(argument)
        self._stack[-1] = Made(self._stack[-1], args)

    def _obj(self, _: bytes) -> None:
        function, *args = self._pop_mark()
        self._stack.append(Made(function, tuple(args)))

    def _build(self, _: bytes) -> None:
        state = self._stack.pop()
        target = self._stack[-1]
        if not isinstance(target, Made):
            raise InputError("BUILD on something that no call made")
        target.state = state if target.state is None else (target.state, state)

    def _persistent(self, id: Any) -> None:
        reference = Persistent(id)
        self.persistent.append(reference)
        self._stack.append(reference)

    def _extend(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if isinstance(target, list):
            target.extend(items)
        elif isinstance(target, Made):
            target.items.extend(items)
        else:
            raise InputError("APPENDS on something that is no list")

    def _append(self, _: bytes) -> None:
        self._extend([self._stack.pop()])

    def _set_items(self, flat: list[Any]) -> None:
        target = self._stack[-1]
        if not isinstance(target, Dict | Made):
            raise InputError("SETITEMS on something that is no dict")
        target.pairs.extend(entries(flat))

    def _set_item(self, _: bytes) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._set_items([key, value])


def _line(argument: bytes) -> str:
    return argument[:-1].decode("ascii", "backslashreplace")


def _quoted(argument: bytes) -> bytes:
    text = argument.strip()
    if len(text) < 2 or text[:1] not in b"'\"" or text[-1:] != text[:1]:
        raise InputError("a string of protocol 0 without quotes")
    return text[1:-1]


def _integer_line(argument: bytes) -> int | bool:
    text = _line(argument).removesuffix("L")
    return text == "01" if text in ("00", "01") else int(text)


def _signed(argument: bytes) -> int:
    if len(argument) > INTEGER_BYTES:
        raise InputError(f"an integer of {len(argument):,} bytes in the pickle")
    return int.from_bytes(argument, "little", signed=True)


def _double(argument: bytes) -> float:
    value: float = struct.unpack(">d", argument)[0]
    return value


Handler = Callable[[Machine, bytes], None]


def _value(decode: Callable[[bytes], Any]) -> Handler:
    return lambda machine, argument: machine._stack.append(decode(argument))


def _constant(value: Any) -> Handler:
    return lambda machine, _: machine._stack.append(value)


def _collect(make: Callable[[list[Any]], Any]) -> Handler:
    return lambda machine, _: machine._push(make(machine._pop_mark()))


def _top(count: int) -> Handler:
    def handler(machine: Machine, _: bytes) -> None:
        stack = machine._stack
        items = tuple(stack[-count:])
        if len(items) != count:
            raise InputError(f"TUPLE{count} over fewer values")
        del stack[-count:]
        stack.append(items)

    return handler


_LIGHT: dict[str, Handler] = {
    "PROTO": lambda machine, _: None,
    "FRAME": lambda machine, _: None,
    "POP": Machine._pop,
    "POP_MARK": Machine._drop_mark,
    "DUP": Machine._dup,
    "NONE": _constant(None),
    "NEWTRUE": _constant(True),
    "NEWFALSE": _constant(False),
    "EMPTY_TUPLE": _constant(()),
    "BININT1": Machine._unsigned,
    "BININT2": Machine._unsigned,
    "BININT": _value(_signed),
    "PUT": Machine._put_line,
    "BINPUT": Machine._put,
    "LONG_BINPUT": Machine._put,
    "MEMOIZE": Machine._memoize,
    "GET": lambda machine, argument: machine._get(int(argument)),
    "BINGET": lambda machine, argument: machine._get(argument[0]),
    "LONG_BINGET": lambda machine, argument: machine._get(int.from_bytes(argument, "little")),
    "APPEND": Machine._append,
    "APPENDS": lambda machine, _: machine._extend(machine._pop_mark()),
    "ADDITEMS": lambda machine, _: machine._extend(machine._pop_mark()),
    "BUILD": Machine._build,
}
_HEAVY: dict[str, Handler] = {
    "MARK": Machine._mark,
    "INT": _value(_integer_line),
    "LONG": _value(_integer_line),
    "LONG1": _value(_signed),
    "LONG4": _value(_signed),
    "FLOAT": _value(lambda argument: float(_line(argument))),
    "BINFLOAT": _value(_double),
    "STRING": lambda machine, argument: machine._text(_quoted(argument)),
    "UNICODE": lambda machine, argument: machine._text(argument[:-1]),
    **dict.fromkeys(("BINSTRING", "SHORT_BINSTRING", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"), Machine._text),
    **dict.fromkeys(("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"), _value(bytes)),
    "EMPTY_LIST": lambda machine, _: machine._push([]),
    "EMPTY_SET": lambda machine, _: machine._push([]),
    "EMPTY_DICT": lambda machine, _: machine._push(Dict([])),
    "LIST": _collect(lambda items: items),
    "TUPLE": _collect(tuple),
    "FROZENSET": _collect(tuple),
    "DICT": _collect(lambda items: Dict(entries(items))),
    "TUPLE1": _top(1),
    "TUPLE2": _top(2),
    "TUPLE3": _top(3),
    "SETITEM": Machine._set_item,
    "SETITEMS": lambda machine, _: machine._set_items(machine._pop_mark()),
    "GLOBAL": Machine._global,
    "STACK_GLOBAL": Machine._stack_global,
    "REDUCE": Machine._reduce,
    "NEWOBJ": Machine._reduce,
    "NEWOBJ_EX": Machine._newobj_ex,
    "INST": Machine._inst,
    "OBJ": Machine._obj,
    "PERSID": lambda machine, argument: machine._persistent(machine._decoded(argument[:-1])),
    "BINPERSID": lambda machine, _: machine._persistent(machine._stack.pop()),
}


def _cost(name: str) -> int:
    """Steps that an opcode takes from the budget: references are looked up and checked later, one by one."""
    if name in ("GLOBAL", "INST", "STACK_GLOBAL"):
        return _NAME
    return _REFERENCE if name.endswith("PERSID") else _LIGHT_STEP if name in _LIGHT else _ALLOCATION


def budget_for(records: int) -> int:
    """The steps that the pickle of an archive with so many records may take."""
    return min(BUDGET + BUDGET_PER_RECORD * records, MAX_BUDGET)


def _handlers() -> dict[int, tuple[int, bool, int, Handler | None]]:
    """By opcode: (bytes of a fixed argument or of a length, minus the lines of one; counted; cost; handler).

    STOP has no handler.
    """
    lines = {"line": -1, "two lines": -2}
    return {
        code: (
            lines.get(opcode.argument, opcode.width),
            opcode.argument == "counted",
            _cost(opcode.name),
            None if opcode.name == "STOP" else _LIGHT.get(opcode.name) or _HEAVY[opcode.name],
        )
        for code, opcode in OPCODES.items()
    }


_HANDLERS = _handlers()
