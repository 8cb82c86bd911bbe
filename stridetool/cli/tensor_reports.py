"""Tensor files where a command takes a report: they are inspected first."""

from __future__ import annotations

from pathlib import Path

from stridetool.report.envelope import Envelope, envelope
from stridetool.report.inspect import InspectReport


def tensor_report(path: Path) -> Envelope[InspectReport] | None:
    """The report on the tensor file, the sharded checkpoint or the directory at `path`; None: it is none of these.

    Raises InputError for a tensor file that cannot be read.
    """
    from stridetool.sources.detect import HEAD_BYTES, detect
    from stridetool.sources.shards import is_index_name

    if not path.is_dir() and not is_index_name(str(path)):
        if not path.is_file():
            return None
        with path.open("rb") as file:
            if detect(file.read(HEAD_BYTES)) is None:
                return None
    from stridetool.analysis.files import file_report
    from stridetool.sources import open_tensor_files

    report, findings = file_report(open_tensor_files(str(path)))
    return envelope("inspect", report, tuple(findings))
