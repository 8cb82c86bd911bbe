"""torch's zip format (since 1.6) and TorchScript archives: the members by their roles, and each storage's record.

Rules: `PyTorchStreamReader` (caffe2/serialize/inline_container.cc) and `torch.serialization._load`, torch 2.13.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from msgspec.structs import replace

from stridetool.core.tensor_file import FileStorage, FileTensor, Note, Region, TensorFile
from stridetool.errors import InputError
from stridetool.sources.file_bytes import Bytes
from stridetool.sources.pickle_machine import budget_for
from stridetool.sources.torch_pickle import MAX_PICKLE, placed, read_tensors
from stridetool.sources.torch_storages import StorageClaim
from stridetool.sources.zip_directory import (
    ENCRYPTED,
    Directory,
    Member,
    contents,
    folded,
    local_header,
    local_header_note,
    member_regions,
)

MAX_VERSION = 10
_ROLES = ("data.pkl", "constants.pkl", "version", ".data/version", "byteorder", ".format_version")
_OWN = (*_ROLES, ".storage_alignment", ".data/serialization_id", "attributes.pkl", "bytecode.pkl", "model.json")
_OWN_FOLDERS = ("code/", "extra/", "traced_inputs.pkl", "mobile_debug_handles.pkl")


def is_torch_archive(directory: Directory) -> bool:
    """Whether a zip has the members of torch, below one folder or another."""
    return any(folded(member.name.partition("/")[2]) in _ROLES for member in directory.members)


def read_archive(data: Bytes, path: str, directory: Directory) -> TensorFile:
    """A whole archive. Raises InputError where torch refuses it, or should."""
    return _Archive(data, directory).read(path)


class _Archive:
    """One archive while it is read: its members by name below the root folder, the first of each name."""

    def __init__(self, data: Bytes, directory: Directory) -> None:
        self._data, self._directory = data, directory
        root = directory.members[0].name.partition("/")[0]
        if stray := next((m.name for m in directory.members if not m.name.startswith(f"{root}/")), None):
            raise InputError(f"file in archive is not in a subdirectory {root}/: {stray}")
        self._members = {name[len(root) + 1 :]: member for name, member in directory.first().items()}
        self.notes = [*directory.notes, *_case_notes(self._members, root)]
        self._starts: dict[str, int] = {}
        self._used: set[str] = set()

    def read(self, path: str) -> TensorFile:
        self._check_version()
        self._check_byte_order()
        script = "constants.pkl" in self._members
        if "data.pkl" not in self._members:
            raise InputError("no data.pkl in the archive")
        tensors, storages = self._pickled("data.pkl", "data/", "")
        if script:
            more_tensors, more_storages = self._pickled("constants.pkl", "constants/", "constants")
            tensors, storages = tensors + more_tensors, storages + more_storages
            self.notes.append(_script_note())
        return TensorFile(
            kind="torchscript" if script else "torch zip",
            path=path,
            size=self._data.size,
            tensors=tuple(tensors),
            storages=tuple(storages),
            regions=tuple(self._regions()),
            notes=tuple(self.notes),
        )

    def _pickled(self, name: str, folder: str, prefix: str) -> tuple[list[FileTensor], list[FileStorage]]:
        """The tensors of one pickle, and its storages in `folder`; keys are made different by the folder."""
        content = contents(self._data, self._members[name], MAX_PICKLE)
        if content.size > MAX_PICKLE:
            raise InputError(f"{name} has {content.size:,} bytes; at most {MAX_PICKLE:,} are read")
        pickled = read_tensors(content.read(0, content.size), prefix, budget_for(len(self._members)))
        self.notes += pickled.notes
        storages = [self._storage(claim, folder) for claim in pickled.claims]
        if folder == "data/":
            return list(pickled.tensors), storages
        # The keys of the constants begin at 0 again.
        tensors = [replace(t, storage=folder + t.storage) if t.storage else t for t in pickled.tensors]
        return tensors, [replace(storage, key=folder + storage.key) for storage in storages]

    def _storage(self, claim: StorageClaim, folder: str) -> FileStorage:
        if claim.location == "meta":
            return FileStorage(key=claim.key, nbytes=claim.nbytes, stored_bytes=0, file_offset=None, device="meta")
        name = folded(folder + claim.key)
        member = self._members.get(name)
        if member is None:
            raise InputError(f"no record {name[:60]!r} in the archive for a storage that tensors use")
        if member.flags & ENCRYPTED:
            raise InputError(f"record {name[:60]!r} is encrypted")
        if not member.compressed and member.size != member.stored_bytes:
            raise InputError(
                f"record {name[:60]!r} is stored in {member.stored_bytes:,} B and claims {member.size:,} B"
            )
        self._used.add(name)
        start = self._start(name, member)
        storage = placed(claim, member.size, start, member=member.name, compressed=member.compressed)
        self.notes += _record_notes(storage, member)
        return storage

    def _start(self, name: str, member: Member) -> int:
        if name not in self._starts:
            header = local_header(self._data, member)
            self._starts[name] = header.data_offset
            if not header.agrees:
                self.notes.append(local_header_note(member))
        return self._starts[name]

    def _check_version(self) -> None:
        name = ".data/version" if ".data/version" in self._members else "version"
        if name not in self._members:
            raise InputError("no version record in the archive")
        text = self._text(name)
        if not text.isdigit() or len(text) > 9:
            raise InputError(f"the version record says {text!r}")
        if int(text) > MAX_VERSION:
            raise InputError(f"version {text} of the format: torch reads up to {MAX_VERSION}")

    def _check_byte_order(self) -> None:
        order = self._text("byteorder") if "byteorder" in self._members else sys.byteorder
        if order not in ("little", "big"):
            raise InputError(f"unknown byte order {order!r}")
        if order != sys.byteorder:
            self.notes.append(_order_note(order))

    def _text(self, name: str) -> str:
        content = contents(self._data, self._members[name], 64)
        return content.read(0, min(content.size, 64)).decode("utf-8", "backslashreplace").strip()

    def _regions(self) -> Iterator[Region]:
        yield Region(self._directory.start, self._directory.end, "header")
        for name, member in self._members.items():
            role = "data" if name in self._used else "header" if _is_own(name) else "foreign"
            yield from member_regions(self._data, member, self._start(name, member), role)
            if role == "foreign" and member.stored_bytes:
                self.notes.append(_foreign_note(name, member))


def _is_own(name: str) -> bool:
    return name in _OWN or name.startswith(_OWN_FOLDERS)


def _record_notes(storage: FileStorage, member: Member) -> Iterator[Note]:
    if storage.compressed:
        yield Note(
            "compressed-record", "warning",
            f"compressed to {member.stored_bytes:,} B: torch.load(mmap=True) silently hands these bytes out as numbers",
            member.name, "load without mmap, or save again with torch.save, which stores records as they are",
        )  # fmt: skip
    if storage.stored_bytes > storage.nbytes:
        yield Note(
            "record-longer", "warning",
            f"the record has {storage.stored_bytes:,} B, the storage claims {storage.nbytes:,} B",
            member.name, "torch.load refuses it, but not with mmap=True",
        )  # fmt: skip


def _case_notes(members: dict[str, Member], root: str) -> Iterator[Note]:
    for name, member in members.items():
        if member.name[len(root) + 1 :] != name and name in _ROLES:
            yield Note(
                "member-case", "warning", f"torch takes it for {name}, other readers of zip archives do not",
                member.name, "torch.save writes these names in small letters: do not trust the file",
            )  # fmt: skip


def _foreign_note(name: str, member: Member) -> Note:
    if name.startswith(("data/", "constants/")):
        return Note(
            "unused-record", "warning", f"{member.stored_bytes:,} B that no tensor refers to", member.name,
            "load and save again to drop them",
        )  # fmt: skip
    pickled = name.endswith((".pkl", ".pickle"))
    return Note(
        "foreign-member", "warning" if pickled else "info",
        f"{'a second pickle' if pickled else 'a member'} that torch.load does not read", member.name,
    )  # fmt: skip


def _order_note(order: str) -> Note:
    return Note(
        "byte-order", "warning", f"the numbers are {order}-endian, this machine is {sys.byteorder}-endian", None,
        "torch.load swaps them when it reads; mmap=True cannot",
    )  # fmt: skip


def _script_note() -> Note:
    return Note(
        "torchscript", "info", "a TorchScript archive: torch.jit.load runs its code, this tool does not", None,
        "torch.load(weights_only=True) refuses it",
    )  # fmt: skip
