"""stridetool: tensors whose memory can be looked at, under torch's own names.

`import stridetool as st` runs snippets about layout that were written for torch. Names are handed on when they are
first asked for, so that importing the package alone loads nothing else.
"""

from __future__ import annotations

import importlib
from typing import Any

from stridetool._version import __version__ as __version__

# Name → module it lives in, and what it is called there.
_NAMES = {
    "Size": ("stridetool.core.facets", "Size"),
    "Tensor": ("stridetool.core.tensor", "Tensor"),
    **{
        name: ("stridetool.core.options", name)
        for name in (
            "TensorOptions",
            "channels_last",
            "channels_last_3d",
            "contiguous_format",
            "device",
            "get_default_device",
            "get_default_dtype",
            "preserve_format",
            "set_default_device",
            "set_default_dtype",
        )
    },
    **{
        name: ("stridetool.core.grad_mode", name)
        for name in (
            "enable_grad",
            "inference_mode",
            "is_grad_enabled",
            "is_inference_mode_enabled",
            "no_grad",
            "set_grad_enabled",
        )
    },
    "UntypedStorage": ("stridetool.core.storage", "Storage"),
    "Storage": ("stridetool.core.storage", "Storage"),
    "TypedStorage": ("stridetool.core.storage", "TypedStorage"),
    "dtype": ("stridetool.core.dtype", "DType"),
    "memory_format": ("stridetool.core.options", "MemoryFormat"),
    "promote_types": ("stridetool.core.dtype", "promote_types"),
    "manual_seed": ("stridetool.core.ops.factories", "manual_seed"),
    "is_tensor": ("stridetool.core.ops.leaving", "is_tensor"),
    "result_type": ("stridetool.core.ops.elementwise", "result_type"),
    "OutOfMemoryError": ("stridetool.errors", "OutOfMemoryError"),
}
_SUBMODULES = ("cuda", "kernels", "errors", "units")
# Operators that torch has no public function for.
_NOT_FUNCTIONS = frozenset(("H", "T", "copy_into", "data", "mH", "mT", "slice", "unsafe_view"))


def __getattr__(name: str) -> Any:
    """The public name, from the core. Raises AttributeError, with a suggestion, for anything else."""
    if name.startswith("__"):
        raise AttributeError(f"module 'stridetool' has no attribute '{name}'", name=name)
    if name in _SUBMODULES:
        return importlib.import_module(f"stridetool.{name}")
    _load()
    value = _lookup(name)
    globals()[name] = value
    return value


def _load() -> None:
    """Load the operators, which hang themselves on the Tensor class."""
    importlib.import_module("stridetool.core.ops")
    importlib.import_module("stridetool.core.interchange")
    importlib.import_module("stridetool.core.dlpack")
    importlib.import_module("stridetool.kernels.register")


def _lookup(name: str) -> Any:
    from stridetool.core.dispatch import OPERATORS
    from stridetool.core.dtype import ALIASES, DTYPES
    from stridetool.core.ops.leaving import FUNCTIONS
    from stridetool.core.refusals import missing_attribute

    if name in _NAMES:
        module, attribute = _NAMES[name]
        return getattr(importlib.import_module(module), attribute)
    if name in DTYPES or name in ALIASES:
        return DTYPES.get(name) or ALIASES[name]
    if name in OPERATORS and not name.startswith("_") and name not in _NOT_FUNCTIONS:
        return OPERATORS[name].call
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    raise missing_attribute("stridetool", name, __dir__())


def __dir__() -> list[str]:
    _load()
    from stridetool.core.dispatch import OPERATORS
    from stridetool.core.dtype import ALIASES, DTYPES
    from stridetool.core.ops.leaving import FUNCTIONS

    operators = (name for name in OPERATORS if not name.startswith("_") and name not in _NOT_FUNCTIONS)
    return sorted({*_NAMES, *_SUBMODULES, *DTYPES, *ALIASES, *FUNCTIONS, *operators, "__version__"})
