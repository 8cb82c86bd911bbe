"""A small sample of what `benchmarks/fuzz_files.py` does: mutated files are listed or refused, and nothing else."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
DATA = ROOT / "tests" / "data" / "files"
MUTATIONS = 8


def load_fuzzer():
    spec = importlib.util.spec_from_file_location("fuzz_files", ROOT / "benchmarks" / "fuzz_files.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


fuzzer = load_fuzzer()


@pytest.mark.parametrize("name", sorted(p.name for p in DATA.iterdir() if p.suffix not in (".json", ".md")))
def test_mutants(name, tmp_path: Path):
    data, rng = (DATA / name).read_bytes(), random.Random(name)
    target = tmp_path / name
    for _ in range(MUTATIONS):
        target.write_bytes(fuzzer.mutate(data, rng))
        assert fuzzer.inspect(str(target)) in ("ok", "refused")
