"""A report with one of everything that is drawn, the same on every machine; and the comparison with a golden file."""

import re
from pathlib import Path

import pytest

from stridetool.analysis.access import with_access
from stridetool.analysis.pictures import with_file_pictures
from stridetool.analysis.tables import tables
from stridetool.analysis.views import why_not_view
from stridetool.core.facts import ArrayFacts
from stridetool.core.layout import Layout
from stridetool.report.envelope import Envelope, Finding
from stridetool.report.files import FileAccount, Region
from stridetool.report.inspect import InspectReport, LayoutRow, OperationError, OperationRow, Source

GOLDEN = Path(__file__).parents[1] / "data" / "pictures"
STORAGES = {1: (0x7F0000010000, 96), 2: (0x7F0000020040, 160), 3: (0x7F0000030000, 4_000_000)}


def facts(name, storage, sizes, strides, offset=0, values=()):
    address, nbytes = STORAGES[storage]
    return ArrayFacts(
        name=name, library="stridetool", dtype="float32", itemsize=4, device="cpu", unit=4, storage=storage,
        layout=Layout(sizes, strides, offset), address=address, storage_nbytes=nbytes, values=values,
    )  # fmt: skip


def operation(op, before, after, **more):
    return OperationRow(
        op=op, kind="copy" if more.get("copied") else "view", file="script.py", line=3, inputs=("x",), outputs=("y",),
        input_layouts=(before,), output_layouts=(after,) if after else (), strides_changed=True, offset_changed=False,
        shares_storage=not more.get("copied"), **{"copied": False, "copied_bytes": 0, **more},
    )  # fmt: skip


def document(cells=64):
    """Views of three storages, a failed view, a copy, and a file."""
    arrays = [
        facts("x", 1, (4, 6), (6, 1), values=tuple(f"{i}.5" for i in range(24))),
        facts("turned", 1, (2, 4), (1, 6), 1),
        facts("<script>alert(1)</script>", 1, (2, 3, 4), (12, 4, 1)),
        facts("windows", 2, (19, 4), (2, 1)),
        facts("columns", 3, (1000, 3), (1000, 1)),
    ]
    found = tables(arrays, [None] * len(arrays), (), cells)
    whole, turned = LayoutRow((4, 6), (6, 1), 0, "float32"), LayoutRow((6, 4), (1, 6), 0, "float32")
    why = why_not_view(Layout((6, 4), (1, 6), 0), (24,), 4, "t at script.py:2")
    operations = (
        operation("t", whole, turned),
        operation(
            "contiguous", turned, LayoutRow((6, 4), (4, 1), 0, "float32"), copied=True, copied_bytes=96, kernel="c"
        ),
        operation("view", turned, None, error=OperationError("RuntimeError", "view size is …", None, why)),
    )
    account = FileAccount(
        path="model.pt", kind="torch zip", nbytes=1200,
        regions=(
            Region("header", 0, 100), Region("padding", 100, 28), Region("data", 128, 1000),
            Region("trailing", 1128, 72),
        ),
        bytes_by_kind={"header": 100, "padding": 28, "data": 1000, "trailing": 72}, placed_tensors=1,
        aligned={"16": 1, "64": 1, "4096": 0},
    )  # fmt: skip
    report = InspectReport(
        source=Source("script", "script.py"), sources=(Source("script", "script.py"),), tensors=found.tensors,
        storages=found.storages, operations=operations, copied_bytes=96, pictures=found.pictures, files=(account,),
    )  # fmt: skip
    report = with_file_pictures(with_access(report), cells)
    return Envelope("stride-tool/inspect", 1, "0", {}, report, (Finding("overlap", "warning", "windows overlap"),))


def assert_golden(name, text):
    """`text` is the file `name`, but for its style sheet, which is a file of its own.

    A missing file is written, and fails once: look at it before you commit it.
    """
    path = GOLDEN / name
    text = re.sub(r"<style>.*?</style>", "<style/>", text, flags=re.S)
    if not path.exists():
        path.write_text(text, encoding="utf-8")
        pytest.fail(f"{path} was written anew")
    assert text == path.read_text(encoding="utf-8")
