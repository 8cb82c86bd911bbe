"""The C extension, built from csrc/; absent where there was no compiler."""

from collections.abc import Callable
from typing import Any

Ints = tuple[int, ...]

def copy_into(dst: Any, src: Any, *, threads: int = 1) -> None: ...
def copy_raw(
    dst: int,
    src: int,
    itemsize: int,
    sizes: Ints,
    dst_strides: Ints,
    src_strides: Ints,
    threads: int,
    /,
) -> None: ...
def plan(
    sizes: Ints, dst_strides: Ints, src_strides: Ints, itemsize: int, /
) -> tuple[str, int, int, int, int, Ints, Ints, Ints, Ints, Ints, int, int, int]: ...
def isas() -> list[str]: ...
def isa() -> str | None: ...
def use(name: str | None, /) -> None: ...
def set_fallback(function: Callable[[Any, Any, int], None], /) -> None: ...
