"""What memory needs of autograd: which tensors belong to a graph, and which storages that graph keeps alive.

No gradient is computed. The graph has torch's node names, `next_functions` and saved tensors, because a forgotten
graph is the most common way to keep memory. References run from outputs to inputs only, so it is freed at once.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from stridetool.core import dispatch
from stridetool.core.dispatch import Kernel, Operator
from stridetool.core.facets import AutogradMeta
from stridetool.core.grad_mode import is_grad_enabled, is_inference_mode_enabled
from stridetool.core.tensor import Tensor, alias_of
from stridetool.errors import TensorError, UnsupportedError

Edge = tuple["Node | None", int]
Saved = dict[str, "SavedTensor | None"]
_WRITTEN_IN_CPP = ("AccumulateGrad", "CopyBackwards", "CopySlices")


class SavedTensor:
    """A tensor that a node will need: its memory, and the version that it had."""

    __slots__ = ("tensor", "version")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = alias_of(tensor, tensor._layout, tensor._dtype)
        self.tensor._autograd, self.tensor._keys = tensor._autograd, tensor._keys
        self.version = tensor._version

    def unpack(self) -> Tensor:
        """The tensor. Raises TensorError when its memory was written since."""
        now = self.tensor._version
        if now != self.version:
            raise TensorError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"[{self.tensor.dtype.type_name(self.tensor.device.type)} {list(self.tensor.shape)}]"
                f"{self._origin()} is at version {now}; expected version {self.version} instead.",
                hint="clone() the tensor before writing to it",
            )
        return self.tensor

    def _origin(self) -> str:
        node = self.tensor.grad_fn
        name = type(node).__name__.partition("Backward")[0]
        return f", which is output {self.tensor.output_nr} of {name}," if node is not None else ""


class Node:
    """One step of the graph; its class is named as torch's. `_saved_<name>` gives what it keeps."""

    __slots__ = ("__weakref__", "next_functions", "saved")
    next_functions: tuple[Edge, ...]
    saved: Saved

    def __init__(self, next_functions: Sequence[Edge], saved: Saved | None = None) -> None:
        self.next_functions = tuple(next_functions)
        self.saved = saved or {}

    def name(self) -> str:
        """torch's name of the node."""
        name = type(self).__name__
        return f"torch::autograd::{name}" if name in _WRITTEN_IN_CPP else name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_saved_") and name[7:] in self.saved:
            kept = self.saved[name[7:]]
            return kept.unpack() if kept is not None else None
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"


class AccumulateGrad(Node):
    """The end of the graph at a leaf."""

    __slots__ = ("variable",)

    def __init__(self, variable: Tensor) -> None:
        super().__init__(())
        self.variable = variable


@functools.cache
def node_class(name: str) -> type[Node]:
    """The class of nodes called `name`."""
    return type(name, (Node,), {"__slots__": ()})


def edge_of(x: Tensor) -> Edge:
    """Where the gradient of `x` would go."""
    meta = x._autograd
    if meta is None or not x.requires_grad:
        return None, 0
    if meta.grad_fn is not None:
        return meta.grad_fn, meta.output_nr
    accumulator = meta.accumulator() if meta.accumulator else None
    if accumulator is None:
        accumulator = AccumulateGrad(x)
        meta.accumulator = weakref.ref(accumulator)
    return accumulator, 0


# Saved inputs by node name: which argument, under which name, when which other argument requires grad.
_SAVES: dict[str, tuple[tuple[int, str, int], ...]] = {
    "MulBackward0": ((0, "self", 1), (1, "other", 0)),
    "DivBackward0": ((0, "self", 1), (1, "other", 0)),
    "PowBackward0": ((0, "self", 0),),
    "PowBackward1": ((0, "self", 0), (1, "exponent", 0)),
}


def _saved(name: str, args: Sequence[Any]) -> Saved:
    saved: Saved = {}
    for kept, label, asking in _SAVES.get(name, ()):
        wanted = isinstance(args[kept], Tensor) and getattr(args[asking], "requires_grad", False)
        saved[label] = SavedTensor(args[kept]) if wanted else None
    return saved


_WITH_NUMBERS = ("AddBackward0", "SubBackward0", "MulBackward0", "DivBackward0")  # a number has an edge, too


def _edges(name: str, args: Sequence[Any]) -> list[Edge]:
    if name in _WITH_NUMBERS:
        return [edge_of(x) if isinstance(x, Tensor) else (None, 0) for x in args[:2]]
    if name in ("CopySlices", "IndexPutBackward0"):  # x[index] = value
        return [edge_of(x) if isinstance(x, Tensor) else (None, 0) for x in (args[0], args[2])]
    return [edge_of(x) for x in tensors_in(args)]


def tensors_in(args: Iterable[Any]) -> list[Tensor]:
    """The tensors among arguments and in lists among them."""
    found: list[Tensor] = []
    for value in args:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += [item for item in value if isinstance(item, Tensor)]
    return found


def set_history(outputs: Iterable[Tensor], name: str, args: Sequence[Any]) -> None:
    """Make a node over the tensors in `args` the origin of `outputs`."""
    node = node_class(name)(_edges(name, args), _saved(name, args))
    for number, output in enumerate(outputs):
        if output._dtype.kind in "fc":
            _attach(output, node, number)


def _attach(x: Tensor, node: Node, number: int = 0) -> None:
    meta = AutogradMeta(requires_grad=True)  # a new one: saved tensors keep the old
    meta.grad_fn, meta.output_nr = node, number
    x._autograd = meta
    x._keys |= dispatch.AUTOGRAD


def _layer(op: Operator, below: Kernel) -> Kernel:
    """Record a node for operators that have one; in-place ones also refuse leaves, as torch does."""
    grad = op.grad
    if grad is None:
        return below
    in_place = op.name.endswith("_")

    def differentiable(*args: Any, **kwargs: Any) -> Any:
        if not is_grad_enabled():
            return below(*args, **kwargs)
        if in_place:
            refuse_leaf(args[0])
        name = grad if isinstance(grad, str) else grad((*args, *kwargs.values()))
        out = below(*args, **kwargs)
        if in_place:
            _rebase(args[0], name, args)
        elif isinstance(out, Tensor):
            if out is not args[0]:
                set_history((out,), name, args)
        else:
            set_history(out, name, args)
        return out

    return differentiable


def refuse_leaf(x: Tensor) -> None:
    """Raise TensorError when a leaf of the graph, or a view of one, would be written to."""
    if x.requires_grad and x.is_leaf:
        raise TensorError("a leaf Variable that requires grad is being used in an in-place operation.")
    base = x._base
    if base is not None and base.requires_grad and base.is_leaf:
        raise TensorError("a view of a leaf Variable that requires grad is being used in an in-place operation.")


def _rebase(x: Tensor, name: str, args: Sequence[Any]) -> None:
    """After a write: `x` comes from the write, and so does the tensor that it is a view of."""
    node = node_class(name)(_edges(name, args))
    base = x._base
    if base is None:
        _attach(x, node)
        return
    copy_slices = node_class("CopySlices")([edge_of(base), *node.next_functions[1:]])
    _attach(base, copy_slices)
    _attach(x, node_class("AsStridedBackward0")([(copy_slices, 0)]))


def wanting_grad(x: Tensor) -> Tensor:
    """A fresh tensor made with `requires_grad=True`."""
    if x._dtype.kind not in "fc":
        raise TensorError("Only Tensors of floating point and complex dtype can require gradients")
    return set_requires_grad(x, True)


def set_requires_grad(x: Tensor, value: bool) -> Tensor:
    """`x.requires_grad = value`, with torch's refusals."""
    if value and x._version_counter is None and not is_inference_mode_enabled():
        raise TensorError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
    if not x.is_leaf and not value:
        raise TensorError(
            "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a "
            "subgraph that doesn't require differentiation use var_no_grad = var.detach()."
        )
    if value and x._dtype.kind not in "fc":
        raise TensorError("only Tensors of floating point and complex dtype can require gradients")
    if x.is_leaf:
        x._autograd = x._autograd or (AutogradMeta() if value else None)
        if x._autograd:
            x._autograd.requires_grad = value
        x._keys = x._keys | dispatch.AUTOGRAD if value else x._keys & ~dispatch.AUTOGRAD
    return x


def refuse_backward(x: Tensor) -> None:
    """`backward()`: torch's error for a tensor without a graph, else ours."""
    if x._layout.numel != 1 and x.requires_grad:
        raise TensorError("grad can be implicitly created only for scalar outputs")
    if not x.requires_grad:
        raise TensorError("element 0 of tensors does not require grad and does not have a grad_fn")
    raise UnsupportedError(
        "backward() is not supported: the graph is kept, gradients are not computed",
        hint="grad_fn, next_functions and _saved_… show what the graph holds",
    )


dispatch.register_layer(dispatch.AUTOGRAD, _layer)
