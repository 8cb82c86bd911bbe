"""How many different places does a layout reach? Exact where bounded work can tell, else "not decided".

The places are a sum of arithmetic progressions, one a dimension. Four steps, none of them in proportion to the sizes:

1. Progressions that mesh without a gap are one: 9 windows of 4 that start 2 apart reach 20 places in a row.
2. Progressions so far apart that the smaller ones cannot bridge their common step are independent of each other.
3. One independent progression of n reaches n places; of two that cross, the collisions have a closed form.
4. What is left is counted in a bit set of bounded length, or searched for one collision with a bounded number of steps.
"""

from __future__ import annotations

from itertools import product
from math import gcd, prod

from stridetool.core.shapes import Ints

Progression = tuple[int, int]
"""(stride, size), both positive, size at least 2."""

MAX_SPAN_BITS = 1 << 24
MAX_STEPS = 1 << 15
MAX_PROGRESSIONS = 64
"""More would be 2^64 elements or more: no tensor, but a file may claim it."""


def distinct_elements(sizes: Ints, strides: Ints) -> int | None:
    """Number of different elements that the indices reach, or None when bounded work cannot tell."""
    if 0 in sizes:
        return 0
    progressions = _mesh(sizes, strides)
    if progressions is None:
        return None
    total = 1
    for group in _independent_groups(progressions):
        count = _count(group)
        if count is None:
            return None
        total *= count
    return total


def has_internal_overlap(sizes: Ints, strides: Ints) -> bool | None:
    """Whether two indices reach the same element; None when bounded work cannot tell."""
    if 0 in sizes:
        return False
    progressions = _mesh(sizes, strides)
    if progressions is None:
        return None
    groups = _independent_groups(progressions)
    if prod(size for group in groups for _, size in group) < prod(sizes):
        return True
    answers = [_collides(group) for group in groups]
    return True if True in answers else None if None in answers else False


def _independent_groups(progressions: list[Progression]) -> list[list[Progression]]:
    """The progressions in groups whose numbers of places multiply: none can reach over the steps of the next."""
    groups: list[list[Progression]] = [[]]
    common = [0] * (len(progressions) + 1)
    for i in range(len(progressions) - 1, -1, -1):
        common[i] = gcd(common[i + 1], progressions[i][0])
    reach = 0
    for i, (stride, size) in enumerate(progressions):
        if common[i] > reach:
            groups.append([])
            reach = 0
        groups[-1].append((stride, size))
        reach += stride * (size - 1)
    return groups[1:]


def _mesh(sizes: Ints, strides: Ints) -> list[Progression] | None:
    """Progressions in ascending stride, those that mesh merged; None when they are too many to look at.

    The sign of a stride only moves the places as a whole, and a stride of 0 reaches nothing new.
    """
    left = sorted((abs(stride), size) for size, stride in zip(sizes, strides, strict=True) if size > 1 and stride)
    if len(left) > MAX_PROGRESSIONS:
        return None
    done: list[Progression] = []
    while left:
        stride, size = left.pop(0)
        bridged = next((p for p in left if p[0] % stride == 0 and p[0] <= stride * size), None)
        if bridged:
            left.remove(bridged)
            left.insert(0, (stride, size + (bridged[1] - 1) * (bridged[0] // stride)))
        else:
            done.append((stride, size))
    return done


def _count(group: list[Progression]) -> int | None:
    if len(group) == 1:
        return group[0][1]
    if len(group) == 2:
        return prod(size for _, size in group) - _crossings(*group)
    group = _without_common_factor(group)
    numel = prod(size for _, size in group)
    if _span(group) <= MAX_SPAN_BITS:
        return _places(group).bit_count()
    if numel <= MAX_STEPS:
        return len({sum(offsets) for offsets in product(*(range(0, s * n, s) for s, n in group))})
    return numel if _collides(group) is False else None


def _crossings(a: Progression, b: Progression) -> int:
    """Pairs of neighbours among the indices of one place: i·a = j·b repeats every (b/g, a/g), g the common factor."""
    common = gcd(a[0], b[0])
    return max(0, a[1] - b[0] // common) * max(0, b[1] - a[0] // common)


def _without_common_factor(group: list[Progression]) -> list[Progression]:
    common = gcd(*(stride for stride, _ in group))
    return [(stride // common, size) for stride, size in group]


def _span(group: list[Progression]) -> int:
    return sum(stride * (size - 1) for stride, size in group) + 1


def _places(group: list[Progression]) -> int:
    """The places as a bit set: each progression lays down what is there `size` times, by doubling."""
    places = 1
    for stride, size in group:
        done = 1
        while done < size:
            step = min(done, size - done)
            places |= places << (step * stride)
            done += step
    return places


def _collides(group: list[Progression]) -> bool | None:
    """Whether two different indices of one group reach the same place."""
    if any(_crossings(a, b) for i, a in enumerate(group) for b in group[:i]):
        return True
    if len(group) <= 2:
        return False
    group = _without_common_factor(group)
    numel, span = prod(size for _, size in group), _span(group)
    if numel > span:
        return True
    if span <= MAX_SPAN_BITS:
        return _places(group).bit_count() < numel
    return _search(group)


def _search(group: list[Progression]) -> bool | None:
    """Look for differences of indices that cancel out: all but the two largest sizes are enumerated.

    The two alone are left to `_crossings`, so at least one enumerated difference is not 0.
    """
    *small, (s, n), (t, m) = sorted(group, key=lambda progression: progression[1])
    if prod(2 * size - 1 for _, size in small) > MAX_STEPS:
        return None
    common = gcd(s, t)
    inverse = pow(s // common, -1, t // common)
    for differences in product(*(range(1 - size, size) for _, size in small)):
        rest = -sum(x * stride for x, (stride, _) in zip(differences, small, strict=True))
        if (
            rest % common == 0
            and any(differences)
            and _solvable(rest // common, s // common, n, t // common, m, inverse)
        ):
            return True
    return False


def _solvable(rest: int, s: int, n: int, t: int, m: int, inverse: int) -> bool:
    """Whether x·s + y·t = rest with |x| < n and |y| < m, for s and t without a common factor."""
    low = max(1 - n, -((-rest + (m - 1) * t) // s))
    high = min(n - 1, (rest + (m - 1) * t) // s)
    return low + (rest * inverse - low) % t <= high
