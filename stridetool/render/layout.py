"""How sizes, strides and the kind of a layout are written, the same everywhere."""

from __future__ import annotations

from collections.abc import Sequence

from stridetool.render.blocks import Span
from stridetool.report.inspect import TensorRow


def sizes_text(sizes: Sequence[int]) -> str:
    """`[2, 3]`"""
    return f"[{', '.join(map(str, sizes))}]"


def strides_text(strides: Sequence[int]) -> str:
    """`(3, 1)`, and `(1,)` for one dimension, as Python writes a tuple."""
    return f"({', '.join(map(str, strides))}{',' if len(strides) == 1 else ''})"


def layout_text(tensor: TensorRow) -> Span:
    """What kind of layout this is, in a few words."""
    if tensor.numel == 0:
        return ("empty", "muted")
    words = [name.removesuffix("_format") for name in tensor.memory_formats]
    if len(words) > 1:
        words.append(f"(torch treats it as {tensor.suggested_memory_format.removesuffix('_format')})")
    if not words:
        words.append("dense, permuted" if tensor.is_non_overlapping_and_dense else "strided")
    if tensor.has_internal_overlap:
        words.append("overlapping" if 0 not in tensor.strides else "expanded")
    words += [flag for flag in tensor.flags if flag in ("conj", "neg", "requires_grad")]
    style = "good" if tensor.is_contiguous else "bad" if tensor.has_internal_overlap else "warn"
    return (", ".join(words).replace(", (", " ("), style)
