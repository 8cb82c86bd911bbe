"""Chains of view operators: one step applied to a tensor of either library, the facts of the result, and random steps.

The form of a step is that of the recorded chains: {"op": name, "a": positional, "k": keyword arguments}.
"""

import warnings
import zlib

from parity import error_facts

ATTRIBUTES = ("T", "mT", "H", "mH", "real", "imag")
LIST_ARGUMENT = ("flip", "repeat", "permute", "expand", "view", "reshape", "broadcast_to")
FORMATS = ("contiguous_format", "channels_last", "channels_last_3d")


def start(module, base):
    """The tensor that a chain begins with."""
    dtype = getattr(module, base["dt"])
    if base["dt"] == "bool":
        flat = module.tensor([i % 2 == 1 for i in range(base["n"])], dtype=dtype)
    elif base["dt"].startswith("complex"):
        flat = module.tensor([complex(i, i + 0.5) for i in range(base["n"])], dtype=dtype)
    else:
        flat = module.arange(base["n"], dtype=module.int64).to(dtype)
    if base.get("plain"):
        return module.empty(0, dtype=dtype).set_(flat.untyped_storage(), 0, base["sz"], base["st"])
    return flat.as_strided(base["sz"], base["st"], base["off"])


def apply(module, x, step):
    """What the step gives."""
    op, args, kwargs = step["op"], step.get("a", []), dict(step.get("k", {}))
    if "memory_format" in kwargs:
        kwargs["memory_format"] = getattr(module, kwargs["memory_format"])
    if op == "view_dtype":
        return x.view(getattr(module, args[0]))
    if op == "index":
        return x[tuple(index_item(item) for item in args[0])]
    if op == "slice":
        dim, *bounds = args
        return x[(slice(None),) * (dim % x.dim()) + (slice(*bounds),)]
    if op in ATTRIBUTES:
        return getattr(x, op)
    if op in ("empty_like", "view_as_real", "view_as_complex"):
        return getattr(module, op)(x, **kwargs)
    if op == "squeeze_dims":
        return x.squeeze(tuple(args[0]))
    if op in LIST_ARGUMENT:
        return getattr(x, op)(args[0])
    if op == "set_":
        return x.set_(x.untyped_storage(), *args)
    return getattr(x, op)(*args, **kwargs)


def index_item(item):
    if item == "n":
        return None
    if item == "...":
        return Ellipsis
    return slice(*item[1:]) if isinstance(item, list) else item


class Observer:
    """The facts of the tensors of one chain, with storages numbered as they first appear."""

    def __init__(self, module):
        self.module = module
        self.storages = []

    def facts(self, x, with_values):
        out = {
            "dt": str(x.dtype).rpartition(".")[2],
            "sz": list(x.shape),
            "st": list(x.stride()),
            "off": x.storage_offset(),
            "fl": self.flags(x),
            "sid": self.number(x.untyped_storage()),
            "nb": x.untyped_storage().nbytes(),
        }
        if with_values:
            out["crc"] = self.checksum(x)
        return out

    def flags(self, x):
        is_torch = self.module.__name__ == "torch"
        dense = self.module.ops.aten.is_non_overlapping_and_dense(x) if is_torch else x.is_non_overlapping_and_dense()
        is_in = [x.is_contiguous(memory_format=getattr(self.module, name)) for name in FORMATS]
        said = zip("CL3Djn" + "V", [*is_in, dense, x.is_conj(), x.is_neg(), x._is_view()], strict=True)
        return "".join(letter for letter, holds in said if holds)

    def number(self, storage):
        key = storage._cdata if self.module.__name__ == "torch" else id(storage)
        keys = [known for known, _ in self.storages]
        if key not in keys:
            self.storages.append((key, storage))
        return [known for known, _ in self.storages].index(key)

    def checksum(self, x):
        plain = x.resolve_conj().resolve_neg().reshape(-1)
        plain = plain.clone(memory_format=self.module.contiguous_format)
        return f"{zlib.crc32(plain.view(self.module.uint8).numpy().tobytes()):08x}"


def run(module, base, steps):
    """The facts after each step, or its error; a failed step leaves the tensor as it is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, about names that it will drop
        return run_steps(module, base, steps)


def run_steps(module, base, steps):
    observer = Observer(module)
    x = start(module, base)
    known = True
    out = [observer.facts(x, True)]
    for step in steps:
        try:
            result = apply(module, x, step)
        except Exception as error:
            out.append((error_facts(error), list(x.shape), list(x.stride())))
            continue
        known &= step["op"] not in ("empty_like", "resize_", "set_")
        if isinstance(result, tuple | list):
            out.append([observer.facts(part, known) for part in result])
            x = result[step.get("pick", 0)] if result else x
        else:
            out.append((observer.facts(result, known), result is x))
            x = result
    return out
