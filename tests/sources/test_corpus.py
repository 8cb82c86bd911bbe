"""Each file of the corpus is handled as it should be, and listed as the official loader saw it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stridetool.analysis.files import file_report
from stridetool.errors import InputError
from stridetool.report.documents import to_json
from stridetool.report.envelope import envelope
from stridetool.sources import open_tensor_file

DATA = Path(__file__).parent.parent / "data" / "files"
ENTRIES = json.loads((DATA / "expected.json").read_text())
# Where the loaders see another thing than the tensors in the file.
SPARSE = "pt_ok_sparse.pt"
SAFETENSORS = {
    "F32": "float32", "U8": "uint8", "BF16": "bfloat16", "F4": "float4_e2m1fn", "F8_E4M3": "float8_e4m3fn",
    "C64": "complex64",
}  # fmt: skip


def opened_or_reason(path: str):
    """(the file, None), or (None, why it was refused)."""
    try:
        return open_tensor_file(path), None
    except InputError as error:
        return None, error.message


def must_be_refused(want: str) -> bool:
    return want.startswith("error") and " or " not in want and "only if" not in want


def may_be_refused(want: str) -> bool:
    return " or " in want or "unsupported" in want or "error" in want or "bounded" in want


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["file"])
def test_as_wanted(entry):
    want, path = entry["want"], str(DATA / entry["file"])
    opened, reason = opened_or_reason(path)
    if opened is None:
        assert must_be_refused(want) or may_be_refused(want), reason
        assert reason.startswith(f"cannot read {path}: ")
        return
    report, findings = file_report([opened])
    assert not must_be_refused(want)
    if any(word in want for word in ("warn", "mark", "say")) and "or error" not in want:
        assert findings
    assert "\x1b" not in to_json(envelope("inspect", report, tuple(findings)))
    account = report.files[0]
    assert sum(account.bytes_by_kind.values()) == account.nbytes == (DATA / entry["file"]).stat().st_size
    if want.startswith("list") and entry["facts"] is not None and entry["file"] != SPARSE:
        assert seen(entry, report) == official(entry)


def official(entry) -> list:
    """The facts of the official loader as [name, dtype, …], sorted."""
    facts, suffix = entry["facts"], entry["file"].rsplit(".", 1)[1]
    if suffix == "npy":
        facts = {"array": facts}
    if suffix == "safetensors":
        return sorted([name, SAFETENSORS[dtype], shape] for name, (dtype, shape) in facts.items())
    if suffix != "pt":
        return sorted([name, *row] for name, row in facts.items())
    rows = [
        [name.removeprefix(".") or "tensor", row[0].removeprefix("torch."), *row[1:]] for name, row in facts.items()
    ]
    return sorted([*row[:5], None if row[5] < 0 else row[5]] for row in rows)


def seen(entry, report) -> list:
    suffix = entry["file"].rsplit(".", 1)[1]
    if suffix == "safetensors":
        return sorted([t.name, t.dtype, list(t.sizes)] for t in report.tensors)
    if suffix != "pt":
        return sorted([t.name, t.dtype, list(t.sizes), [s * t.itemsize for s in t.strides]] for t in report.tensors)
    nbytes = {storage.id: storage.nbytes for storage in report.storages}
    return sorted(
        [t.name, t.dtype, list(t.sizes), list(t.strides), t.storage_offset, nbytes.get(t.storage)]
        for t in report.tensors
    )


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("pt_rce_os.pt", "os.system"),
        ("pt_rce_py2.pt", "__builtin__.eval"),
        ("pt_rce_inst.pt", "os.system"),
        ("pt_rce_newobj.pt", "subprocess.Popen"),
        ("pt_rce_torch_hub.pt", "torch.hub.load"),
        ("pt_rce_hidden_mid.pt", "os.getpid"),
        ("pt_rce_build.pt", "os.system"),
    ],
)
def test_unsafe_globals_are_named(file, name):
    _, findings = file_report([open_tensor_file(str(DATA / file))])
    assert [f.severity for f in findings if f.code == "unsafe-global" and f.where == name] == ["error"]


def test_tensors_around_an_unsafe_global_are_listed():
    report, _ = file_report([open_tensor_file(str(DATA / "pt_rce_hidden_mid.pt"))])
    assert [t.name for t in report.tensors] == ["a"]


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("pt_ok_slice_of_big.pt", "storage-waste"),
        ("pt_ok_shared.pt", "shared-storage"),
        ("pt_overlap_view.pt", "overlap"),
        ("pt_deflated.pt", "compressed-record"),
        ("pt_dup_pkl.pt", "duplicate-member"),
        ("pt_bo_big.pt", "byte-order"),
        ("pt_zip_prefix.pt", "prefix"),
        ("pt_numel_small.pt", "record-longer"),
        ("pt_rce_data_pkl_second.pt", "foreign-member"),
        ("pt_ok_torchscript.pt", "torchscript"),
        ("st_ok_unaligned.safetensors", "misaligned"),
        ("st_dup_key.safetensors", "duplicate-name"),
        ("npy_ok_bigendian.npy", "byte-order"),
        ("npy_object.npy", "object-array"),
        ("npz_ok_deflate.npz", "compressed"),
    ],
)
def test_findings_have_codes(file, code):
    _, findings = file_report([open_tensor_file(str(DATA / file))])
    assert code in {finding.code for finding in findings}
