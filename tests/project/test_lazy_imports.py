"""What a command loads: a start should cost what it needs and no more."""

import subprocess
import sys

import pytest

HEAVY = {"numpy", "cupy", "torch", "rich", "msgspec"}


def loaded(code):
    script = f"{code}\nimport sys\nprint('LOADED', *sorted({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("LOADED")[2].split())


def command(*arguments):
    return (
        f"import sys; sys.argv = ['stride-tool', *{arguments!r}]\n"
        "from stridetool.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
    )


@pytest.mark.parametrize("arguments", [("--version",), ("-h",), ("inspect", "-h"), ("bench", "-h")])
def test_version_and_help_load_nothing_heavy(arguments):
    assert loaded(command(*arguments)) == set()


def test_schema_loads_the_report_model_alone():
    assert loaded(command("schema", "inspect")) <= {"msgspec"}


def test_import_alone_loads_nothing_heavy():
    assert loaded("import stridetool") == set()
