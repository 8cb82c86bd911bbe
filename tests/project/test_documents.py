"""Every command that README and the examples show is run here, and the output shown must be the real one.

In a `console` block, a line that begins with `$ ` is run in the project's folder. The lines below it must appear in
the output in that order; `…` stands for anything: a whole line for lines left out, within a line for what differs
from machine to machine.
"""

import os
import re
import shlex
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETUP = ("pip ", "python3 -m venv", "pytest", ". ")  # what .ci/run does in an environment of its own


def commands():
    """(command, lines shown below it) of every console block."""
    for document in (ROOT / "README.md", *sorted((ROOT / "examples").glob("*.md"))):
        for block in re.findall(r"```console\n(.*?)```", document.read_text(), re.S):
            for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
                command, _, shown = part.partition("\n")
                if not command.startswith(SETUP):
                    yield command, [line.rstrip() for line in shown.splitlines() if line.strip()]


def runs(command, folder):
    environment = {**os.environ, "PATH": f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"}
    for name in ("examples", "tests"):
        (folder / name).symlink_to(ROOT / name)
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    return done.returncode, done.stdout + done.stderr


def pattern(line):
    return re.compile(r"\s*" + r".*".join(re.escape(part) for part in re.split("…", line.strip())) + r"\s*$")


@pytest.mark.parametrize(
    ("command", "shown"), list(commands()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_command_shows_what_the_document_says(command, shown, tmp_path):
    code, output = runs(command, tmp_path)
    assert code in (0, 1), output
    assert "Traceback" not in output
    remaining = iter(output.splitlines())
    for line in shown:
        if line.strip() != "…":
            assert any(pattern(line).match(got) for got in remaining), f"{line!r} is not (in order) in:\n{output}"


def test_readme_has_the_two_commands_on_its_first_screen():
    first = (ROOT / "README.md").read_text().splitlines()[:60]
    assert any("pip install . && stride-tool inspect examples/" in line for line in first)
    assert any("pip install -e '.[dev]' && pytest" in line for line in first)


def test_examples_name_only_commands_that_exist():
    known = {"inspect", "bench", "alloc-report", "compare", "devices", "schema"}
    for path in (ROOT / "examples").iterdir():
        for command in re.findall(r"stride-tool ([a-z-]+)", path.read_text(errors="replace")):
            assert command in known, f"{path.name}: stride-tool {command}"


def test_commands_of_examples_in_comments_split_as_a_shell_would():
    for command, _ in commands():
        assert shlex.split(command, comments=True)
