"""torch's names inside pickles: storage classes and dtypes with their sizes, and which globals are harmless.

The harmless ones are those of `torch._weights_only_unpickler` (torch 2.13); whatever else a pickle names would be
imported, and may be called, by `torch.load(weights_only=False)`.
"""

from __future__ import annotations

import re

from stridetool.core.dtype import ALIASES, DTYPES

_BYTES = {
    **{name: dtype.itemsize for name, dtype in DTYPES.items()},
    **dict.fromkeys(("qint8", "quint8", "quint4x2", "quint2x4"), 1),
    **dict.fromkeys(("bits8", "bits1x8", "bits2x4", "bits4x2", "float4_e2m1fn_x2"), 1),
    **{f"{sign}int{bits}": 1 for sign in ("", "u") for bits in range(1, 8)},
    "bits16": 2,
    "qint32": 4,
}
_STORAGES = {
    "Byte": "uint8", "Char": "int8", "Short": "int16", "Int": "int32", "Long": "int64", "Half": "float16",
    "Float": "float32", "Double": "float64", "BFloat16": "bfloat16", "Bool": "bool", "ComplexFloat": "complex64",
    "ComplexDouble": "complex128", "QInt8": "qint8", "QUInt8": "quint8", "QInt32": "qint32", "QUInt4x2": "quint4x2",
    "QUInt2x4": "quint2x4", "Untyped": "uint8", "Typed": "uint8",
}  # fmt: skip
_STORAGE_MODULES = ("torch", "torch.cuda", "torch.storage")

_UTILS = (
    *("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_parameter"),
    *("_rebuild_parameter_with_state", "_rebuild_qtensor", "_rebuild_sparse_tensor", "_rebuild_nested_tensor"),
    *("_rebuild_meta_tensor_no_storage", "_rebuild_wrapper_subclass", "_rebuild_device_tensor_from_numpy"),
    "_rebuild_device_tensor_from_cpu_tensor",
)
# Compiled code of the archive itself, and what its pickles call: torch.jit.load runs it, this tool does not.
_SCRIPT = "__torch__."
_SCRIPT_FUNCTIONS = (
    *("build_intlist", "build_tensorlist", "build_doublelist", "build_boollist"),
    *("build_tensor_from_id", "restore_type_tag"),
)
_HARMLESS = {
    *(f"torch._utils.{name}" for name in _UTILS),
    *("torch._tensor._rebuild_from_type_v2", "torch.nn.parameter.Parameter", "torch.serialization._get_layout"),
    *("torch.Size", "torch.Tensor", "torch.device", "collections.OrderedDict", "collections.Counter"),
    *("_codecs.encode", "builtins.bytearray", "builtins.complex", "builtins.set", "__builtin__.set"),
    *(f"torch.{scheme}" for scheme in ("per_tensor_affine", "per_channel_affine", "per_tensor_symmetric")),
    *("torch.per_channel_symmetric", "torch.per_channel_affine_float_qparams"),
    *(f"torch.jit._pickle.{name}" for name in _SCRIPT_FUNCTIONS),
}
_TENSOR_CLASS = re.compile(
    r"torch(\.cuda)?(\.sparse)?\.(Byte|Char|Short|Int|Long|Half|Float|Double|BFloat16|Bool)Tensor"
)
# Top-level modules whose functions can run programs, load code or reach files and networks.
_DANGEROUS = frozenset(
    (
        *("os", "posix", "nt", "sys", "subprocess", "builtins", "__builtin__", "runpy", "socket", "shutil", "ctypes"),
        *("_ctypes", "importlib", "imp", "pty", "code", "codeop", "bdb", "pdb", "asyncio", "multiprocessing", "pip"),
        *("pydoc", "timeit", "webbrowser", "commands", "cffi", "marshal", "types", "pickle", "_pickle", "dill"),
        *("cloudpickle", "joblib", "requests", "urllib", "urllib2", "httplib", "http", "aiohttp", "operator"),
        *("_operator", "functools", "io", "_io", "pathlib", "tempfile", "nturl2path", "ntpath", "posixpath", "profile"),
        *("cProfile", "trace", "ensurepip", "venv", "idlelib", "distutils", "setuptools", "zipimport", "pkgutil"),
        *("inspect", "threading", "_thread", "signal", "gc", "atexit"),
    )
)
# Types of Python itself: refused by weights_only, but calling them makes a value and nothing else.
_PLAIN_TYPES = frozenset(
    (
        *("list", "dict", "tuple", "set", "frozenset", "int", "long", "float", "complex", "bool", "str", "unicode"),
        *("bytes", "bytearray", "object", "slice", "range"),
    )
)
_DANGEROUS_IN_TORCH = ("torch.hub", "torch.utils", "torch.jit", "torch._dynamo", "torch._inductor", "torch.load")

_LOCATION = re.compile(r"(cpu|meta|(cuda|xpu|hpu|mps|mtia|npu|mlu|xla|ipu|maia|privateuseone)(:\d{1,5})?)")


def dtype_of_storage(path: str) -> str | None:
    """`float32` for `torch.FloatStorage`; None for what is no storage class of torch."""
    module, _, name = path.rpartition(".")
    return (
        _STORAGES.get(name.removesuffix("Storage")) if module in _STORAGE_MODULES and name.endswith("Storage") else None
    )


def dtype_of_global(path: str) -> str | None:
    """`float8_e4m3fn` for `torch.float8_e4m3fn`; None for what is no dtype of torch."""
    name = path.removeprefix("torch.")
    name = ALIASES[name].name if name in ALIASES else name
    return name if path.startswith("torch.") and name in _BYTES else None


def itemsize(dtype: str) -> int:
    """Bytes of one element."""
    return _BYTES[dtype]


def is_harmless(path: str) -> bool:
    """Whether torch's weights_only loader, or the archive's own code format, knows the global."""
    if path in _HARMLESS or path.startswith(_SCRIPT) or _TENSOR_CLASS.fullmatch(path):
        return True
    return dtype_of_storage(path) is not None or dtype_of_global(path) is not None


def is_dangerous(path: str) -> bool:
    """Whether the global is of a module made to run code, or to reach files and networks."""
    module, _, name = path.rpartition(".")
    if module in ("builtins", "__builtin__") and name in _PLAIN_TYPES:
        return False
    return path.partition(".")[0] in _DANGEROUS or path.startswith(_DANGEROUS_IN_TORCH)


def is_known_location(location: str) -> bool:
    """Whether torch registers a way to restore storages to `location`."""
    return _LOCATION.fullmatch(location) is not None
