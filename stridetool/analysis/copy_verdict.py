"""What the measured times of a case say together with its layout: one sentence that names who is to blame."""

from __future__ import annotations

from collections.abc import Sequence

from stridetool.report.bench import CopyCost, KernelRow

PLAIN = ("numpy", "cupy")
"""The kernels that stand for a plain loop: what most programs run without knowing."""

_SLOW = 0.5  # of what the layout allows
_WASTEFUL = 0.8  # of the peak: at most so much is possible where lines hold half as much again as is wanted
_CLEARLY = 1.5  # times faster, beyond doubt


def verdict(kernels: Sequence[KernelRow], why: CopyCost) -> str:
    """One sentence on `kernels`, fastest first; empty without any."""
    if not kernels:
        return ""
    if why.plan == "empty":
        return "there is nothing to copy: this is the time of a call"
    best = kernels[0]
    plain = next((row for row in kernels if row.kernel in PLAIN), kernels[-1])
    possible = min(1.0, why.attainable_fraction)
    if plain.fraction_of_peak >= _SLOW * possible:
        return _not_slow(plain, best, why)
    if why.plan == "run":
        return (
            f"the layout is not to blame, it is one run on both sides: {plain.kernel} reaches "
            f"{plain.fraction_of_peak:.0%} of the peak because it writes through the caches, {best.kernel} "
            f"{best.fraction_of_peak:.0%}"
        )
    blame = _blame(why)
    if plain.median_seconds >= _CLEARLY * best.median_seconds:
        return (
            f"slow in {plain.kernel} ({plain.fraction_of_peak:.0%} of the peak) because of {blame}; "
            f"{best.kernel} does the same copy {plain.ratio_to_fastest:.1f}× faster "
            f"({best.fraction_of_peak:.0%})"
        )
    return f"slow in every kernel ({best.fraction_of_peak:.0%} of the peak at best) because of {blame}"


def _not_slow(plain: KernelRow, best: KernelRow, why: CopyCost) -> str:
    if why.attainable_fraction < _SLOW:
        return (
            f"the layout is to blame, not a kernel: {best.fraction_of_peak:.0%} of the peak, where at most "
            f"{why.attainable_fraction:.0%} are possible because most of each cache line is not wanted"
        )
    if plain.median_seconds >= _CLEARLY * best.median_seconds:
        return (
            f"not slow ({plain.kernel} {plain.fraction_of_peak:.0%} of the peak), yet {best.kernel} is "
            f"{plain.ratio_to_fastest:.1f}× faster"
        )
    return f"not slow: {plain.kernel} reaches {plain.fraction_of_peak:.0%} of the peak"


def _blame(why: CopyCost) -> str:
    if why.attainable_fraction < _WASTEFUL:
        return (
            f"its step: it touches {why.touched_line_bytes / why.useful_bytes:.3g}× as many bytes of lines as it needs"
        )
    return _BLAME.get(why.plan, "its layout")


_BLAME = {
    "rows": "its short rows",
    "splat": "its repeated elements, which a plain loop reads one by one",
    "transpose": "its transposed order",
    "strided": "its step from element to element",
}
