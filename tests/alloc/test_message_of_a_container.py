"""A message from inside a container names its own process as another one: what is held outside is bounded."""

import json

from typer.testing import CliRunner

from stridetool.cli.main import app

MESSAGE = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 18.00 GiB is "
    "free. Process 123 has 61.15 GiB memory in use. Of the allocated memory 59.00 GiB is allocated by PyTorch, and "
    "1.50 GiB is reserved by PyTorch but unallocated."
)


def test_the_finding_does_not_contradict_the_table():
    result = CliRunner().invoke(app, ["alloc-report", "--message", MESSAGE, "--json"])
    document = json.loads(result.stdout)
    assert document["report"]["foreign_bytes"] < 1 << 30
    assert "foreign-memory" not in {finding["code"] for finding in document["findings"]}
