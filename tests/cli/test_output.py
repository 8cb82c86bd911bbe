"""Where results go, and how every error ends: exit codes, two lines on stderr, nothing half-written."""

import json
import os
import stat
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from stridetool.cli.main import app
from stridetool.cli.output import replaced_file
from stridetool.errors import StrideToolError


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_o_writes_the_format_of_the_suffix_and_refuses_to_overwrite(tmp_path):
    out = tmp_path / "report.json"
    first = run("inspect", "-e", "zeros(2)", "-o", out)
    assert (first.exit_code, first.stdout, first.stderr) == (0, "", f"wrote {out}\n")
    assert json.loads(out.read_text())["schema"] == "stride-tool/inspect"
    again = run("inspect", "-e", "zeros(3)", "-o", out)
    assert again.exit_code == 2
    assert "--force" in again.stderr
    assert run("inspect", "-e", "zeros(3)", "-o", out, "--force").exit_code == 0
    assert json.loads(out.read_text())["report"]["tensors"][0]["sizes"] == [3]


def test_a_file_is_complete_or_not_there(tmp_path):
    out = tmp_path / "x.txt"
    out.write_text("old")

    def fail():
        with replaced_file(out) as file:
            file.write("half")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert out.read_text() == "old"
    assert os.listdir(tmp_path) == ["x.txt"]
    with replaced_file(out) as file:
        file.write("new")
    assert out.read_text() == "new"
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(out.stat().st_mode) == 0o666 & ~umask


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["inspect"], 2, "nothing to inspect"),
        (["inspect", "-e", "zeros(2)", "--json", "--format", "svg"], 2, "both JSON and svg"),
        (["inspect", "-e", "zeros(2)", "-o", "x.doc"], 2, "suffix"),
        (["inspect", "-e", "zeros(2)", "--format", "csv"], 2, "csv"),
        (["inspect", "-e", "zeros(2)", "-o", "/no/such/folder/x.json"], 2, "cannot write"),
        (["inspect", "-e", "zeros(2", "--json"], 2, "never closed"),
        (["inspect", os.path.dirname(__file__)], 2, "no tensor files"),
        (["nothing"], 2, "nothing"),
        (["--nothing"], 2, "--nothing"),
        (["schema", "nothing"], 2, "there are: inspect"),
        (["inspect", "-e", "zeros(2, 3).viwe(6)"], 1, "view"),
        (["inspect", "-e", "zeros(2, 3).exp()"], 1, "exp"),
    ],
)
def test_errors_have_their_code_and_their_words(arguments, code, words):
    result = run(*arguments)
    assert result.exit_code == code
    assert result.stderr.startswith("stride-tool: error: ")
    assert words in result.stderr
    assert "Traceback" not in result.output


def test_a_bug_of_ours_says_so(monkeypatch):
    monkeypatch.setattr("stridetool.cli.inspecting.run_inspection", lambda *_: 1 / 0)
    result = run("inspect", "-e", "zeros(2)")
    assert result.exit_code == 70
    assert "this is a bug in stride-tool" in result.stderr


def test_the_tree_of_errors_has_documented_exit_codes():
    def below(kind):
        for child in kind.__subclasses__():
            yield child
            yield from below(child)

    assert {kind.exit_code for kind in below(StrideToolError)} == {1, 2, 3}
    assert str(StrideToolError("what", hint="do")) == "what\n  hint: do"


def test_a_closed_pipe_is_no_failure():
    command = f"{sys.executable} -m stridetool inspect -e 'zeros(10**5)' --table | head -n 1"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("element")


def test_the_same_bytes_of_json_whatever_the_colour():
    plain = run("inspect", "-e", "arange(6).view(2, 3)", "--json", "--color", "never").stdout
    forced = run("inspect", "-e", "arange(6).view(2, 3)", "--json", "--color", "always").stdout
    first, second = json.loads(plain), json.loads(forced)
    for document in (first, second):  # addresses differ from run to run
        document["report"]["tensors"][0]["data_ptr"] = None
    assert first == second
    assert "\x1b" not in forced
