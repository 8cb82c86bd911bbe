"""What is said on stderr while something takes long."""

import io
import time

from stridetool.cli import progress
from stridetool.cli.progress import announced


def test_what_takes_long_is_announced_where_somebody_reads_it(monkeypatch):
    for quiet, said in ((False, ["sorting …", "sorting: done in"]), (True, [])):
        heard = io.StringIO()
        monkeypatch.setattr("sys.stderr", heard)
        with announced("sorting", quiet=quiet, at_once=True):
            pass
        lines = heard.getvalue().splitlines()
        assert len(lines) == len(said)
        assert all(line.startswith(start) for line, start in zip(lines, said, strict=True))


def test_what_turns_out_long_is_announced_while_it_runs(monkeypatch):
    heard = io.StringIO()
    monkeypatch.setattr("sys.stderr", heard)
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    with announced("sorting", quiet=False):
        for _ in range(2000):
            if heard.getvalue().endswith("\n"):
                break
            time.sleep(0.005)
        assert heard.getvalue() == "sorting …\n"
    assert heard.getvalue().splitlines()[1].startswith("sorting: done in ")


def test_what_is_done_soon_is_not_announced(monkeypatch):
    heard = io.StringIO()
    monkeypatch.setattr("sys.stderr", heard)
    with announced("sorting", quiet=False):
        time.sleep(0)
    assert not heard.getvalue()
