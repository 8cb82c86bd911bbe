"""Random calls of every view operator on torch tensors and on layouts: the same layouts, or the same error.

The arguments are often wrong in more than one way, so the order of the checks is compared as well.
"""

import random

import pytest
from view_operators import OPS, outcome

from stridetool.core.layout import Layout

torch = pytest.importorskip("torch")

CASES_PER_OPERATOR = 150


def some_layout(rng):
    sizes = tuple(rng.choice([0, 1, 1, 2, 3, 4, 6]) for _ in range(rng.randint(0, 5)))
    strides = tuple(rng.choice([0, 1, 1, 2, 3, 4, 6, 12, 24]) for _ in sizes)
    layout = Layout.contiguous(sizes) if rng.random() < 0.4 else Layout(sizes, strides, rng.randint(0, 9))
    return layout.permute(rng.sample(range(len(sizes)), len(sizes)))


def some_arguments(op, layout, rng):
    ndim, sizes = layout.ndim, list(layout.sizes)

    def dim():
        return rng.randint(-ndim - 1, ndim)

    def some(count, low, high):
        return [rng.randint(low, high) for _ in range(count)]

    match op:
        case "transpose" | "swapaxes":
            return [dim(), dim()]
        case "permute":
            return [rng.choice([rng.sample(range(ndim), ndim), some(ndim + rng.choice([0, 0, 1]), -ndim - 1, ndim)])]
        case "movedim":
            count = rng.randint(0, ndim + 1)
            return [some(count, -ndim - 1, ndim), some(count + rng.choice([0, 0, 1]), -ndim - 1, ndim)]
        case "select":
            return [dim(), rng.randint(-7, 7)]
        case "narrow":
            return [dim(), rng.randint(-7, 7), rng.randint(-1, 5)]
        case "squeeze" | "unsqueeze":
            return [dim()]
        case "squeeze_dims":
            return [some(rng.randint(0, 4), -ndim - 1, ndim)]
        case "expand" | "broadcast_to":
            return [[*some(rng.randint(0, 2), 1, 3), *(rng.choice([n, n, n, -1, 2]) for n in sizes)]]
        case "unfold":
            return [dim(), rng.randint(-1, 4), rng.randint(-1, 3)]
        case "diagonal":
            return [rng.randint(-7, 7), dim(), dim()]
        case "view":
            shapes = ([-1], [layout.numel], [*sizes[:-1], -1, 1], [*sizes[:1], -1], some(rng.randint(0, 5), -2, 6))
            return [rng.choice(shapes)]
        case "unflatten":
            return [dim(), some(rng.randint(0, 3), -2, 4)]
        case _:
            raise NotImplementedError(op)


def torch_outcome(op, tensor, args):
    try:
        result = tensor.squeeze(tuple(args[0])) if op == "squeeze_dims" else getattr(tensor, op)(*args)
    except (RuntimeError, IndexError) as error:
        return type(error).__name__, str(error).partition("\nException raised from")[0]
    return [list(result.shape), list(result.stride()), result.storage_offset()]


def our_outcome(op, layout, args):
    got = outcome(OPS[op], layout, args)
    if isinstance(got, list):
        return got
    classes, message = got
    return next(c.__name__ for c in classes if c.__module__ == "builtins"), message


@pytest.mark.parametrize("op", sorted(set(OPS) - {"slice"}))  # no method of that name: indexing words its errors anew
def test_random_calls(op):
    rng = random.Random(op)
    cells = torch.zeros(8000)
    for _ in range(CASES_PER_OPERATOR):
        layout = some_layout(rng)
        args = some_arguments(op, layout, rng)
        tensor = cells.as_strided(layout.sizes, layout.strides, layout.offset)
        assert our_outcome(op, layout, args) == torch_outcome(op, tensor, args), (layout, args)
