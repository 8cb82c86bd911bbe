"""`python -m stridetool` is `stride-tool`."""

from stridetool.cli import main

main()
