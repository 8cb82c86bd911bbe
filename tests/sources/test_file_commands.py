"""`inspect` and `compare` on tensor files, as a user runs them: exit codes, what is loaded, what is printed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

DATA = Path(__file__).parent.parent / "data" / "files"

RUN = """
import sys
from stridetool.cli import main
try:
    main()
finally:
    heavy = {"numpy", "torch", "cupy", "rich", "pickle", "zipfile"} & set(sys.modules)
    print("loaded", sorted(heavy), file=sys.stderr)
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", RUN, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["npy_ok.npy", "npz_ok.npz", "st_ok.safetensors", "pt_ok_optim.pt", "pt_ok_legacy.pt"])
def test_headers_are_read_without_the_libraries(name):
    done = run("inspect", str(DATA / name), "--json")
    assert done.returncode == 0
    assert done.stderr == "loaded []\n"
    assert json.loads(done.stdout)["schema"] == "stride-tool/inspect"


def test_text_names_waste_and_account():
    done = run("inspect", str(DATA / "pt_ok_slice_of_big.pt"))
    assert done.returncode == 0
    assert "99.9 % of storage s0 (16.0 KiB) is reached by no tensor" in done.stdout
    assert "torch zip" in done.stdout


def test_refused_files():
    done = run("inspect", str(DATA / "pt_oob.pt"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("stride-tool: error: cannot read ")
    assert "out of bounds" in done.stderr


def test_hostile_names_are_escaped():
    done = run("inspect", str(DATA / "st_ok_name_ansi.safetensors"))
    assert "\x1b" not in done.stdout
    assert r"a\x1b[31mred\x1b[0m\nnewline" in done.stdout


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_named_pipe_is_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "p.pt")
    done = run("inspect", str(tmp_path / "p.pt"))
    assert done.returncode == 2


def test_compare_takes_files():
    done = run("compare", str(DATA / "pt_ok_legacy.pt"), str(DATA / "pt_ok_shared.pt"), "--json")
    assert done.returncode == 0
    changes = json.loads(done.stdout)["report"]["tensors"]
    assert {(change["tensor"], change["what"]) for change in changes} == {
        ("a", "shares with"),
        ("b", "shares with"),
        ("c", "added"),
    }


@pytest.mark.parametrize(
    ("condition", "name"), [("waste", "pt_ok_slice_of_big.pt"), ("misaligned", "st_ok.safetensors")]
)
def test_fail_on(condition, name):
    assert run("inspect", str(DATA / name), "--fail-on", condition).returncode == 1
