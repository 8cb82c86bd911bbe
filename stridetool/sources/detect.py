"""What kind of file this is, by its first bytes alone: cheap enough to ask of any target."""

from __future__ import annotations

from typing import Literal

NPY_MAGIC = b"\x93NUMPY"
GGUF_MAGIC = b"GGUF"
ZIP_MAGICS = (b"PK\x03\x04", b"PK\x05\x06")
HEAD_BYTES = 512
_TAR_CHECKSUM = slice(148, 156)

Family = Literal["npy", "zip", "gguf", "safetensors", "tar", "pickle"]


def detect(start: bytes) -> Family | None:
    """The family of a file that begins with `start` (`HEAD_BYTES` of it are looked at); None: no tensor file."""
    if start.startswith(NPY_MAGIC):
        return "npy"
    if start.startswith(ZIP_MAGICS):
        return "zip"
    if start.startswith(GGUF_MAGIC):
        return "gguf"
    if _is_safetensors(start):
        return "safetensors"
    if is_tar(start):
        return "tar"
    return "pickle" if _is_pickle(start) else None


def is_tar(start: bytes) -> bool:
    """Whether the first 512 bytes are a tar header with a right checksum."""
    if len(start) < HEAD_BYTES or not start[0]:
        return False
    digits = start[_TAR_CHECKSUM].strip(b" \0")
    if not digits or digits.strip(b"01234567"):
        return False
    blank = start[: _TAR_CHECKSUM.start] + b" " * 8 + start[_TAR_CHECKSUM.stop : HEAD_BYTES]
    # Some old programs summed signed bytes, and Python's tarfile takes that too.
    return int(digits, 8) in (sum(blank), sum(blank) - 256 * sum(byte > 127 for byte in blank))


def _is_safetensors(start: bytes) -> bool:
    """Eight bytes of a length, then a JSON object: the length of a text never looks like that."""
    return len(start) > 8 and start[7:8] == b"\0" and start[8:].lstrip(b" \t\r\n")[:1] == b"{"


def _is_pickle(start: bytes) -> bool:
    """PROTO with a protocol that exists. Older pickles begin like any text."""
    return len(start) > 2 and start[0] == 0x80 and 2 <= start[1] <= 5
