"""A GPU as a device to benchmark, through CuPy."""

from __future__ import annotations

import importlib.util

from stridetool.bench.backend import Backend
from stridetool.errors import UnavailableError


def cuda_backend() -> Backend:
    """The first GPU. Raises UnavailableError where there is none, or no CuPy to reach it."""
    if importlib.util.find_spec("cupy") is None:
        raise UnavailableError(
            "cannot time copies on a GPU: CuPy is not installed",
            hint="on a machine with an NVIDIA GPU, pip install 'stride-tool[cuda12]' (or cuda13)",
        )
    from stridetool.core.drivers.cuda import is_available

    if not is_available():
        raise UnavailableError(
            "cannot time copies on a GPU: CuPy sees none",
            hint="run it on a machine with an NVIDIA GPU and its driver (nvidia-smi shows it)",
        )
    raise UnavailableError("cannot time copies on a GPU yet")
