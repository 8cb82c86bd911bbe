"""The seam below the allocators: what a device is, and the few calls that every device answers."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from stridetool.errors import TensorError


class Device(NamedTuple):
    """`cpu`, `cuda:0`, `meta`: a type and, where several may exist, an index."""

    type: str
    index: int | None = None

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    @classmethod
    def parse(cls, text: str) -> Device:
        """`"cuda:1"` → Device("cuda", 1). Raises TensorError on anything else, in torch's words."""
        kind, colon, index = text.partition(":")
        if not kind or not kind.isalpha() or (colon and not index.isdecimal()):
            raise TensorError(f"Invalid device string: '{text}'")
        return cls(kind, int(index) if colon else None)


CPU = Device("cpu")


class Driver(Protocol):
    """One device: addresses in, addresses out. `host`, `sim` and `cuda` implement it, each in a small file.

    Sizes are bytes, addresses integers; 0 is the null pointer and never handed out.
    """

    device: Device

    def malloc(self, nbytes: int) -> int:
        """The address of `nbytes` (> 0) bytes. Raises OutOfMemoryError."""
        ...

    def free(self, address: int) -> None:
        """Give back what `malloc` returned."""
        ...

    def mem_info(self) -> tuple[int, int]:
        """(free, total) bytes of the device."""
        ...
