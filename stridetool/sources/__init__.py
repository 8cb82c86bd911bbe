"""Everything from outside → values: files, traces and scripts are parsed, and nothing in them is executed."""

from __future__ import annotations

from typing import Any

__all__ = ["open_tensor_file", "open_tensor_files"]


def __getattr__(name: str) -> Any:
    """The readers of tensor files, loaded when they are asked for: other sources do without them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from stridetool.sources import tensor_files

    return getattr(tensor_files, name)
