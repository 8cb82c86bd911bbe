"""What a new tensor shall be: TensorOptions (dtype, device, memory format, requires_grad) and the defaults.

Options are partial: what is not said stays open until a factory asks, and the default of that moment is taken.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stridetool.core import dispatch
from stridetool.core.drivers.device import CPU, Device
from stridetool.core.dtype import DType, bool_, float32, int64
from stridetool.errors import ArgumentTypeError, TensorError


class MemoryFormat(str):
    """A memory format; equal to its name."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"stridetool.{self!s}"


contiguous_format = MemoryFormat("contiguous_format")
preserve_format = MemoryFormat("preserve_format")
channels_last = MemoryFormat("channels_last")
channels_last_3d = MemoryFormat("channels_last_3d")
MEMORY_FORMATS = {f: f for f in (contiguous_format, preserve_format, channels_last, channels_last_3d)}

_default_dtype = float32
_default_device = CPU


def get_default_dtype() -> DType:
    """The type that a floating-point tensor gets when nothing is said: float32 at first."""
    return _default_dtype


def set_default_dtype(dtype: DType) -> None:
    """Change it. Raises ArgumentTypeError for a type that is not floating point."""
    global _default_dtype
    if not isinstance(dtype, DType):
        raise ArgumentTypeError("invalid dtype object: only floating-point types are supported as the default type")
    if not dtype.is_floating_point:
        raise ArgumentTypeError("only floating-point types are supported as the default type")
    _default_dtype = dtype


def get_default_device() -> Device:
    """The device that a tensor gets when nothing is said: the CPU at first."""
    return _default_device


def set_default_device(value: Device | str | int | None) -> None:
    """Change it; None is the CPU again."""
    global _default_device
    _default_device = CPU if value is None else as_device(value)


def default_complex() -> DType:
    """The complex type whose parts have the default type."""
    return _default_dtype.to_complex()


class _AnyDevice(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Device)


class device(metaclass=_AnyDevice):  # noqa: N801  torch's name
    """`device("cuda:1")`, `device("cuda", 1)`, `device(0)`, as Device values. Raises TensorError in torch's words."""

    def __new__(cls, value: Any, index: int | None = None) -> Device:  # type: ignore[misc]  # never an instance of this class
        """The device of that name."""
        return as_device(value, index)


_TORCH_TYPES = (
    "cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, mps, meta, hpu, mtia, "
    "privateuseone"
)


def as_device(value: object, index: int | None = None) -> Device:
    """A device, its name, or the index of a CUDA device as a Device."""
    if isinstance(value, Device):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Device("cuda", value)
    if not isinstance(value, str):
        raise ArgumentTypeError(f"device(): argument 'type' must be str, not {type(value).__name__}")
    if not value:
        raise TensorError("Device string must not be empty")
    parsed = Device.parse(value)
    if parsed.type not in (*_TORCH_TYPES.split(", "), *dispatch.backends()):
        raise TensorError(f"Expected one of {_TORCH_TYPES} device type at start of device string: {value}")
    if index is None:
        return parsed
    if parsed.index is not None:
        raise TensorError(f"type (string) must not include an index because index was passed explicitly: {value}")
    return Device(parsed.type, index)


class TensorOptions(msgspec.Struct, frozen=True):
    """Partial options, chained: `TensorOptions().dtype(float64).device("cuda")`.

    Each name is a setter with an argument and a getter without one; a getter answers with the default when nothing
    was said, `…_opt()` with None.
    """

    dtype_: DType | None = None
    device_: Device | None = None
    memory_format_: MemoryFormat | None = None
    requires_grad_: bool | None = None
    pinned_memory_: bool | None = None

    def _with(self, **changes: Any) -> TensorOptions:
        return msgspec.structs.replace(self, **changes)

    def dtype(self, value: DType | None = None) -> Any:
        """The dtype, or options with this dtype."""
        return (self.dtype_ or _default_dtype) if value is None else self._with(dtype_=value)

    def device(self, value: Device | str | int | None = None) -> Any:
        """The device, or options with this device."""
        return (self.device_ or _default_device) if value is None else self._with(device_=as_device(value))

    def memory_format(self, value: MemoryFormat | None = None) -> Any:
        """The memory format, or options with this memory format."""
        if value is None:
            return self.memory_format_ or contiguous_format
        return self._with(memory_format_=as_memory_format(value))

    def requires_grad(self, value: bool | None = None) -> Any:
        """Whether gradients are wanted, or options that say so."""
        return bool(self.requires_grad_) if value is None else self._with(requires_grad_=value)

    def pinned_memory(self, value: bool | None = None) -> Any:
        """Whether host memory is page-locked, or options that say so."""
        return bool(self.pinned_memory_) if value is None else self._with(pinned_memory_=value)

    def dtype_opt(self) -> DType | None:
        """The dtype that was said."""
        return self.dtype_

    def device_opt(self) -> Device | None:
        """The device that was said."""
        return self.device_

    def merge_in(self, other: TensorOptions) -> TensorOptions:
        """These options, overridden by all that `other` says."""
        said = {name: value for name, value in msgspec.structs.asdict(other).items() if value is not None}
        return self._with(**said)


def as_memory_format(value: object) -> MemoryFormat:
    """The memory format of that name. Raises ArgumentTypeError for anything else."""
    if isinstance(value, str) and value in MEMORY_FORMATS:
        return MEMORY_FORMATS[value]  # type: ignore[index]  # equal to its name
    raise ArgumentTypeError(f"argument 'memory_format' must be stridetool.memory_format, not {type(value).__name__}")


def infer_dtype(values: object) -> DType:
    """The type for nested lists of Python numbers, as `torch.tensor` infers it; the default type when empty."""
    kinds = {_kind(value) for value in _leaves(values)}
    for kind, dtype in (("c", default_complex), ("f", get_default_dtype)):
        if kind in kinds:
            return dtype()
    if "i" in kinds:
        return int64
    return bool_ if kinds else _default_dtype


def _leaves(values: object) -> Any:
    if isinstance(values, list | tuple):
        for value in values:
            yield from _leaves(value)
    else:
        yield values


def _kind(value: object) -> str:
    for kind, python_type in (("b", bool), ("i", int), ("f", float), ("c", complex)):
        if isinstance(value, python_type):
            return kind
    return "f"
