"""Hundreds of short programs under torch and under stridetool: the same facts, values and errors."""

from pathlib import Path

import pytest
from parity import outcome

import stridetool as st

torch = pytest.importorskip("torch")

CASES = Path(__file__).parents[1] / "data" / "torch_parity"


def programs(path):
    """(statements, expression) of each line."""
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            statements, _, expression = line.rpartition(" ;; ")
            yield statements.replace(" ;; ", "\n"), expression


@pytest.mark.parametrize("name", ["making", "values", "graph_and_storage", "interchange"])
def test_every_program_gives_the_same(name):
    torch.set_default_dtype(torch.float32)
    wrong = [
        (statements, expression, expected, got)
        for statements, expression in programs(CASES / f"{name}.txt")
        if (expected := outcome(torch, statements, expression)) != (got := outcome(st, statements, expression))
    ]
    assert wrong == []
