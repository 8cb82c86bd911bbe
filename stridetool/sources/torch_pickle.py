"""One pickle of a torch file → its tensors and the storages that they claim; and what its globals would have done."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from stridetool.core.tensor_file import FileStorage, FileTensor, Note
from stridetool.errors import InputError
from stridetool.sources.file_bytes import Bytes
from stridetool.sources.pickle_machine import BUDGET, Machine
from stridetool.sources.pickle_records import Global
from stridetool.sources.pickle_scan import IncompleteError
from stridetool.sources.torch_names import tensors_of
from stridetool.sources.torch_storages import StorageClaim, StorageClaims
from stridetool.sources.torch_types import is_dangerous, is_harmless

MAX_PICKLE = 64 << 20
_MAX_NOTES = 100
_FIRST_WINDOW = 1 << 16


class TorchPickle(msgspec.Struct, frozen=True):
    """What one pickle holds, before its storages are looked for in the file."""

    tensors: tuple[FileTensor, ...]
    claims: tuple[StorageClaim, ...]
    notes: tuple[Note, ...]


def read_tensors(data: bytes, prefix: str = "", budget: int = BUDGET) -> TorchPickle:
    """The tensors of the pickle at the start of `data`, names beginning with `prefix`. Raises InputError."""
    machine = Machine(data, budget)
    return described(machine.run()[0], machine, prefix)


def described(root: Any, machine: Machine, prefix: str = "") -> TorchPickle:
    """The tensors below `root`, which `machine` made."""
    claims = StorageClaims(machine.persistent)
    tensors = tensors_of(root, prefix, claims)
    notes = (*claims.notes, *global_notes(machine.globals.values()))
    return TorchPickle(tuple(tensors), tuple(claims.by_key.values()), notes)


class PickleStream:
    """Pickles and raw data that follow each other in a file of any size; the pickles share one budget."""

    def __init__(self, data: Bytes) -> None:
        self.data, self.position = data, 0
        self._budget = BUDGET
        self.globals: dict[tuple[str, str], Global] = {}  # of all pickles so far

    def next(self) -> tuple[Any, Machine]:
        """The object of the next pickle and the machine that made it.

        It is read in growing windows, since its length stands nowhere.
        """
        rest = self.data.size - self.position
        window = min(_FIRST_WINDOW, rest)
        while True:
            machine = Machine(self.data.read(self.position, window), self._budget)
            try:
                value, length = machine.run()
            except IncompleteError:
                if window == min(rest, MAX_PICKLE):
                    raise
                window = min(window * 8, rest, MAX_PICKLE)
                continue
            self.position += length
            self._budget = machine.budget
            self.globals |= machine.globals
            return value, machine

    def next_object(self) -> Any:
        """The object of the next pickle."""
        return self.next()[0]

    def take(self, count: int) -> bytes:
        """The next `count` raw bytes."""
        raw = self.data.read(self.position, count)
        self.position += count
        return raw

    def skip(self, count: int, what: str) -> int:
        """Where the next `count` raw bytes begin, without reading them. Raises InputError where they are not there."""
        start = self.position
        if start + count > self.data.size:
            raise InputError(f"{what} claims {count:,} bytes, the file has {self.data.size - start:,} more")
        self.position += count
        return start


def placed(
    claim: StorageClaim, stored_bytes: int, file_offset: int, *, member: str | None = None, compressed: bool = False
) -> FileStorage:
    """The storage of `claim` in the record of `stored_bytes` at `file_offset`. Raises InputError where it is short."""
    if stored_bytes < claim.nbytes:
        raise InputError(
            f"the record of storage {claim.key[:40]!r} holds {stored_bytes:,} B, the storage claims {claim.nbytes:,} B",
            hint="torch.load refuses it, but with mmap=True it hands out what follows in the file",
        )
    shift = claim.view[1] if claim.view else 0
    return FileStorage(
        key=claim.name,
        nbytes=claim.seen_bytes,
        stored_bytes=claim.seen_bytes if claim.view else stored_bytes,
        file_offset=None if compressed else file_offset + shift,
        device=claim.location,
        member=member,
        compressed=compressed,
    )


def global_notes(named: Iterable[Global]) -> Iterator[Note]:
    """A note for each global that torch's weights_only loader would refuse."""
    unknown = [found for found in named if not is_harmless(found.path)]
    dangerous = [found for found in unknown if is_dangerous(found.path)]
    others = [found for found in unknown if not is_dangerous(found.path)]
    shown = (dangerous + others)[:_MAX_NOTES]
    yield from map(_global_note, shown)
    if len(unknown) > len(shown):
        yield Note("unsafe-global", "warning", f"{len(unknown) - len(shown):,} more globals that need code")


def start_notes(data: Bytes) -> Iterator[Note]:
    """Notes for the globals of the pickle that `data` begins with, as far as it is one: a loader runs that far too."""
    machine = Machine(data.read(0, min(data.size, _FIRST_WINDOW)), BUDGET)
    with contextlib.suppress(InputError):
        machine.run()
    return global_notes(machine.globals.values())


def _global_note(found: Global) -> Note:
    path = found.path[:200]
    if is_dangerous(found.path):
        return Note(
            "unsafe-global", "error", f"`{path}` is named, and loading would import and may call it", path,
            "nothing was run here; never load this file with weights_only=False",
        )  # fmt: skip
    return Note(
        "unsafe-global", "warning", f"`{path}` needs code that torch.load(weights_only=True) refuses to import", path,
        "save a state_dict in place of whole objects, or allow the class by torch.serialization.add_safe_globals",
    )  # fmt: skip
