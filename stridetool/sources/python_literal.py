"""A bounded reader of Python literals, as they stand in the header of a .npy file: nothing is compiled or evaluated.

Strings, integers (with the `L` of Python 2), floats, True, False, None, tuples, lists and dicts; depth and size are
limited. Dicts come back as tuples of pairs, so that a key that stands twice is seen.
"""

from __future__ import annotations

import re
from typing import Any

from stridetool.errors import InputError

MAX_DEPTH = 32
_MAX_DIGITS = 40

_TOKEN = re.compile(
    r"""[ \t\r\n\f]*(?:
        (?P<string>[uU]?(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"))
      | (?P<number>[-+]?(?:[0-9][0-9_]*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?[lLjJ]?)
      | (?P<word>True|False|None)\b
      | (?P<sign>[()\[\]{},:])
      | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
_WORDS = {"True": True, "False": False, "None": None}
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{1,3})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


class Pairs(tuple[tuple[Any, Any], ...]):
    """The entries of a dict, in order, with those that stand twice."""

    __slots__ = ()


def parse(text: str) -> Any:
    """The value of the one literal in `text`. Raises InputError for anything else."""
    reader = _Reader(text)
    value = reader.value(0)
    if reader.kind != "end":
        raise InputError(f"text after the literal: {reader.token!r}")
    return value


class _Reader:
    """One token of look-ahead over the text."""

    def __init__(self, text: str) -> None:
        self._text, self._position = text, 0
        self.kind, self.token = "", ""
        self._next()

    def _next(self) -> None:
        match = _TOKEN.match(self._text, self._position)
        if match is None or match.lastgroup is None:
            raise InputError(f"no Python literal at character {self._position}")
        self.kind, self.token, self._position = match.lastgroup, match[match.lastgroup], match.end()

    def _take(self) -> str:
        token = self.token
        self._next()
        return token

    def value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise InputError(f"literals nested deeper than {MAX_DEPTH}")
        kind, token = self.kind, self._take() if self.kind != "end" else ""
        if kind == "string":
            return _string(token) + (self.value(depth + 1) if self.kind == "string" else "")
        if kind == "number":
            return _number(token)
        if kind == "word":
            return _WORDS[token]
        if token == "{":
            return Pairs(self._entries(depth))
        if token in ("(", "["):
            return self._sequence(token, depth)
        raise InputError(f"no value where {token or 'the end'!r} stands")

    def _sequence(self, opening: str, depth: int) -> Any:
        items, commas = [], 0
        while self.token != _CLOSING[opening]:
            items.append(self.value(depth + 1))
            commas += self._comma(_CLOSING[opening])
        self._next()
        if opening == "[":
            return items
        return items[0] if len(items) == 1 and not commas else tuple(items)

    def _entries(self, depth: int) -> list[tuple[Any, Any]]:
        entries = []
        while self.token != "}":
            key = self.value(depth + 1)
            if self._take() != ":":
                raise InputError("a dict entry without a colon")
            entries.append((key, self.value(depth + 1)))
            self._comma("}")
        self._next()
        return entries

    def _comma(self, closing: str) -> bool:
        if self.token == ",":
            self._next()
            return True
        if self.token != closing or self.kind != "sign":
            raise InputError(f"{self.token or 'the end'!r} where ',' or {closing!r} is wanted")
        return False


def _number(token: str) -> int | float:
    """An integer of at most 40 digits, with the `L` of Python 2 or not, or a float."""
    digits = token.lstrip("+-")
    if digits[0] == "0" and digits[1:2].isdigit() and digits.strip("0_"):
        raise InputError(f"the number {token} begins with a zero")
    if len(digits) > _MAX_DIGITS:
        raise InputError(f"a number of {len(digits)} characters")
    try:
        return (
            int(token[:-1] if token[-1] in "lL" else token)
            if digits.rstrip("lL").replace("_", "").isdigit()
            else float(token)
        )
    except ValueError as error:
        raise InputError(f"the number {token}") from error


def _string(token: str) -> str:
    quote = token.index(token[-1])
    return _ESCAPE.sub(_unescape, token[quote + 1 : -1])


def _unescape(match: re.Match[str]) -> str:
    hexadecimal = match[1] or match[2] or match[3]
    if hexadecimal or match[4]:
        code = int(hexadecimal, 16) if hexadecimal else int(match[4], 8)
        return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else match[0]
    return _ESCAPED.get(match[5], match[0])
