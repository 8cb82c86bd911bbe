"""The view operators under torch's names, on layouts: what the comparisons with torch apply."""

from stridetool.core.layout import Layout
from stridetool.errors import StrideToolError


def as_list(value):
    return value if isinstance(value, list) else [value]


OPS = {
    "transpose": Layout.transpose,
    "swapaxes": Layout.transpose,
    "permute": Layout.permute,
    "movedim": lambda t, source, to: t.movedim(as_list(source), as_list(to)),
    "select": Layout.select,
    "slice": Layout.slice,
    "narrow": Layout.narrow,
    "squeeze": Layout.squeeze,
    "squeeze_dims": Layout.squeeze,
    "unsqueeze": Layout.unsqueeze,
    "expand": Layout.expand,
    "broadcast_to": Layout.expand,
    "unfold": Layout.unfold,
    "diagonal": Layout.diagonal,
    "view": Layout.view,
    "unflatten": lambda t, dim, sizes: t.view(t.unflatten_sizes(dim, sizes)),
}


def as_lists(layout):
    return [list(layout.sizes), list(layout.strides), layout.offset]


def outcome(operator, layout, args):
    """[sizes, strides, offset] of the result, or the error's classes and its first line."""
    try:
        result = operator(layout, *args)
    except StrideToolError as error:
        return type(error).__mro__, error.message
    return as_lists(result)
