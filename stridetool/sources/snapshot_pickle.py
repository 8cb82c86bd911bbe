"""Unpickles plain data that nobody trusts: C speed behind one scan, and a slow inert machine for what is unusual.

What torch writes needs few opcodes, and these, run by C's unpickler, can neither import nor call. What could still
hang or exhaust it is refused by the scan, or left to the machine:

- lengths beyond the data and memo indices far beyond the number of values (C allocates up to the index);
- dict keys made to collide: integers of more than 8 bytes, and tuples of anything but two small integers, whose
  hash can be made exponential;
- far more empty containers than data: a byte each in the file, 64 in memory.

Sets, floats that are no numbers and everything that names an object need none of this: no snapshot has them.
"""

from __future__ import annotations

import functools
import io
import pickle
import re
from typing import Any, NoReturn

from stridetool.core.collections_off import without_collections
from stridetool.errors import InputError
from stridetool.sources.pickle_machine import MAX_BUDGET, Machine
from stridetool.sources.pickle_records import Dict, Global, Made, Persistent
from stridetool.sources.pickle_scan import (
    ALL_OPCODES,
    CODES,
    MANY,
    OPCODES,
    SHORT,
    argument_end,
    counted_argument,
    literal,
    memo_bound,
    memo_put,
    repeated,
    run_end,
    scan,
)

_FIXED = (
    *("PROTO", "FRAME", "MARK", "MEMOIZE", "BINPUT", "NONE", "NEWTRUE", "NEWFALSE"),
    *("BINFLOAT", "EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_DICT", "SETITEM", "SETITEMS"),
)
_TEXTS = ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8")
_SMALL = rb"(?:K.|M..|J....)"
_SMALLS = _SMALL + b"(?:%b%b)?" % (_SMALL, literal(CODES["TUPLE2"]))  # one, or a pair of them
# A key that was met before, and a value: one that was met before, an address or a time, a small number or a pair.
_FIELD = rb"(?:j....|h.)(?:j....|h.|\x8a\x07.{7}|\x8a\x06.{6}|%b)" % _SMALLS
_FRAMES = 8  # of a stack that are matched at a time
_BYTES_PER_CONTAINER = 8
_FREE_CONTAINERS = 1 << 20
_BYTES_PER_MEMO_ENTRY = 3  # the shortest way to put a new memo entry: a value of one byte, and BINPUT
_LEAST_MEMO = 255
_MACHINE_BYTES = 256 << 20
_BUFFER = 1 << 16


def load_plain(data: bytes) -> Any:
    """The dicts, lists, tuples, texts and numbers of the pickle at the start of `data`.

    Raises InputError for a pickle that names a global, an object beside it or an extension, with the name, and for
    one that is damaged or made to exhaust its reader. Nothing in it is imported or called.
    """
    if _is_ordinary(data):
        return _unpickled(data)
    return _by_machine(data)


class _Refusing(pickle.Unpickler):
    """C's unpickler, to which no name leads anywhere. The scan has let none through: this is the second lock."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise InputError(f"the pickle asks for {module}.{name}")

    def persistent_load(self, reference: Any) -> NoReturn:
        raise InputError("the pickle refers to an object beside it")


def _unpickled(data: bytes) -> Any:
    with without_collections():
        try:
            return _Refusing(io.BufferedReader(io.BytesIO(data), _BUFFER)).load()
        except InputError:
            raise
        except Exception as error:  # C raises a dozen kinds for a stack that lacks what an opcode needs
            raise InputError(f"the pickle is damaged: {error}") from error


def _is_ordinary(data: bytes) -> bool:
    """Whether everything up to STOP is among what torch writes and bounded by its form."""
    if data.count(b"]") + data.count(b"}") > _FREE_CONTAINERS + len(data) // _BYTES_PER_CONTAINER:
        return False
    pattern = _pattern(*memo_bound(max(_LEAST_MEMO, len(data) // _BYTES_PER_MEMO_ENTRY)))
    position, end = 0, len(data)
    while True:
        position = run_end(pattern, data, position)
        if position >= end:
            return False
        opcode = OPCODES.get(data[position])
        if opcode is not None and opcode.name == "STOP":
            return True
        if opcode is None or opcode.name not in _TEXTS:
            return False
        position = argument_end(data, position + 1, opcode)


@functools.lru_cache(maxsize=8)
def _pattern(memo_width: int, memo_top: int) -> re.Pattern[bytes]:
    """Matches the longest run of ordinary opcodes that need no closer look; what is frequent stands first."""
    put = memo_put(memo_width, memo_top)
    alternatives = [
        # An entry of a trace as one piece: each turn of the outer repetition costs as much as several opcodes.
        rb"}(?:\x94|q.|%b)\((?:%b)%bu?" % (put, _FIELD, MANY),
        # And a stack: a list of frames that were met before.
        rb"\](?:\x94|q.|%b)\((?:%b)%b(?:j....|h.)%be?" % (put, b"j...." * _FRAMES, MANY, MANY),
        b"h.",  # a literal is met faster than a set: BINGET, LONG_BINGET
        b"j....",
        b"[%b]" % _of_width(0),
        _SMALLS,
        *(b"[%b]%b" % (_of_width(width), b"." * width) for width in (1, 8)),
        put,
        literal(CODES["LONG1"]) + counted_argument(range(9), 1),
        literal(CODES["SHORT_BINUNICODE"]) + counted_argument(range(SHORT), 1),
        literal(CODES["BINUNICODE"]) + counted_argument(range(SHORT), 4),
    ]
    return repeated(alternatives)


def _of_width(width: int) -> bytes:
    return b"".join(literal(CODES[name]) for name in _FIXED if OPCODES[CODES[name]].width == width)


def _by_machine(data: bytes) -> Any:
    """The same by the inert machine: it hashes no key and makes no object, but takes its time."""
    found = scan(data, allow=ALL_OPCODES)
    if found.globals:
        raise _asks_for(*found.globals[0])
    if found.end > _MACHINE_BYTES:
        raise InputError("a pickle of this size is only read when it is of the form that torch writes")
    machine = Machine(data, 2 * MAX_BUDGET)
    value, _ = machine.run()
    if machine.globals:
        raise _asks_for(*next(iter(machine.globals)))
    if machine.persistent:
        raise InputError("the pickle refers to an object beside it")
    return _plain(value)


def _asks_for(module: str, name: str) -> InputError:
    return InputError(
        f"the pickle asks for {module}.{name}: refused",
        hint="a memory snapshot holds only dicts, lists, texts and numbers",
    )


def _plain(value: Any) -> Any:
    """Records of dicts as dicts with text keys, each object once however often it is referred to."""
    done: dict[int, Any] = {}
    pending = [value]
    while pending:
        item = pending.pop()
        if id(item) in done or not isinstance(item, Dict | list | tuple | Global | Made | Persistent):
            continue
        if isinstance(item, Global | Made | Persistent):
            raise InputError("the pickle makes an object: refused")
        done[id(item)] = {} if isinstance(item, Dict) else []
        pending.extend(v for _, v in item.pairs) if isinstance(item, Dict) else pending.extend(item)
    _fill(value, done)
    return done.get(id(value), value)


def _fill(value: Any, done: dict[int, Any]) -> None:
    pending, seen = [value], set[int]()
    while pending:
        item = pending.pop()
        if id(item) in seen or id(item) not in done:
            continue
        seen.add(id(item))
        target = done[id(item)]
        if isinstance(item, Dict):
            target.update((k, done.get(id(v), v)) for k, v in item.pairs if isinstance(k, str | int))
            pending.extend(v for _, v in item.pairs)
        else:
            target.extend(done.get(id(v), v) for v in item)
            pending.extend(item)
