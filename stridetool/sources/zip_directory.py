"""The directory of a zip archive, read as its loaders do, with everything in which two of them may disagree.

Sizes come from the central directory: torch writes zeros into local headers. Names that stand twice are kept, in
order; torch takes the first, Python's zipfile the last. Rules: PKWARE's APPNOTE 6.3.
"""

from __future__ import annotations

import string
import struct
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from stridetool.core.tensor_file import Note, Region
from stridetool.errors import InputError
from stridetool.sources.file_bytes import Beginning, Bytes, Part, inflate

MAX_MEMBERS = 300_000
_MAX_DIRECTORY = 64 << 20
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_DESCRIPTOR, _DESCRIPTOR64 = 16, 24  # signature, CRC and two sizes of 4 or 8 bytes
ENCRYPTED, _HAS_DESCRIPTOR, _UTF8 = 1, 8, 0x800
STORED, DEFLATED = 0, 8
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_MAX_32 = 0xFFFFFFFF
_ALL_ONES = (0xFFFF, _MAX_32, _MAX_32)
_MAX_NOTES = 20
_DEFLATE_RATIO = 1032  # no stream of deflate grows more


class Member(msgspec.Struct, frozen=True, gc=False):
    """One entry of the directory; `stored_bytes` is what it takes in the file, `size` what it claims to become."""

    name: str
    method: int
    flags: int
    stored_bytes: int
    size: int
    header_offset: int

    @property
    def compressed(self) -> bool:
        return self.method != STORED


class Directory(msgspec.Struct, frozen=True):
    """All members in directory order, and the places of the directory itself."""

    members: tuple[Member, ...]
    start: int
    end: int
    prefix: int  # bytes before the archive, which its own offsets do not count
    notes: tuple[Note, ...]

    def first(self) -> dict[str, Member]:
        """Members by folded name, in order; of those that stand twice the first, as torch takes it."""
        found: dict[str, Member] = {}
        for member in self.members:
            found.setdefault(folded(member.name), member)
        return found

    def last(self) -> dict[str, Member]:
        """Members by name; of those that stand twice the last, as Python's zipfile and NumPy take it."""
        return {member.name: member for member in self.members}


def read_directory(data: Bytes) -> Directory:
    """The directory at the end of `data`. Raises InputError where there is none or it contradicts itself."""
    at = _find_end(data)
    _, disk, first_disk, _, *short, comment = _END.unpack(data.read(at, _END.size))
    # torch writes the zip64 record even where all numbers fit into the short one; Python prefers it too.
    start_of_end, (count, size, offset) = at, short
    if (end64 := _end64(data, at)) is not None:
        start_of_end, disk, first_disk, (count, size, offset) = end64.place, 0, 0, end64.numbers
        if any(n not in (full, wide) for n, full, wide in zip(short, _ALL_ONES, end64.numbers, strict=True)):
            raise InputError("the two end records of the zip archive contradict each other")
    if disk or first_disk:
        raise InputError("a zip archive over several disks")
    if size > start_of_end or count > MAX_MEMBERS or size > _MAX_DIRECTORY:
        raise InputError(f"the zip directory claims {count:,} members in {size:,} bytes: more than can be")
    start = start_of_end - size
    prefix = start - offset
    if prefix < 0:
        raise InputError("the zip directory lies behind the place where the archive says it is")
    if end64 is not None and end64.claimed_place + prefix != start_of_end:
        raise InputError("the zip64 end record is not where its locator says: readers would take different ones")
    members = tuple(_members(data.read(start, size), count, prefix))
    end = at + _END.size + comment
    return Directory(members, start, min(end, data.size), prefix, tuple(_notes(members, prefix, end, data.size)))


def has_directory(data: Bytes) -> bool:
    """Whether there is the end of a zip archive at the end of `data`, whatever stands at its beginning."""
    return _end_place(data) is not None


def contents(data: Bytes, member: Member, limit: int) -> Bytes:
    """What is in `member`: at most `limit` bytes where they must be inflated. Raises InputError."""
    where = f"member {member.name!r}"
    if member.flags & ENCRYPTED:
        raise InputError(f"{where} is encrypted")
    start = data_offset(data, member)
    stored = Part(data, start, member.stored_bytes)
    if not member.compressed:
        if member.size != member.stored_bytes:
            raise InputError(f"{where} is stored in {member.stored_bytes:,} bytes and claims {member.size:,}")
        return stored
    if member.method != DEFLATED:
        raise InputError(f"{where} is compressed by method {member.method}, which is not read")
    return Beginning(inflate(stored, min(limit, member.size)), member.size)


def data_offset(data: Bytes, member: Member) -> int:
    """Where the data of `member` begins. Raises InputError where its local header or its data is not in the file."""
    return local_header(data, member).data_offset


class LocalHeader(NamedTuple):
    """Where the data of a member begins, and whether its own header tells the same of it as the directory."""

    data_offset: int
    agrees: bool


def local_header(data: Bytes, member: Member) -> LocalHeader:
    """The header before the data of `member`. Raises InputError where it or the data is not in the file."""
    wanted = _LOCAL.size + len(member.name.encode())
    header = data.read(member.header_offset, max(_LOCAL.size, min(wanted, data.size - member.header_offset)))
    signature, _, flags, method, _, _, _, stored, size, name_length, extra_length = _LOCAL.unpack_from(header)
    if signature != b"PK\x03\x04":
        raise InputError(f"member {member.name!r} has no local header at byte {member.header_offset:,}")
    start: int = member.header_offset + _LOCAL.size + name_length + extra_length
    if start + member.stored_bytes > data.size:
        raise InputError(
            f"member {member.name!r} claims [{start:,}, {start + member.stored_bytes:,}), "
            f"the file ends at {data.size:,}"
        )
    # A descriptor behind the data means that sizes were not known yet; all ones, that they are in the extra field.
    sizes_agree = (
        flags & _HAS_DESCRIPTOR or _MAX_32 in (stored, size) or (stored, size) == (member.stored_bytes, member.size)
    )
    same_name = _name(header[_LOCAL.size : _LOCAL.size + name_length], flags) == member.name
    return LocalHeader(start, bool(sizes_agree) and same_name and method == member.method)


def local_header_note(member: Member) -> Note:
    """What to say of a member whose own header does not agree with the directory."""
    return Note(
        "local-header", "warning", "the header before its data tells another name, size or method than the directory",
        member.name, "programs that read an archive from its beginning see another file: do not trust it",
    )  # fmt: skip


def folded(name: str) -> str:
    """The name as torch compares it: letters of ASCII in either case are the same to its zip library."""
    return name.translate(_LOWER)


def member_regions(data: Bytes, member: Member, start: int, kind: str) -> Iterator[Region]:
    """Local header with its padding, data (of `kind`) and descriptor of a member whose data begins at `start`."""
    name_length = len(member.name.encode())
    text_end = min(member.header_offset + _LOCAL.size + name_length, start)
    yield Region(member.header_offset, text_end, "header", member.name)
    if start > text_end:
        yield Region(text_end, start, "padding", member.name)
    end = start + member.stored_bytes
    yield Region(start, end, "data" if kind == "data" else "header" if kind == "header" else "foreign", member.name)
    if member.flags & _HAS_DESCRIPTOR and end + _DESCRIPTOR <= data.size:
        yield Region(end, end + _descriptor_bytes(data, member, end), "header", member.name)


def _descriptor_bytes(data: Bytes, member: Member, at: int) -> int:
    """Its sizes have 8 bytes where one needs them, and in torch's archives also behind 4 GiB of the file."""
    if max(member.size, member.stored_bytes) > _MAX_32:
        return _DESCRIPTOR64
    if member.header_offset < _MAX_32 or at + _DESCRIPTOR64 > data.size:
        return _DESCRIPTOR
    wide = struct.pack("<2Q", member.stored_bytes, member.size)
    return _DESCRIPTOR64 if data.read(at + 8, 16) == wide else _DESCRIPTOR


def _find_end(data: Bytes) -> int:
    place = _end_place(data)
    if place is None:
        raise InputError("no zip directory at the end: the archive is cut off, or it is none")
    return place


def _end_place(data: Bytes) -> int | None:
    tail_size = min(data.size, _END.size + 0xFFFF)
    tail = data.read(data.size - tail_size, tail_size)
    at = tail.rfind(b"PK\x05\x06", 0, max(0, tail_size - _END.size + 4))
    return data.size - tail_size + at if at >= 0 else None


class _End64(NamedTuple):
    """The zip64 end record: where it is, where its locator says (not counting a prefix), and (count, size, offset)."""

    place: int
    claimed_place: int
    numbers: tuple[int, int, int]


def _end64(data: Bytes, at: int) -> _End64 | None:
    """The zip64 record before the end record at `at`; None where there is none."""
    if at < _LOCATOR.size + _END64.size:
        return None
    signature, _, place, _ = _LOCATOR.unpack(data.read(at - _LOCATOR.size, _LOCATOR.size))
    if signature != b"PK\x06\x07":
        return None
    here = at - _LOCATOR.size - _END64.size  # where Python looks; `place` does not count a prefix
    signature, *_, disk, first_disk, _, count, size, offset = _END64.unpack(data.read(here, _END64.size))
    if signature != b"PK\x06\x06" or place > here:
        raise InputError("the zip64 end record is not where its locator says")
    if disk or first_disk:
        raise InputError("a zip archive over several disks")
    return _End64(here, place, (count, size, offset))


def _members(directory: bytes, count: int, prefix: int) -> Iterator[Member]:
    at = 0
    for _ in range(count):
        if at + _CENTRAL.size > len(directory):
            raise InputError(f"the zip directory claims {count:,} members and ends before them")
        (signature, _, _, flags, method, _, _, _, stored, size, name_length, extra_length, comment_length,
         _, _, _, offset) = _CENTRAL.unpack_from(directory, at)  # fmt: skip
        at += _CENTRAL.size
        if signature != b"PK\x01\x02" or at + name_length + extra_length > len(directory):
            raise InputError("the zip directory is damaged")
        name = directory[at : at + name_length]
        extra = directory[at + name_length : at + name_length + extra_length]
        if _MAX_32 in (stored, size, offset):
            size, stored, offset = _zip64(extra, size, stored, offset)
        if b"\0" in name:
            raise InputError("a member whose name holds a NUL: readers disagree about where it ends")
        if method == DEFLATED and size > _DEFLATE_RATIO * stored + _DEFLATE_RATIO:
            raise InputError(f"{stored:,} compressed bytes claim to become {size:,}: more than deflate can")
        yield Member(_name(name, flags), method, flags, stored, size, offset + prefix)
        at += name_length + extra_length + comment_length
    if at != len(directory):
        raise InputError("the zip directory is longer than its members")


def _zip64(extra: bytes, *values: int) -> tuple[int, int, int]:
    """The values with those that are all ones replaced from the zip64 extra field, which holds only these."""
    at = 0
    while at + 4 <= len(extra):
        tag, length = struct.unpack_from("<2H", extra, at)
        if tag == 1:
            wide = iter(struct.iter_unpack("<Q", extra[at + 4 : at + 4 + length // 8 * 8]))
            size, stored, offset = (next(wide, (v,))[0] if v == _MAX_32 else v for v in values)
            return size, stored, offset
        at += 4 + length
    size, stored, offset = values
    return size, stored, offset


def _name(raw: bytes, flags: int) -> str:
    if flags & _UTF8:
        return raw.decode("utf-8", "backslashreplace")
    try:
        return raw.decode("utf-8")  # torch writes UTF-8 without saying so
    except UnicodeDecodeError:
        return raw.decode("cp437")


def _notes(members: tuple[Member, ...], prefix: int, end: int, size: int) -> Iterator[Note]:
    if prefix:
        yield Note(
            "prefix", "warning", f"{prefix:,} bytes stand before the archive: other programs may see another file",
            None, "zipfile and this tool read the archive; torch.load and numpy.load take the beginning for a pickle",
        )  # fmt: skip
    if end < size:
        yield Note("trailing", "warning", f"{size - end:,} bytes stand behind the archive")
    names = Counter(folded(member.name) for member in members)
    twice = [(name, count) for name, count in names.items() if count > 1]
    for name, count in twice[:_MAX_NOTES]:
        yield Note(
            "duplicate-member", "error", f"{count} members have this name: torch reads the first, Python the last",
            name, "a scanner and a loader may see different files: do not trust it",
        )  # fmt: skip
    if len(twice) > _MAX_NOTES:
        yield Note("duplicate-member", "error", f"{len(twice) - _MAX_NOTES:,} more names that several members have")
