"""Can this array go to X as it is? One rule per consumer, each with its reason.

Sources: NumPy's array interface; DLPack 1.1 and what torch 2.13 does on import (it aborts the process on a
negative stride); `cv::Mat` (dense pixels, rows that may be padded); NCCL's user guide (contiguous buffers);
safetensors 0.8 (`save_file` refuses strided and shared tensors); CUDA's programming guide (16-byte loads
need 16-byte aligned addresses).
"""

from __future__ import annotations

from collections.abc import Callable

from stridetool.core.facts import ArrayFacts
from stridetool.core.layout import Layout
from stridetool.report.inspect import Consumer

_NO_NUMPY = ("bfloat16", "complex32", "float8")
_OPENCV = ("uint8", "int8", "uint16", "int16", "int32", "float16", "float32", "float64")
_MAX_CHANNELS = 512  # CV_CN_MAX
VECTOR_BYTES = 16


def consumers(facts: ArrayFacts) -> tuple[Consumer, ...]:
    """Every consumer's answer; an empty reason belongs to a yes."""
    answers = ((name, rule(facts)) for name, rule in _RULES.items())
    return tuple(Consumer(name, not reason, reason) for name, reason in answers)


def _numpy(facts: ArrayFacts) -> str:
    if facts.dtype.startswith(_NO_NUMPY):
        return f"NumPy has no {facts.dtype}: view it as an integer of {facts.itemsize} B first"
    return _host_memory(facts) or _lazy_bits(facts)


def _dlpack(facts: ArrayFacts) -> str:
    if any(s < 0 for s in facts.layout.strides):
        return "a stride is negative, and torch's import would abort the process: copy first"
    if facts.unit != facts.itemsize:
        return "byte strides are no whole elements: copy first"
    return _no_memory(facts) or _lazy_bits(facts)


def _opencv(facts: ArrayFacts) -> str:
    sizes, strides = facts.layout.sizes, facts.layout.strides
    if facts.dtype not in _OPENCV:
        return f"no cv::Mat of {facts.dtype}"
    if len(sizes) not in (2, 3) or (len(sizes) == 3 and sizes[2] > _MAX_CHANNELS):
        return f"an image is H×W or H×W×C (C up to {_MAX_CHANNELS})"
    dense = Layout.contiguous(sizes).strides
    if facts.unit != facts.itemsize or strides[1:] != dense[1:]:
        return f"pixels are not dense: strides {strides}, and OpenCV needs {dense}"
    return "rows run backwards or overlap" if strides[0] < dense[0] and sizes[0] > 1 else _host_memory(facts)


def _nccl(facts: ArrayFacts) -> str:
    if not facts.layout.is_contiguous() or facts.unit != facts.itemsize:
        return "not contiguous: collectives take one dense buffer"
    return ""


def _safetensors(facts: ArrayFacts) -> str:
    if not facts.layout.is_contiguous() or facts.unit != facts.itemsize:
        return "not contiguous: save_file refuses it"
    return _no_memory(facts)


def _vector_loads(facts: ArrayFacts) -> str:
    if facts.layout.numel == 0:
        return ""
    if facts.data_address % VECTOR_BYTES:
        return f"address {facts.data_address:#x} is {facts.data_address % VECTOR_BYTES} B past a multiple of 16"
    dims = [(n, s * facts.unit) for n, s in zip(facts.layout.sizes, facts.layout.strides, strict=True) if n > 1]
    if not dims or dims[-1][1] != facts.itemsize:
        return "the last dimension is not dense"
    if bad := next((s for _, s in dims[:-1] if s % VECTOR_BYTES), None):
        return f"a row starts every {bad} B, no multiple of 16"
    return "" if dims[-1][0] * facts.itemsize % VECTOR_BYTES == 0 else "a row is no multiple of 16 B: a tail remains"


def _no_memory(facts: ArrayFacts) -> str:
    return "a meta tensor has no memory" if facts.device == "meta" else ""


def _host_memory(facts: ArrayFacts) -> str:
    return _no_memory(facts) or ("" if facts.device == "cpu" else f"it is on {facts.device}: copy it to the host")


def _lazy_bits(facts: ArrayFacts) -> str:
    if "requires_grad" in facts.flags:
        return "it requires grad: detach() first"
    lazy = next((bit for bit in ("conj", "neg") if bit in facts.flags), None)
    return f"its {lazy} bit is not resolved: resolve_{lazy}() copies" if lazy else ""


_RULES: dict[str, Callable[[ArrayFacts], str]] = {
    "NumPy": _numpy,
    "DLPack": _dlpack,
    "OpenCV": _opencv,
    "NCCL": _nccl,
    "safetensors": _safetensors,
    "16-byte loads": _vector_loads,
}
