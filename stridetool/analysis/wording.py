"""Lists of names in a sentence, the same in every finding."""

from __future__ import annotations

from collections.abc import Sequence


def some(names: Sequence[str], limit: int = 4) -> str:
    """`a, b, c, d and 3 more`: the first `limit` names, and how many were left out."""
    head = ", ".join(names[:limit])
    return head if len(names) <= limit else f"{head} and {len(names) - limit:,} more"
