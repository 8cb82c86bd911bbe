"""Calls that rebuild a tensor, read as records: one rule for each of torch's functions (`torch/_utils.py`, 2.13)."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import msgspec

from stridetool.core.layout import Layout
from stridetool.core.tensor_file import FileTensor
from stridetool.errors import InputError
from stridetool.sources.pickle_records import Dict, Global, Made
from stridetool.sources.torch_storages import MAX_BYTES, StorageClaims, referenced_class
from stridetool.sources.torch_types import dtype_of_global, itemsize

_MAX_DIMS = 64
_MAX_WRAPPERS = 16


class Rebuilt(msgspec.Struct, frozen=True):
    """What a call stands for: a tensor of its own, or none; and values, by suffix of the name, that hold more."""

    tensor: FileTensor | None
    parts: tuple[tuple[str, Any], ...] = ()


def call_path(made: Made) -> str:
    """`module.name` of what would be called, or "" where it is no global."""
    function = referenced_class(made.function)
    return function.path if isinstance(function, Global) else ""


def rebuild(made: Made, name: str, claims: StorageClaims) -> Rebuilt | None:
    """What `made` rebuilds, or None when it rebuilds no tensor. Raises InputError where torch would refuse it."""
    try:
        return _rebuild(made, _Call(name, claims, 0))
    except (TypeError, ValueError, IndexError) as error:
        raise InputError(f"tensor `{name}`: {call_path(made)} with arguments that do not fit") from error
    except InputError as error:
        raise InputError(f"tensor `{name}`: {error.message}", hint=error.hint) from error


class _Call(NamedTuple):
    """Whose tensor is rebuilt, over which storages, and how many calls are around it."""

    name: str
    claims: StorageClaims
    depth: int


def _rebuild(made: Made, call: _Call) -> Rebuilt | None:
    rule = _RULES.get(call_path(made))
    if rule is None:
        return None
    if not isinstance(made.args, tuple):
        raise TypeError
    return rule(made.args, call)


def _inner(value: Any, call: _Call) -> Rebuilt | None:
    """A tensor inside the call of another: a parameter, a subclass."""
    if call.depth > _MAX_WRAPPERS:
        raise InputError("too many calls around one tensor")
    return _rebuild(value, call._replace(depth=call.depth + 1)) if isinstance(value, Made) else None


def _strided(args: tuple[Any, ...], call: _Call) -> Rebuilt:
    storage, offset, sizes, strides = args[:4]
    flags = ["requires_grad"] if len(args) > 4 and args[4] is True else []
    return Rebuilt(_view(call, storage, None, (offset, sizes, strides), flags))


def _strided_v2(args: tuple[Any, ...], call: _Call) -> Rebuilt:
    storage, offset, sizes, strides, requires_grad, _hooks, *metadata = args
    flags = ["requires_grad"] * (requires_grad is True) + _bits(metadata)
    return Rebuilt(_view(call, storage, None, (offset, sizes, strides), flags))


def _strided_v3(args: tuple[Any, ...], call: _Call) -> Rebuilt:
    storage, offset, sizes, strides, requires_grad, _hooks, dtype, *metadata = args
    flags = ["requires_grad"] * (requires_grad is True) + _bits(metadata)
    return Rebuilt(_view(call, storage, _dtype(dtype), (offset, sizes, strides), flags))


def _quantized(args: tuple[Any, ...], call: _Call) -> Rebuilt:
    storage, offset, sizes, strides, parameters, requires_grad, _hooks = args[:7]
    flags = ["quantized"] + ["requires_grad"] * (requires_grad is True)
    tensor = _view(call, storage, None, (offset, sizes, strides), flags)
    return Rebuilt(tensor, ((".quantizer", parameters),))


def _parameter(args: tuple[Any, ...], call: _Call) -> Rebuilt:
    data, requires_grad, *_rest = args
    flags = ("parameter", "requires_grad") if requires_grad is True else ("parameter",)
    inner = _inner(data, call)
    state = args[3] if len(args) > 3 else None
    if inner is None or inner.tensor is None:
        return Rebuilt(None, (("", data), ("", state)))
    return Rebuilt(_flagged(inner.tensor, *flags), (*inner.parts, ("", state)))


def _subclass(args: tuple[Any, ...], call: _Call) -> Rebuilt:
    function, class_, inner_args, state = args
    class_ = referenced_class(class_)
    inner = _inner(Made(function, inner_args), call)
    if inner is None or inner.tensor is None:
        return Rebuilt(None, (("", inner_args), ("", state)))
    plain = isinstance(class_, Global) and class_.path in ("torch.Tensor", "torch.nn.parameter.Parameter")
    tensor = inner.tensor if plain else _flagged(inner.tensor, "subclass")
    return Rebuilt(tensor, (*inner.parts, ("", state)))


def _sparse(args: tuple[Any, ...], call: _Call) -> Rebuilt:
    _layout, data = args
    if not isinstance(data, tuple) or len(data) < 3:
        raise TypeError
    compressed = len(data) == 4 and isinstance(data[2], Made) and call_path(data[2]) != "torch.Size"
    names = [".compressed_indices", ".plain_indices", ".values"] if compressed else [".indices", ".values"]
    return Rebuilt(None, tuple(zip(names, data, strict=False)))


def _nested(args: tuple[Any, ...], call: _Call) -> Rebuilt:
    names = (".buffer", ".sizes", ".strides", ".storage_offsets")
    return Rebuilt(None, tuple(zip(names, args, strict=True)))


def _meta(args: tuple[Any, ...], call: _Call) -> Rebuilt:
    dtype, sizes, strides, requires_grad = args
    flags = ["requires_grad"] * (requires_grad is True)
    return Rebuilt(_without_storage(call, dtype, (0, sizes, strides), "meta", flags))


def _wrapper(args: tuple[Any, ...], call: _Call) -> Rebuilt:
    _class, dtype, sizes, strides, offset, _layout, device, requires_grad = args
    flags = ["subclass", "without_storage"] + ["requires_grad"] * (requires_grad is True)
    return Rebuilt(_without_storage(call, dtype, (offset, sizes, strides), _device(device), flags))


def _from_host(args: tuple[Any, ...], call: _Call) -> Rebuilt:
    data, _dtype, device, *_rest = args
    inner = _inner(data, call)
    if inner is None or inner.tensor is None:
        return Rebuilt(None, (("", data),))
    return Rebuilt(msgspec.structs.replace(inner.tensor, device=_device(device)), inner.parts)


_RULES: dict[str, Callable[[tuple[Any, ...], _Call], Rebuilt]] = {
    "torch._utils._rebuild_tensor": _strided,
    "torch._utils._rebuild_tensor_v2": _strided_v2,
    "torch._utils._rebuild_tensor_v3": _strided_v3,
    "torch._utils._rebuild_qtensor": _quantized,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter,
    "torch._utils._rebuild_sparse_tensor": _sparse,
    "torch._utils._rebuild_nested_tensor": _nested,
    "torch._utils._rebuild_meta_tensor_no_storage": _meta,
    "torch._utils._rebuild_wrapper_subclass": _wrapper,
    "torch._utils._rebuild_device_tensor_from_cpu_tensor": _from_host,
    "torch._utils._rebuild_device_tensor_from_numpy": _from_host,
    "torch._utils._rebuild_xla_tensor": _from_host,
    "torch._tensor._rebuild_from_type": _subclass,
    "torch._tensor._rebuild_from_type_v2": _subclass,
    "torch.tensor._rebuild_from_type": _subclass,  # before 1.8
}


def _view(call: _Call, storage: Any, dtype: str | None, geometry: tuple[Any, Any, Any], flags: list[str]) -> FileTensor:
    claim = call.claims.of(storage)
    if claim is None:
        raise InputError("a tensor over something that is no storage")
    dtype = dtype or claim.dtype
    layout = _layout(*geometry)
    if layout.numel and layout.reach()[1] * itemsize(dtype) > claim.seen_bytes:
        raise InputError(
            f"out of bounds: sizes {list(layout.sizes)}, strides {list(layout.strides)} and offset {layout.offset} "
            f"need {layout.reach()[1] * itemsize(dtype):,} B of storage {claim.name[:40]!r}, "
            f"which has {claim.seen_bytes:,} B"
        )
    return _tensor(call, dtype, layout, claim.name, claim.location, flags)


def _without_storage(
    call: _Call, dtype: Any, geometry: tuple[Any, Any, Any], device: str, flags: list[str]
) -> FileTensor:
    return _tensor(call, _dtype(dtype), _layout(*geometry), None, device, flags)


def _tensor(call: _Call, dtype: str, layout: Layout, storage: str | None, device: str, flags: list[str]) -> FileTensor:
    return FileTensor(
        name=call.name,
        dtype=dtype,
        itemsize=itemsize(dtype),
        nbytes=layout.numel * itemsize(dtype),
        layout=layout,
        storage=storage,
        device=device,
        flags=tuple(flags),
    )


def _layout(offset: Any, sizes: Any, strides: Any) -> Layout:
    sizes, strides = _integers(sizes), _integers(strides)
    if len(sizes) != len(strides) or len(sizes) > _MAX_DIMS:
        raise InputError(f"{len(sizes)} sizes and {len(strides)} strides")
    if type(offset) is not int or not 0 <= offset <= MAX_BYTES:
        raise InputError(f"invalid storage offset {str(offset)[:40]}")
    if any(n < 0 for n in (*sizes, *strides)):
        raise InputError(f"negative sizes or strides: {list(sizes)}, {list(strides)}")
    layout = Layout(sizes, strides, offset)
    if prod(sizes) > MAX_BYTES or layout.reach()[1] > MAX_BYTES:
        raise InputError(f"sizes {list(sizes)} and strides {list(strides)} overflow 63 bits")
    return layout


def _integers(value: Any) -> tuple[int, ...]:
    if isinstance(value, Made) and call_path(value) == "torch.Size":
        value = value.args[0]
    if not isinstance(value, tuple | list) or not all(type(n) is int and abs(n) <= MAX_BYTES for n in value):
        raise InputError("sizes or strides that are no integers")
    return tuple(value)


def _dtype(value: Any) -> str:
    name = dtype_of_global(value.path) if isinstance(value, Global) else None
    if name is None:
        raise InputError("a dtype that torch does not know")
    return name


def _bits(metadata: list[Any]) -> list[str]:
    pairs = metadata[0].pairs if metadata and isinstance(metadata[0], Dict) else []
    return [bit for bit in ("conj", "neg") if any(key == bit and value is True for key, value in pairs)]


def _device(value: Any) -> str:
    if isinstance(value, Made) and isinstance(value.args, tuple):
        return ":".join(str(part) for part in value.args if isinstance(part, str | int))[:60]
    return value[:60] if isinstance(value, str) else "unknown"


def _flagged(tensor: FileTensor, *flags: str) -> FileTensor:
    return msgspec.structs.replace(tensor, flags=tuple(dict.fromkeys((*tensor.flags, *flags))))
