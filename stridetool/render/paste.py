"""The line to paste into a shell where settings are to be recommended."""

from __future__ import annotations

from stridetool.render.blocks import Line, line
from stridetool.report.alloc import Recommendation


def export_line(recommended: Recommendation) -> Line:
    """Sets what torch reads when it starts."""
    return line((f"  export PYTORCH_CUDA_ALLOC_CONF={recommended.settings}", "name"))
