"""The command line: options in, a report out. `main` is the entry point of `stride-tool`."""
