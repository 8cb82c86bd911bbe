"""Torch's out-of-memory text, of its three eras, to numbers: what a pasted message can say without any snapshot.

- 2018 to 1.4: `(GPU 0; 11.93 GiB total capacity; 4.00 GiB already allocated; 7.33 GiB free; 179.00 KiB cached)`, where
  cached is what is held and not used: torch's own comment on it, and the sizes add up to the capacity only so
- 1.5 to 2.0: `(GPU 0; …; 7.33 GiB free; 4.10 GiB reserved in total by PyTorch) If reserved memory is >> …`
- since 2.1: `GPU 0 has a total capacity of … of which … is free. … Of the allocated memory … is allocated by
  PyTorch, and … is reserved by PyTorch but unallocated.`
"""

from __future__ import annotations

import re

from stridetool.core.memory.oom_message import OomMessage, OtherProcess
from stridetool.errors import InputError

MARK = "out of memory"
_UNITS = {"bytes": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "KB": 1 << 10,
          "MB": 1 << 20, "GB": 1 << 30}  # fmt: skip
_SIZE = r"(\d{1,15}(?:\.\d{1,6})?) (bytes|B|[KMGT]iB|[KMG]B)"
_OLD = {
    "total_bytes": rf"{_SIZE} total capacity",
    "allocated_bytes": rf"{_SIZE} already allocated",
    "free_bytes": rf"{_SIZE} free",
    "reserved_bytes": rf"{_SIZE} (?:cached|reserved in total by PyTorch)",
}
_ORDER = ("total_bytes", "free_bytes", "allocated_bytes", "reserved_bytes")
_NEW = {
    "total_bytes": rf"total capacity of {_SIZE}",
    "free_bytes": rf"of which {_SIZE} is free",
    "process_bytes": rf"this process has {_SIZE} memory in use",
    "allowed_bytes": rf"{_SIZE} allowed",
    "allocated_bytes": rf"Of the allocated memory {_SIZE} is allocated by PyTorch",
    "private_pool_bytes": rf"with {_SIZE} allocated in private pools",
    "unallocated_bytes": rf"{_SIZE} is reserved by PyTorch but unallocated",
}
# Other texts speak of memory too: only a mark that the size follows soon begins a message.
_BEGIN = re.compile(rf"(?i:out of memory)(?:(?!(?i:out of memory)).){{0,300}}?Tried to allocate {_SIZE}")
_OTHER_PROCESS = re.compile(rf"Process (\d{{1,10}}) has {_SIZE} memory in use")
_GPU = re.compile(r"GPU (\d{1,4})")
MAX_TEXT = 1 << 20


def parse_message(text: str) -> OomMessage:
    """The last out-of-memory message in `text`. Raises InputError when there is none of torch's."""
    text = " ".join(text[-MAX_TEXT:].split())
    messages = list(_BEGIN.finditer(text))
    if not messages:
        raise InputError("this is no out-of-memory message of torch", hint="paste the line with `Tried to allocate`")
    begin = messages[-1]
    text = text[begin.start() :]
    gpu = _GPU.search(text)
    read = _old if "already allocated" in text else _new
    return read(text, int(gpu[1]) if gpu else 0, _bytes(*begin.groups()))._replace(messages=len(messages))


def _old(text: str, device: int, wanted: int) -> OomMessage:
    """A message of the first two eras."""
    sizes = _sizes(_OLD, text)
    era = "1.5 to 2.0" if "reserved in total by PyTorch" in text else "before 1.5"
    total, free, allocated, reserved = (sizes.get(name) for name in _ORDER)
    if era == "before 1.5" and allocated is not None and reserved is not None:
        reserved += allocated
    return OomMessage(era, device, wanted, total, free, allocated, reserved)


def _new(text: str, device: int, wanted: int) -> OomMessage:
    """A message of the last era. A process that is said to hold more than there is (NVML knows it not) says nothing."""
    sizes = _sizes(_NEW, text)
    allocated, unallocated = sizes.get("allocated_bytes"), sizes.get("unallocated_bytes")
    total, process = sizes.get("total_bytes"), sizes.get("process_bytes")
    named = (OtherProcess(int(pid), _bytes(number, unit)) for pid, number, unit in _OTHER_PROCESS.findall(text))
    return OomMessage(
        "2.1 or later",
        device,
        wanted,
        total,
        sizes.get("free_bytes"),
        allocated,
        None if allocated is None or unallocated is None else allocated + unallocated,
        sizes.get("private_pool_bytes", 0),
        sizes.get("allowed_bytes"),
        process if _is_possible(process, total) else None,
        tuple(other for other in named if _is_possible(other.nbytes, total)),
    )


def _is_possible(nbytes: int | None, total: int | None) -> bool:
    return nbytes is not None and (total is None or nbytes <= total + total // 100)


def _sizes(patterns: dict[str, str], text: str) -> dict[str, int]:
    found = {name: re.search(pattern, text) for name, pattern in patterns.items()}
    return {name: _bytes(*match.groups()) for name, match in found.items() if match}


def _bytes(number: str, unit: str) -> int:
    return int(float(number) * _UNITS[unit])
