"""What a view operator costs from Python: stridetool, stridetool traced, and torch, side by side in one run.

    python benchmarks/view_ops.py

Prints nanoseconds per call (the best of many short rounds) and two ratios: untraced against torch (to stay at most 4)
and traced against untraced (to stay at most 2).
"""

from __future__ import annotations

import contextlib
import timeit

import torch

import stridetool as st
from stridetool.core.trace import trace

CASES = {
    "transpose": "x.transpose(0, 1)",
    "view": "x.view(20, 6)",
    "x[1:3]": "x[1:3]",
    "x[1]": "x[1]",
    "x[1:3, ..., None, 2]": "x[1:3, ..., None, 2]",
    "narrow": "x.narrow(0, 1, 2)",
    "select": "x.select(0, 1)",
    "unsqueeze": "x.unsqueeze(0)",
    "squeeze": "x.squeeze(0)",
    "permute": "x.permute(2, 0, 1)",
    "expand": "x.expand(4, 5, 6)",
    "reshape": "x.reshape(20, 6)",
    "flatten": "x.flatten()",
    "as_strided": "x.as_strided((2,), (1,))",
    "unbind": "x.unbind(0)",
    "mT": "x.mT",
    "detach": "x.detach()",
}
CALLS, ROUNDS = 100, 300


def seconds(timers: dict[str, timeit.Timer]) -> dict[str, float]:
    """Per call, the best of many short rounds that take turns, so that a busy machine slows all of them alike."""
    best = dict.fromkeys(timers, float("inf"))
    for _ in range(ROUNDS):
        for name, timer in timers.items():
            traced = trace(lambda record: None) if name == "traced" else contextlib.nullcontext()
            with traced:
                best[name] = min(best[name], timer.timeit(CALLS) / CALLS)
    return best


def main() -> None:
    """Print the table."""
    ours, theirs = st.zeros(4, 5, 6), torch.zeros(4, 5, 6)
    worst_plain = worst_traced = 0.0
    print(f"{'operator':22} {'torch':>8} {'ours':>8} {'traced':>8}   ours/torch  traced/ours")
    for name, statement in CASES.items():
        made = {"torch": theirs, "ours": ours, "traced": ours}
        timers = {who: timeit.Timer(statement, globals={"x": x}) for who, x in made.items()}
        best = seconds(timers)
        plain, traced = best["ours"] / best["torch"], best["traced"] / best["ours"]
        worst_plain, worst_traced = max(worst_plain, plain), max(worst_traced, traced)
        columns = " ".join(f"{value * 1e9:8.0f}" for value in best.values())
        print(f"{name:22} {columns}   {plain:10.2f}  {traced:11.2f}")
    print(f"worst: {worst_plain:.2f} × torch untraced (at most 4), {worst_traced:.2f} × traced (at most 2)")


if __name__ == "__main__":
    main()
