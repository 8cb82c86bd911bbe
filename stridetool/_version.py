"""The version, alone in a file so that `--version` and the build read it without loading anything else."""

__version__ = "0.1.0"
