"""What a view operator costs from Python: stridetool, stridetool traced, and torch, side by side in one run.

    python benchmarks/view_ops.py

Prints nanoseconds per call (the best of several rounds) and two ratios: untraced against torch (to stay at most 4)
and traced against untraced (to stay at most 2).
"""

from __future__ import annotations

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
CALLS, ROUNDS = 3_000, 7


def nanoseconds(statement: str, x: object) -> float:
    """Per call, the best round."""
    return min(timeit.repeat(statement, globals={"x": x}, number=CALLS, repeat=ROUNDS)) / CALLS * 1e9


def main() -> None:
    """Print the table."""
    ours, theirs = st.zeros(4, 5, 6), torch.zeros(4, 5, 6)
    worst_plain = worst_traced = 0.0
    print(f"{'operator':22} {'torch':>8} {'ours':>8} {'traced':>8}   ours/torch  traced/ours")
    for name, statement in CASES.items():
        reference = nanoseconds(statement, theirs)
        plain = nanoseconds(statement, ours)
        with trace(lambda record: None):
            traced = nanoseconds(statement, ours)
        worst_plain, worst_traced = max(worst_plain, plain / reference), max(worst_traced, traced / plain)
        print(
            f"{name:22} {reference:8.0f} {plain:8.0f} {traced:8.0f}   {plain / reference:10.2f}  {traced / plain:11.2f}"
        )
    print(f"worst: {worst_plain:.2f} × torch untraced (at most 4), {worst_traced:.2f} × traced (at most 2)")


if __name__ == "__main__":
    main()
