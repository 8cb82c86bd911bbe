"""The C extensions, which are optional: what they do faster, Python does too."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def extension(name: str) -> Any:
    """The module of this full name; None where the package was installed without a compiler."""
    try:
        return import_module(name)
    except ImportError:
        return None
