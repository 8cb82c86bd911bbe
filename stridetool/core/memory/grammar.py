"""The grammar of `PYTORCH_CUDA_ALLOC_CONF`, with torch 2.14's errors.

Torch reads the text twice: first the keys that all accelerators share (others are skipped unseen), then those
of CUDA, where an unknown key is refused. The order of its errors follows from that, so it is kept here.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from typing import Any

from stridetool.core.memory.settings import DEFAULT, MIB, NAMES, ROUNDUP_BUCKETS, SIZE_MAX, Settings
from stridetool.errors import UsageError

_INTEGER = re.compile(r"[+-]?\d+")
_REAL = re.compile(r"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf(inity)?|nan)", re.IGNORECASE)
_SHARED = {
    "expandable_segments",
    "max_split_size_mb",
    "large_segment_size_mb",
    "max_non_split_rounding_mb",
    "garbage_collection_threshold",
    "roundup_power2_divisions",
    "pinned_use_background_threads",
}
_REMOVED = {
    "roundup_bypass_threshold_mb": "torch removed this key; leave it out",
    "expandable_segments_handle_type": "torch removed this key; TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC replaces it",
    "expandable_segments_page_size": "this key never existed in a release; large_segment_size_mb sets the page",
}


def _tokens(text: str) -> list[str]:
    """`, : [ ]` stand alone; white space vanishes, also within words."""
    return re.findall(r"[,:\[\]]|[^,:\[\]]+", "".join(text.split()))


def _is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


class Parser:
    """One text on its way to Settings. Positions are indices of tokens, as in torch's messages."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.values: dict[str, Any] = {}
        self.notes: list[str] = []

    def settings(self) -> Settings:
        """Both of torch's passes, and what they found."""
        self._large_segment_size()
        self._pass(lambda key: key in _SHARED, refuse=False)
        self._pass(lambda key: key not in _SHARED, refuse=True)
        self._note_combinations()
        return Settings(**self.values, text=self.text, notes=tuple(self.notes))

    def _pass(self, mine: Callable[[str], bool], *, refuse: bool) -> None:
        position = 0
        while position < len(self.tokens):
            key = self.tokens[position]
            if mine(key) and key in NAMES:
                position = self._read(key, position + 2)
            elif refuse and key not in NAMES:
                raise self._unknown(key)
            else:
                position = self._skip(position + 2)
            position += 2  # over the value, and over a comma that torch does not look at

    def _at(self, position: int) -> str:
        if position >= len(self.tokens):
            raise UsageError("Index out of bounds in ConfigTokenizer", hint=self._shape_hint())
        return self.tokens[position]

    def _shape_hint(self) -> str:
        if "=" in self.text or ";" in self.text:
            return "write key:value, and a comma between two of them"
        return "a value is missing: write key:value,key:value"

    def _skip(self, position: int) -> int:
        """The last position of a value that this pass does not read."""
        if self._at(position) == "[":
            while position < len(self.tokens) and self.tokens[position] != "]":
                position += 1
            self._closed(position)
        return position

    def _closed(self, position: int) -> None:
        if position >= len(self.tokens):
            raise UsageError("Expected closing bracket ']' in ConfigTokenizer but reached end of config")

    def _unknown(self, key: str) -> UsageError:
        close = difflib.get_close_matches(key.lower(), NAMES, n=1)
        hint = _REMOVED.get(key) or (f"did you mean {close[0]}?" if close else f"known keys: {', '.join(NAMES)}")
        return UsageError(f"Unrecognized key '{key}' in CUDA allocator config.", hint=hint)

    def _read(self, key: str, position: int) -> int:
        """Read the value of `key`; the last position of it."""
        name = NAMES[key]
        if key == "roundup_power2_divisions":
            return self._read_roundup(position)
        if key in _READERS:
            self.values[name] = _READERS[key](self, position)
        elif isinstance(getattr(DEFAULT, name), bool):
            self.values[name] = self._boolean(position)
        else:
            self.values[name] = self._megabytes(position)
        return position

    def _boolean(self, position: int) -> bool:
        token = self._at(position)
        if token not in ("True", "False"):
            hint = f"write {token.capitalize()}" if token.capitalize() in ("True", "False") else None
            raise UsageError(
                f"Expected 'True' or 'False' at index {position} in ConfigTokenizer but got '{token}'", hint=hint
            )
        return token == "True"

    def _integer(self, position: int) -> int:
        """As C++ `stoull` reads it: digits up to the first other sign, negative numbers wrap."""
        token = self._at(position)
        match = _INTEGER.match(token)
        value = int(match[0]) if match and len(match[0]) < 30 else None
        if value is None or abs(value) > SIZE_MAX:
            problem = "invalid" if match is None else "out of range"
            raise UsageError(f"stoull: {problem} number '{token}' at index {position}", hint="write an integer")
        if match and match[0] != token:
            self.notes.append(f"torch reads '{token}' as {match[0]}")
        if value < 0:
            self.notes.append(f"torch accepts the negative number {value} and wraps it to {value + SIZE_MAX + 1}")
        return value & SIZE_MAX

    def _real(self, position: int) -> float:
        token = self._at(position)
        match = _REAL.match(token)
        if match is None:
            raise UsageError(f"stod: invalid number '{token}' at index {position}", hint="write a number, 0.8")
        return float(match[0])

    def _megabytes(self, position: int) -> int:
        return min(self._integer(position), SIZE_MAX // MIB) * MIB

    def _large_segment_size(self) -> None:
        """Found before all else: the lower bounds of other keys follow it, wherever they stand."""
        key = "large_segment_size_mb"
        for position, token in enumerate(self.tokens):
            if token == key:
                size = self._segment_size(position + 2)
                self.values.update(large_segment_size=size, max_non_split_rounding=size)
        self.notes.clear()

    def _segment_size(self, position: int) -> int:
        size = self._megabytes(position)
        if size <= 10 * MIB:
            raise UsageError("CachingAllocator option large_segment_size_mb must be > 10 MB")
        return size

    def _at_least_a_segment(self, key: str, position: int) -> int:
        size = self._megabytes(position)
        least = self.values.get("large_segment_size", DEFAULT.large_segment_size)
        if size < least:
            raise UsageError(f"CachingAllocator option {key} too small, must be >= {least // MIB}")
        return size

    def _gc_threshold(self, position: int) -> float:
        value = self._real(position)
        if not 0.0 < value < 1.0:
            raise UsageError("garbage_collect_threshold is invalid, set it in (0.0, 1.0)")
        return value

    def _fraction(self, position: int) -> float:
        value = self._real(position)
        if not 0.0 <= value <= 1.0:
            raise UsageError("per_process_memory_fraction is invalid, set it in [0.0, 1.0]")
        return value

    def _backend(self, position: int) -> str:
        token = self._at(position)
        if token not in ("native", "cudaMallocAsync"):
            raise UsageError("Unknown allocator backend, options are native and cudaMallocAsync")
        return token

    def _register_threads(self, position: int) -> int:
        threads = self._integer(position)
        if not _is_power_of_two(threads):
            raise UsageError(f"Number of register threads has to be power of 2, got {threads}")
        if threads > 128:
            raise UsageError(f"Number of register threads should be less than or equal to 128, got {threads}")
        return threads

    def _reserve_segment(self, position: int) -> int:
        size = self._megabytes(position)
        if size == 0:
            raise UsageError("Pinned reserve segment size has to be greater than 0")
        return size

    def _read_roundup(self, position: int) -> int:
        if self._at(position) == "[":
            return self._read_roundup_list(position + 1)
        divisions = self._integer(position)
        if not _is_power_of_two(divisions):
            raise UsageError("For roundups, the divisions has to be power of 2 ")
        self.values["roundup_power2_divisions"] = (divisions,) * ROUNDUP_BUCKETS
        return position

    def _read_roundup_list(self, position: int) -> int:
        """`[256:1,512:2,>:4]`: the first boundary also fills all below it, `>` all above the last one."""
        buckets = [0] * ROUNDUP_BUCKETS
        last: int | None = None
        while position < len(self.tokens) and self.tokens[position] != "]":
            divisions = self._integer(position + 2)
            if divisions and not _is_power_of_two(divisions):
                raise UsageError(
                    "For roundups, the divisions has to be power of 2 or 0 to disable roundup ",
                    hint="1, 2, 4, 8, …",
                )
            last = self._fill(buckets, self.tokens[position], position, divisions, last)
            position += 3 if self.tokens[position + 3 : position + 4] == ["]"] else 4
        self._closed(position)
        self.values["roundup_power2_divisions"] = tuple(buckets)
        return position

    def _fill(self, buckets: list[int], token: str, position: int, divisions: int, last: int | None) -> int | None:
        if token == ">":
            start = (last or 0) + 1
            buckets[start:] = [divisions] * (ROUNDUP_BUCKETS - start)
            return last
        boundary = self._integer(position)
        if not _is_power_of_two(boundary):
            raise UsageError("For roundups, the intervals have to be power of 2 ", hint="in MiB: 256, 512, …")
        index = min(boundary.bit_length() - 1, ROUNDUP_BUCKETS - 1)
        if last is None:
            buckets[:index] = [divisions] * index
        buckets[index] = divisions
        return index

    def _note_combinations(self) -> None:
        values = self.values
        if values.get("max_split_size") and values.get("expandable_segments"):
            self.notes.append(
                "max_split_size_mb together with expandable_segments leaks reserved memory in torch (issue #123548)"
            )
        if values.get("pinned_max_round_threshold", 0) > values.get("pinned_max_cached_size", SIZE_MAX):
            self.notes.append("pinned_max_round_threshold_mb is above pinned_max_cached_size_mb")


_READERS: dict[str, Callable[[Parser, int], Any]] = {
    "backend": Parser._backend,
    "large_segment_size_mb": Parser._segment_size,
    "max_split_size_mb": lambda parser, at: parser._at_least_a_segment("max_split_size_mb", at),
    "max_non_split_rounding_mb": lambda parser, at: parser._at_least_a_segment("max_non_split_rounding_mb", at),
    "garbage_collection_threshold": Parser._gc_threshold,
    "per_process_memory_fraction": Parser._fraction,
    "pinned_num_register_threads": Parser._register_threads,
    "pinned_reserve_segment_size_mb": Parser._reserve_segment,
}
