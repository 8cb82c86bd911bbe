"""Nothing in a file is imported, executed or opened: an audit hook watches while the whole corpus is read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DATA = Path(__file__).parent.parent / "data" / "files"

WATCH = """
import os, sys
from stridetool.analysis.files import file_report
from stridetool.errors import InputError
from stridetool.sources import open_tensor_files

def read(path):
    try:
        file_report(open_tensor_files(path))
    except InputError:
        pass

paths = [os.path.join(sys.argv[1], name) for name in sorted(os.listdir(sys.argv[1]))]
for path in paths:
    read(path)  # whatever the reader itself imports is loaded now
seen, opened = set(), set()

def hook(event, arguments):
    if event == "open":
        opened.add(str(arguments[0]))
    elif event != "builtins.id":
        seen.add(event)

sys.addaudithook(hook)
for path in paths:
    read(path)
print(sorted(seen), sorted(opened - set(paths)), len(opened))
loaded = {"torch", "numpy", "pickle", "zipfile", "tarfile", "safetensors"} & set(sys.modules)
print(sorted(loaded))
"""


def test_reading_the_corpus_imports_and_runs_nothing():
    done = subprocess.run([sys.executable, "-c", WATCH, str(DATA)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    events, loaded = done.stdout.splitlines()
    count = len(list(DATA.iterdir()))
    assert events == f"[] [] {count}"
    assert loaded == "[]"


def test_the_watch_sees_what_it_should():
    code = WATCH.replace("for path in paths:\n    read(path)\nprint", "import json.tool\neval('1')\nprint")
    done = subprocess.run([sys.executable, "-c", code, str(DATA)], capture_output=True, text=True, check=False)
    assert "'import'" in done.stdout
    assert "'exec'" in done.stdout
