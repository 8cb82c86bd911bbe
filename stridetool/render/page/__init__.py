"""Style sheets and scripts of the pages, as files, and the one function that reads them."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def asset(name: str) -> str:
    """The text of a file of this folder."""
    return (files(__name__) / name).read_text(encoding="utf-8")
