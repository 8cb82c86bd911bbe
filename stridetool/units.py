"""Bytes and seconds to text and back: the one place that decides how a quantity is written."""

from __future__ import annotations

import re

from stridetool.errors import UsageError

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_FACTORS = {
    "": 1,
    "b": 1,
    **{unit: 1000 ** (i + 1) for i, unit in enumerate(("kb", "mb", "gb", "tb", "pb"))},
    **{unit: 1024 ** (i + 1) for i, unit in enumerate(("k", "m", "g", "t", "p"))},
    **{unit: 1024 ** (i + 1) for i, unit in enumerate(("kib", "mib", "gib", "tib", "pib", "eib"))},
}
_BYTES = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")
_MAX_BYTES = 1 << 63


def format_bytes(nbytes: int) -> str:
    """`nbytes` with a binary unit: exact below 10,000 B, three significant digits above."""
    if abs(nbytes) < 10_000:
        return f"{nbytes:,} B"
    value, unit = float(nbytes), 0
    while abs(value) >= 1024 and unit < len(_BINARY) - 1:
        value /= 1024
        unit += 1
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:.{digits}f} {_BINARY[unit]}"


def parse_bytes(text: str) -> int:
    """Bytes from `80GiB`, `512 MB`, `1.5g` or `4096` (a bare K, M, G, T is binary, as in torch's settings).

    Raises UsageError when the text is no size, or is 2^63 bytes or more.
    """
    match = _BYTES.fullmatch(text)
    factor = _FACTORS.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise UsageError(f"cannot read size {text!r}", hint="write it like 80GiB, 512MiB or 4096")
    nbytes = int(float(match[1]) * factor) if "." in match[1] else int(match[1]) * factor
    if nbytes >= _MAX_BYTES:
        raise UsageError(f"cannot read size {text!r}: it is 8 EiB or more")
    return nbytes


def format_seconds(seconds: float) -> str:
    """`seconds` with a fitting unit and three significant digits."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(seconds) >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def format_rate(bytes_per_second: float) -> str:
    """A bandwidth in decimal gigabytes per second, as STREAM and vendors' data sheets write it."""
    return f"{bytes_per_second / 1e9:.3g} GB/s"


def format_share(part: int, whole: int) -> str:
    """`part` of `whole` as a percentage that rounds neither to 100 what is not all nor to 0 what is not nothing."""
    if 0 < part < 0.001 * whole:
        return "<0.1 %"
    return f"{min(99.9, 100 * part / whole) if part < whole else 100:.1f} %"
