"""Run the same expression under torch and under stridetool, and compare all that can be seen of the results."""

import contextlib
import warnings

FORMATS = ("contiguous_format", "channels_last", "channels_last_3d")


def outcome(module, statements, expression):
    """Facts of what `expression` gives after `statements`, where `t` is the module; or the error."""
    names = {"t": module}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(statements, names)
            return facts(module, eval(expression, names))
        except Exception as error:
            return error_facts(error)


def error_facts(error):
    """The built-in class and the first line of the message."""
    builtin = next(c for c in type(error).__mro__ if c.__module__ == "builtins")
    return "error", builtin.__name__, str(error).split("\n")[0].strip()


def facts(module, value):
    """Sizes, strides, offset, type, flags and values of a tensor; containers item by item; else the value."""
    if isinstance(value, module.Tensor):
        return tensor_facts(module, value)
    if type(value).__name__.lower() == "device":
        return str(value)
    if isinstance(value, list | tuple):
        return [facts(module, item) for item in value]
    if isinstance(value, module.dtype):
        return str(value).split(".")[-1]
    if type(value).__name__.endswith(("Backward0", "Backwards", "AccumulateGrad", "CopySlices")):
        return value.name()
    return value


def tensor_facts(module, x):
    flags = [x.is_contiguous(memory_format=getattr(module, name)) for name in FORMATS]
    out = [
        tuple(x.shape),
        tuple(x.stride()),
        x.storage_offset(),
        str(x.dtype).split(".")[-1],
        str(x.device),
        flags,
        x._is_view(),
        x.requires_grad,
        x.grad_fn.name() if x.grad_fn is not None else None,
        x.untyped_storage().nbytes(),
    ]
    with contextlib.suppress(RuntimeError):
        out.append(x._version)
    if x.device.type != "meta":
        out.append(str(x.detach().resolve_conj().resolve_neg().tolist()))
    return out
