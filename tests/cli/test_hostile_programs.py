"""Programs that break what runs them, objects that lie, and places that cannot be written: the answer stays whole."""

import contextlib
import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from stridetool.cli.main import app

START = "import stridetool as st\nx = st.zeros(3, 4)\n"
LAYOUT = ["inspect", "-e", "x = zeros(3, 4); x.t()"]


def run(*arguments, text=None):
    return CliRunner().invoke(app, list(map(str, arguments)), input=text)


def process(*arguments, shell=None, **options):
    """A process of its own, for what CliRunner cannot see: descriptors, the end of the interpreter."""
    command = [sys.executable, "-m", "stridetool", *map(str, arguments)]
    command = ["bash", "-c", shell.replace("TOOL", f"{sys.executable} -m stridetool")] if shell else command
    options = {"stdin": subprocess.DEVNULL, "text": True, "timeout": 60, **options}
    return subprocess.run(command, capture_output=True, check=False, **options)


def script(folder, text):
    path = folder / "script.py"
    path.write_bytes((START + text).encode() if isinstance(text, str) else text)
    return path


def names(result):
    return [row["name"] for row in json.loads(result.stdout)["report"]["tensors"]]


@pytest.mark.parametrize(
    "text",
    [
        "import sys; sys.stdout.close(); sys.stderr.close()",
        "import os; os.closerange(0, 60)",
        "import sys; sys.stdout = sys.stderr = 5",
        "import sys; sys.stdout.detach(); sys.stderr.reconfigure(encoding='utf-16')",
        "import sys; sys.modules.clear(); sys.meta_path.clear(); sys.path = None",
        "import builtins; vars(builtins).clear()",
        "import os; os._exit(0)",
        "import threading\ndef late():\n    while True: print('tick')\n"
        "threading.Thread(target=late, daemon=True).start()",
        "import atexit, threading, time; atexit.register(print, 'bye')\n"
        "threading.Thread(target=lambda: (time.sleep(0.5), print('late'))).start()",
    ],
)
def test_the_document_is_whole_and_alone_whatever_the_script_does_to_the_process(tmp_path, text):
    result = process("inspect", script(tmp_path, text), "--json")
    assert result.returncode == 0, result.stderr[-500:]
    assert names(result) == ["x"]
    assert "stridetool" not in result.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("class E(Exception):\n  def __str__(self): raise SystemExit(4)\nraise E", "E: (its str() raises)"),
        ("class M(type):\n  __name__ = None\nclass E(Exception, metaclass=M): pass\nraise E('hm')", "E: hm"),
        ("class E(Exception):\n  __class__ = property(lambda s: 1 / 0)\nraise E('hm')", "E: hm"),
        ("raise ValueError('x' * 10**7)", "… (10,000,000 characters)"),
        ("import sys\ndef t(*a): raise ValueError('traced')\nsys.settrace(t)\nx.t()\n1 / 0", "ValueError: traced"),
        ("import sys; sys.exit('\\x1b[31mbad')", "\\x1b[31mbad"),
    ],
)
def test_a_hostile_failure_is_told_in_a_line(tmp_path, text, words):
    result = run("inspect", script(tmp_path, text))
    assert result.exit_code == 1
    assert words in result.stderr
    assert "\x1b" not in result.output
    assert len(result.stderr) < 20_000


@pytest.mark.parametrize(
    "text",
    [
        "class H:\n  @property\n  def __array_interface__(self): raise SystemExit(3)\nh = H()",
        "class H:\n  def __getattribute__(self, name): raise GeneratorExit\nh = H()",
        "class H:\n  __class__ = st.Tensor\nh = H()",
        "class H: pass\nH.__module__ = None\nh = H()",
        "class M(type):\n  def __getattribute__(cls, name): raise ValueError\nclass H(metaclass=M): pass\nh = H()",
        "class H:\n  def __getattribute__(self, name): raise ValueError\n"
        "h = H(); object.__getattribute__(h, '__dict__')['t'] = st.zeros(5)",
        "class N: pass\nh = None\nfor _ in range(3000):\n  n = N(); n.t = st.zeros(1); n.next = h; h = n\ndel n",
        "globals()[5] = st.zeros(2)",
    ],
)
def test_objects_that_lie_or_raise_hide_no_tensor(tmp_path, text):
    result = run("inspect", script(tmp_path, text), "--json")
    assert result.exit_code == 0, result.stderr
    assert "x" in names(result)
    assert len(result.stdout) < 10_000_000


def test_names_that_no_utf8_holds_and_those_that_turn_text_around_are_escaped(tmp_path):
    path = script(tmp_path, "globals()['a\\ud800'] = globals()['b\\u202e\\x9b'] = x")
    for format in ("json", "text", "svg", "html"):
        result = run("inspect", path, "--format", format)
        assert result.exit_code == 0, result.stderr
        assert not {"\u202e", "\x9b", "\ud800"} & set(result.stdout)
    assert names(run("inspect", path, "--json")) == ["x", "a\\ud800", "b\u202e\x9b"]
    rows = run("inspect", path, "--table", "--json", "--top", 10**20)
    assert {json.loads(line)["tensor"] for line in rows.stdout.splitlines()} == {"x", "a\\ud800", "b\u202e\x9b"}


def test_a_script_is_read_in_the_encoding_that_it_declares(tmp_path):
    result = run(
        "inspect", script(tmp_path, b"# coding: latin-1\nimport stridetool as st\n\xe9 = st.zeros(2)\n"), "--json"
    )
    assert names(result) == ["é"]
    for cookie in (b"nonsense", b"rot13"):
        result = run("inspect", script(tmp_path, b"# coding: %s\nx = 1\n" % cookie))
        assert (result.exit_code, "no Python source" in result.stderr) == (2, True)
    assert "<stdin>" in run("inspect", "-", text="\0").stderr


def test_a_script_that_moves_leaves_o_where_it_was_asked_for(tmp_path):
    path = script(tmp_path, "import os; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')")
    assert process("inspect", path, "-o", "r.json", cwd=tmp_path).returncode == 0
    assert names_in(tmp_path / "r.json") == ["x"]


def names_in(path):
    return [row["name"] for row in json.loads(path.read_text())["report"]["tensors"]]


def test_o_keeps_links_and_devices(tmp_path):
    target, link, pipe = tmp_path / "target.json", tmp_path / "link.json", tmp_path / "pipe.json"
    target.write_text("old")
    link.symlink_to(target.name)
    assert run(*LAYOUT, "-o", link, "--force").exit_code == 0
    assert link.is_symlink()
    assert names_in(target) == ["x", "_"]
    os.mkfifo(pipe)
    result = process(shell=f"TOOL inspect -e 'zeros(2)' -o {pipe} --force & cat {pipe}; wait $!")
    assert (result.returncode, names(result), pipe.is_fifo()) == (0, ["_"], True)
    assert os.listdir(tmp_path).count("pipe.json") == 1


@pytest.mark.parametrize("place", ["", "loop.json", "nowhere/x.json", "x" * 300 + ".json"])
def test_o_to_a_place_that_cannot_be_one_is_an_error(tmp_path, place):
    with contextlib.suppress(FileExistsError):
        os.symlink("loop.json", tmp_path / "loop.json")
    result = run(*LAYOUT, "--format", "json", "--force", "-o", tmp_path / place)
    assert result.exit_code == 2
    assert result.stderr.startswith("stride-tool: error: cannot write ")
    assert os.listdir(tmp_path) == ["loop.json"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no full device here")
@pytest.mark.parametrize("command", ["inspect -e 'zeros(2)' --json", "--help", "schema inspect"])
def test_a_full_or_closed_stdout_is_one_error(command):
    for place in (">/dev/full", ">&-"):
        result = process(shell=f"TOOL {command} {place}")
        assert result.returncode == 2
        assert result.stderr.count("stride-tool: error: cannot") == 1
        assert "Traceback" not in result.stderr


def test_closed_descriptors_and_a_deaf_stderr(tmp_path):
    assert process(shell="TOOL inspect - <&-").stderr.startswith("stride-tool: error: cannot read standard input")
    out = tmp_path / "x.json"
    assert process(shell=f"TOOL inspect -e 'zeros(2)' -o {out} <&- >&- 2>&-").returncode == 0
    assert names_in(out) == ["_"]
    assert process(shell="TOOL inspect nothing.npy 2>&1 | true; exit ${PIPESTATUS[0]}").returncode == 2


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437"])
def test_text_fits_the_encoding_of_the_terminal_and_json_is_utf8(encoding):
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    text = process(*LAYOUT, env=environment, text=False)
    assert text.returncode == 0, text.stderr
    text.stdout.decode(encoding)
    document = process("inspect", "-e", "globals()['漢'] = zeros(2)", "--json", env=environment, text=False)
    assert json.loads(document.stdout.decode("utf-8"))["report"]["tensors"][0]["name"] == "漢"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["inspect", "x" * 300], "File name too long"),
        (["inspect", ""], "cannot read"),
        ([*LAYOUT, "--args", "'"], "cannot read --args"),
        ([*LAYOUT, "--tensor", "x[::-1]"], "cannot take x[::-1]"),
        (["compare", "/dev/zero", "/dev/zero"], "no regular file"),
        (["bench", "x" * 300], "no case matches"),
        (["inspect", "-e", "-" * 200_000 + "1"], "cannot run <expression>"),  # the reason is in the words of Python
    ],
)
def test_odd_arguments_are_usage_errors(arguments, words):
    result = run(*arguments)
    assert result.exit_code == 2
    assert words in result.stderr


def test_a_shape_of_ten_thousand_sizes_is_refused_as_torch_refuses_it():
    result = run("inspect", "-e", "zeros(3, 4).view(*[7] * 10_000)")
    assert result.exit_code == 1
    assert "is invalid for input of size 12" in result.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_the_status_of_a_forked_child_is_that_of_its_script(tmp_path):
    text = "import os\nif not os.fork(): 1 / 0\nassert os.waitstatus_to_exitcode(os.wait()[1]) == 1"
    assert process("inspect", script(tmp_path, text)).returncode == 0
