"""What a pickle is made of, without running it: the opcode table, and a scan that bounds everything it holds.

The scan walks from opcode to opcode over the arguments. It is one compiled pattern for the opcodes that can do no
harm, so that it costs a fraction of unpickling; only globals, long arguments and STOP come up to Python. Opcodes
and arguments are those of `pickletools` (protocols 0 to 5), without out-of-band buffers and the extension registry.
"""

from __future__ import annotations

import functools
import re
import struct
import sys
from collections.abc import Iterable
from typing import Literal, NamedTuple

import msgspec

from stridetool.errors import InputError

# Repetition that never goes back. Python took wrong ways with the possessive one before 3.11.5 (gh-106052); there the
# ordinary one serves in pieces, for it remembers every turn.
MANY = b"*+" if sys.version_info >= (3, 11, 5) else b"{0,256}"

Argument = Literal["fixed", "counted", "line", "two lines"]


class Opcode(NamedTuple):
    """`width` is the size in bytes of a fixed argument, or of the length that stands before a counted one."""

    name: str
    argument: Argument
    width: int


def _table() -> dict[int, Opcode]:
    fixed = {
        0: "( MARK,. STOP,0 POP,1 POP_MARK,2 DUP,N NONE,\x88 NEWTRUE,\x89 NEWFALSE,) EMPTY_TUPLE,\x85 TUPLE1,"
        "\x86 TUPLE2,\x87 TUPLE3,t TUPLE,] EMPTY_LIST,l LIST,a APPEND,e APPENDS,} EMPTY_DICT,d DICT,s SETITEM,"
        "u SETITEMS,\x8f EMPTY_SET,\x90 ADDITEMS,\x91 FROZENSET,R REDUCE,b BUILD,o OBJ,\x81 NEWOBJ,"
        "\x92 NEWOBJ_EX,\x93 STACK_GLOBAL,\x94 MEMOIZE,Q BINPERSID",
        1: "\x80 PROTO,K BININT1,h BINGET,q BINPUT",
        2: "M BININT2",
        4: "J BININT,j LONG_BINGET,r LONG_BINPUT",
        8: "G BINFLOAT,\x95 FRAME",
    }
    counted = {
        1: "\x8a LONG1,U SHORT_BINSTRING,C SHORT_BINBYTES,\x8c SHORT_BINUNICODE",
        4: "\x8b LONG4,T BINSTRING,B BINBYTES,X BINUNICODE",
        8: "\x8e BINBYTES8,\x8d BINUNICODE8,\x96 BYTEARRAY8",
    }
    lines: dict[Argument, str] = {
        "line": "I INT,L LONG,F FLOAT,S STRING,V UNICODE,P PERSID,g GET,p PUT",
        "two lines": "c GLOBAL,i INST",
    }
    kinds: tuple[tuple[Argument, dict[int, str]], ...] = (("fixed", fixed), ("counted", counted))
    table = {
        ord(entry[0]): Opcode(entry[2:], argument, width)
        for argument, widths in kinds
        for width, entries in widths.items()
        for entry in entries.split(",")
    }
    for argument, entries in lines.items():
        table |= {ord(entry[0]): Opcode(entry[2:], argument, 0) for entry in entries.split(",")}
    return table


OPCODES: dict[int, Opcode] = _table()
CODES: dict[str, int] = {opcode.name: code for code, opcode in OPCODES.items()}
ALL_OPCODES = frozenset(OPCODES)
# What data of plain containers, numbers and strings needs: nothing here names, makes or calls an object.
PLAIN_OPCODES = frozenset(
    CODES[name]
    for name in (
        *("PROTO", "FRAME", "STOP", "MARK", "POP", "POP_MARK", "DUP", "MEMOIZE", "BINPUT", "LONG_BINPUT"),
        *("BINGET", "LONG_BINGET", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "LONG4"),
        *("BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINSTRING", "SHORT_BINSTRING", "BINBYTES"),
        *("SHORT_BINBYTES", "BINBYTES8", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_LIST", "APPEND"),
        *("APPENDS", "EMPTY_DICT", "SETITEM", "SETITEMS", "EMPTY_SET", "ADDITEMS", "FROZENSET"),
    )
)

_LINE_BYTES = 4096
INTEGER_BYTES = 4096
SHORT = 256  # counted arguments below this length stay inside the pattern
_LENGTH = {1: struct.Struct("<B"), 4: struct.Struct("<I"), 8: struct.Struct("<Q")}
_INTEGERS = ("LONG1", "LONG4")


class ScanResult(msgspec.Struct, frozen=True):
    """One pickle: where it ends (one past STOP), the globals that it names and whether it names more by its stack."""

    end: int
    globals: tuple[tuple[str, str], ...]
    stack_globals: bool


class IncompleteError(InputError):
    """The data ends inside the pickle: more of it may help."""


def scan(data: bytes | bytearray | memoryview, start: int = 0, *, allow: frozenset[int] = PLAIN_OPCODES) -> ScanResult:
    """Walk over the pickle at `start` of `data`; afterwards every argument is known to lie inside the data.

    Memo indices stay below twice the number of bytes, integers and lines below 4 KiB. Time is linear in the bytes,
    memory constant. Raises InputError for an opcode that `allow` lacks or an argument out of bounds, and
    IncompleteError (a subclass) when the data ends before STOP.
    """
    pattern = _harmless(allow, *memo_bound(len(data) - start))
    position, found, stack_globals = start, dict[tuple[str, str], None](), False
    while True:
        position = run_end(pattern, data, position)
        if position >= len(data):
            raise IncompleteError("it is cut off: the pickle ends before its STOP")
        opcode = _allowed(data[position], position, allow)
        if opcode.name == "STOP":
            return ScanResult(position + 1, tuple(found), stack_globals)
        after = argument_end(data, position + 1, opcode)
        if opcode.argument == "two lines":
            module, name, _ = bytes(data[position + 1 : after]).decode("utf-8", "backslashreplace").split("\n")
            found[module, name] = None
        stack_globals = stack_globals or opcode.name == "STACK_GLOBAL"
        position = after


def argument_end(data: bytes | bytearray | memoryview, start: int, opcode: Opcode) -> int:
    """One past the argument of `opcode` that begins at `start`. Raises InputError when it is out of bounds."""
    end = start + opcode.width
    if opcode.argument in ("line", "two lines"):
        return line_end(data, start, 1 if opcode.argument == "line" else 2)
    if end > len(data):
        raise IncompleteError(f"it is cut off: the pickle ends inside {opcode.name}")
    if opcode.argument == "counted":
        length = _LENGTH[opcode.width].unpack_from(data, start)[0]
        if opcode.name in _INTEGERS and length > INTEGER_BYTES:
            raise InputError(f"an integer of {length:,} bytes at byte {start - 1:,} of the pickle")
        end += length
        if end > len(data):
            raise IncompleteError(f"{opcode.name} at byte {start - 1:,} claims {length:,} bytes, more than there are")
    elif opcode.name == "LONG_BINPUT" and int.from_bytes(data[start:end], "little") > 2 * len(data):
        raise InputError(f"a memo index beyond the size of the pickle at byte {start - 1:,}")
    return end


def line_end(data: bytes | bytearray | memoryview, start: int, count: int) -> int:
    """One past the `count` lines that begin at `start`. Raises InputError for one of 4 KiB or more."""
    window = bytes(data[start : start + count * _LINE_BYTES])
    end = -1
    for _ in range(count):
        end = window.find(b"\n", end + 1)
        if end < 0:
            short = len(window) < count * _LINE_BYTES
            raise (IncompleteError if short else InputError)(f"a line without end at byte {start:,} of the pickle")
    return start + end + 1


def _allowed(code: int, position: int, allow: frozenset[int]) -> Opcode:
    opcode = OPCODES.get(code)
    if opcode is None:
        raise InputError(f"byte 0x{code:02x} at {position:,} is no opcode of a pickle that can be read")
    if code not in allow:
        raise InputError(f"opcode {opcode.name} at byte {position:,} is not allowed here")
    return opcode


def memo_bound(entries: int) -> tuple[int, int]:
    """(bytes, highest leading byte) of a memo index below about `entries`; C's unpickler allocates up to it."""
    bits = min(32, max(1, entries.bit_length()))
    width = (bits + 7) // 8
    return width, (1 << bits - 8 * (width - 1)) - 1


@functools.lru_cache(maxsize=64)  # 32 memo bounds for each set of opcodes
def _harmless(allow: frozenset[int], memo_width: int, memo_top: int) -> re.Pattern[bytes]:
    """Matches the longest run of opcodes whose arguments are bounded by their form: no look at them is needed."""
    apart = {CODES[name] for name in ("STOP", "STACK_GLOBAL", "LONG4", "LONG_BINPUT")}
    parts = []
    for width in (0, 1, 2, 4, 8):
        codes = [c for c in allow - apart if OPCODES[c].argument == "fixed" and OPCODES[c].width == width]
        if codes:
            parts.append(b"[%b]" % b"".join(map(literal, sorted(codes))) + b"." * width)
    if CODES["LONG_BINPUT"] in allow:
        parts.append(memo_put(memo_width, memo_top))
    counted = sorted(c for c in allow - apart if OPCODES[c].argument == "counted" and OPCODES[c].width < 8)
    parts += [literal(code) + counted_argument(range(SHORT), OPCODES[code].width) for code in counted]
    return repeated(parts)


# Pieces of a pattern over opcodes.


def repeated(parts: Iterable[bytes]) -> re.Pattern[bytes]:
    """Matches what consists of such parts, as far as it goes or, by `MANY`, to somewhere in it."""
    return re.compile(b"(?:%b)%b" % (b"|".join(parts), MANY), re.DOTALL)


def run_end(pattern: re.Pattern[bytes], data: bytes | bytearray | memoryview, position: int) -> int:
    """Where the run that `pattern`, a repeated one, matches from `position` on ends."""
    while (run := pattern.match(data, position)) and run.end() > position:
        position = run.end()
    return position


def counted_argument(lengths: range, width: int) -> bytes:
    """Matches an argument of one of `lengths`, behind its length in `width` bytes."""
    zeros = b"\\x00" * (width - 1)
    return b"(?:%b)" % b"|".join(b"\\x%02x%b.{%d}" % (n, zeros, n) for n in lengths)


def memo_put(width: int, top: int) -> bytes:
    """Matches LONG_BINPUT with an index of at most `width` bytes, whose leading one is at most `top`."""
    return b"r%b[\\x00-\\x%02x]%b" % (b"." * (width - 1), top, b"\\x00" * (4 - width))


def literal(code: int) -> bytes:
    """Matches one byte."""
    return b"\\x%02x" % code
