"""Reading parts of a file that nobody trusts: by offset, bounded, never the whole and never mapped."""

from __future__ import annotations

import os
import stat
import zlib
from types import TracebackType
from typing import BinaryIO, Protocol

from stridetool.errors import InputError

_ODD_RATIO = 200  # no header of ours compresses better than this; a bomb reaches 1,000
_FREE_BYTES = 1 << 20
_CHUNK = 1 << 20


class Bytes(Protocol):
    """Bytes that can be read in parts: a file, a member of an archive, what a member inflates to."""

    @property
    def size(self) -> int: ...

    def read(self, offset: int, count: int) -> bytes:
        """Exactly `count` bytes. Raises InputError where there are fewer."""
        ...


class FileBytes:
    """A regular file, open for reading. Raises InputError for what is missing, unreadable or no regular file."""

    def __init__(self, path: str) -> None:
        try:
            # Not blocking: opening a named pipe would wait for its writer.
            self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise InputError(f"cannot open {path}: {reason}") from error
        status = os.fstat(self._handle)
        if not stat.S_ISREG(status.st_mode):
            os.close(self._handle)
            raise InputError(f"cannot read {path}: it is no regular file")
        self.path = path
        self.size = status.st_size

    def read(self, offset: int, count: int) -> bytes:
        if offset < 0 or offset + count > self.size:
            raise InputError(f"the file ends at byte {self.size:,}, before {offset + count:,}")
        try:
            data = os.pread(self._handle, count, offset)
        except OSError as error:
            raise InputError(f"cannot read {self.path}: {error.strerror}") from error
        if len(data) != count:
            raise InputError(f"the file became shorter than {offset + count:,} bytes while it was read")
        return data

    def __enter__(self) -> FileBytes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._handle)


class Part:
    """The bytes [start, start + size) of others."""

    def __init__(self, whole: Bytes, start: int, size: int) -> None:
        self._whole, self._start = whole, start
        self.size = size

    def read(self, offset: int, count: int) -> bytes:
        if offset < 0 or offset + count > self.size:
            raise InputError(f"the data ends at byte {self.size:,}, before {offset + count:,}")
        return self._whole.read(self._start + offset, count)


class Beginning:
    """The first bytes of data that claims to be `size` long; what lies behind them cannot be read."""

    def __init__(self, data: bytes, size: int) -> None:
        self._data = data
        self.size = size

    def read(self, offset: int, count: int) -> bytes:
        if offset < 0 or offset + count > len(self._data):
            raise InputError(f"the data ends at byte {len(self._data):,}, before {offset + count:,}")
        return self._data[offset : offset + count]


def head(data: Bytes, count: int) -> bytes:
    """The first `count` bytes, or all where there are fewer."""
    return data.read(0, min(count, data.size))


def read_whole(file: BinaryIO, limit: int) -> bytes | None:
    """All of an open file or pipe; None when that is more than `limit` bytes.

    `read` reserves what it is asked for, so a file is asked for no more than its size.
    """
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode) or status.st_size == 0:  # 0: what the kernel makes up while it is read
        return read_stream(file, limit)
    data = file.read(min(status.st_size, limit) + 1)
    return data if len(data) <= limit else None


def read_stream(file: BinaryIO, limit: int) -> bytes | None:
    """The same of what has no size: a little at a time."""
    data = bytearray()
    while len(data) <= limit and (chunk := file.read(_CHUNK)):
        data += chunk
    return bytes(data) if len(data) <= limit else None


def inflate(compressed: Bytes, limit: int) -> bytes:
    """At most `limit` bytes of a raw deflate stream, whatever any header claims.

    Raises InputError for a damaged stream, and for one that grows more than a header or a pickle can.
    """
    stream, out, offset = zlib.decompressobj(-zlib.MAX_WBITS), bytearray(), 0
    ceiling = min(limit, _FREE_BYTES + _ODD_RATIO * compressed.size)
    try:
        while len(out) < ceiling and offset < compressed.size and not stream.eof:
            chunk = compressed.read(offset, min(1 << 16, compressed.size - offset))
            offset += len(chunk)
            out += stream.decompress(chunk, ceiling - len(out))
            while stream.unconsumed_tail and len(out) < ceiling:
                out += stream.decompress(stream.unconsumed_tail, ceiling - len(out))
    except zlib.error as error:
        raise InputError(f"a compressed member is damaged: {error}") from error
    if len(out) >= ceiling and ceiling < limit:
        raise InputError(f"a member of {compressed.size:,} bytes inflates to more than {ceiling:,}: refused as a bomb")
    return bytes(out)
