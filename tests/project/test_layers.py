"""A folder imports only what its row of the architecture names; this test is that table."""

import ast
from pathlib import Path

import pytest

import stridetool

ROOT = Path(stridetool.__file__).parent
EVERYWHERE = {"errors", "units"}
MAY_IMPORT = {
    "errors": set(),
    "units": {"errors"},
    "core": set(),
    "kernels": {"core"},
    "sources": {"core"},
    "programs": {"core", "sources", "report"},
    "report": {"_version"},
    "analysis": {"core", "report"},
    "bench": {"core", "kernels", "analysis", "report"},
    "render": {"report"},
    "cli": {"core", "kernels", "sources", "programs", "report", "analysis", "bench", "render", "_version"},
    "__init__": {"core", "kernels", "cuda", "_version"},
    "cuda": {"core", "kernels"},
    "__main__": {"cli"},
    "_version": set(),
}


def place(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(tree):
    """The top names inside stridetool that a module imports, wherever in the module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "stridetool":
            rest = node.module.split(".")[1:]
            yield from [rest[0]] if rest else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("stridetool."))


@pytest.mark.parametrize("folder", sorted(MAY_IMPORT))
def test_a_folder_imports_only_what_it_may(folder):
    allowed = MAY_IMPORT[folder] | {folder} | (EVERYWHERE if folder not in EVERYWHERE else set())
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted(ROOT.rglob("*.py"))
        if place(path) == folder
        for name in imported(ast.parse(path.read_text()))
        if name not in allowed
    ]
    assert not wrong


def test_the_table_names_every_folder():
    assert {place(path) for path in ROOT.rglob("*.py")} <= set(MAY_IMPORT)


def test_every_file_says_what_lives_in_it():
    silent = [p for p in ROOT.rglob("*.py") if p.stat().st_size and not ast.get_docstring(ast.parse(p.read_text()))]
    assert not silent
