"""The command line: options in, a report out. `main` is the entry point of `stride-tool`."""

from __future__ import annotations


def main() -> None:
    """Run the command line of this process (`sys.argv`), and exit with its code."""
    from stridetool.cli.main import main as run

    run()
