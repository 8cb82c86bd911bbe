"""The report on tensor files: bytes reached, waste, sharing, the account of a file, what is chosen and compared."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stridetool.analysis.file_account import by_prefix, file_regions
from stridetool.analysis.file_rows import Geometries, file_rows
from stridetool.analysis.files import file_report
from stridetool.analysis.tensor_changes import compare_inspect
from stridetool.core.layout import Layout
from stridetool.core.tensor_file import FileStorage, FileTensor, Region, TensorFile
from stridetool.errors import UsageError

LAYOUTS = st.integers(0, 4).flatmap(
    lambda rank: st.builds(
        Layout,
        st.tuples(*[st.integers(0, 5)] * rank),
        st.tuples(*[st.integers(0, 9)] * rank),
        st.integers(0, 10),
    )
)


def tensor(name: str, layout: Layout, itemsize: int = 4, storage: str = "0", dtype: str = "float32") -> FileTensor:
    return FileTensor(
        name=name, dtype=dtype, itemsize=itemsize, nbytes=layout.numel * itemsize, layout=layout, storage=storage
    )


def file(*tensors: FileTensor, nbytes: int = 4000, size: int = 5000, path: str = "x.pt") -> TensorFile:
    keys = dict.fromkeys(t.storage for t in tensors)
    storages = tuple(
        FileStorage(key=key, nbytes=nbytes, stored_bytes=nbytes, file_offset=64 * (n + 1)) for n, key in enumerate(keys)
    )
    return TensorFile(kind="torch zip", path=path, size=size, tensors=tensors, storages=storages)


def reached(layout: Layout, itemsize: int) -> set[int]:
    return {
        layout(*index) * itemsize + byte for index in product(*map(range, layout.sizes)) for byte in range(itemsize)
    }


@given(st.lists(st.tuples(LAYOUTS, st.sampled_from([1, 2, 8])), min_size=1, max_size=4))
def test_bytes_that_any_tensor_reaches_are_counted_once(parts):
    tensors = [tensor(str(i), layout, itemsize) for i, (layout, itemsize) in enumerate(parts)]
    rows, (storage,), _ = file_rows(file(*tensors), 0, Geometries())
    assert storage.reached_bytes == len(set().union(*(reached(layout, itemsize) for layout, itemsize in parts)))
    for row, (layout, itemsize) in zip(rows, parts, strict=True):
        assert row.reached_bytes == len(reached(layout, itemsize))
        assert row.has_internal_overlap == (len(reached(layout, itemsize)) < row.nbytes)
        assert row.is_contiguous == layout.is_contiguous()
        assert row.is_non_overlapping_and_dense == layout.is_non_overlapping_and_dense()


def test_what_is_not_decided_is_bounded():
    layouts = [Layout((300, 300, 40), (40_009, 131, 3), n) for n in range(3)]
    nbytes = 4 * 50_000_000
    rows, (storage,), _ = file_rows(
        file(*(tensor(str(i), x) for i, x in enumerate(layouts)), nbytes=nbytes), 0, Geometries()
    )
    assert storage.reached_bytes is None
    assert max(row.reached_bytes or 0 for row in rows) <= storage.reached_at_least <= storage.reached_at_most <= nbytes


def test_many_hard_layouts_do_not_hang():
    tensors = [tensor(f"t{i}", Layout((20 + i % 40, 37, 41), (997 + i, 1009 + 7 * i, 31 + i))) for i in range(2000)]
    report, _ = file_report([file(*tensors, nbytes=1 << 30)])
    assert len(report.tensors) == 2000


@given(st.lists(st.tuples(st.integers(0, 120), st.integers(0, 40), st.sampled_from(["header", "data"])), max_size=8))
def test_every_byte_of_a_file_is_in_one_region(claimed):
    regions = file_regions([Region(start, start + length, kind) for start, length, kind in claimed], 100)
    counts = [0] * 100
    for region in regions:
        for byte in range(region.offset, region.offset + region.nbytes):
            counts[byte] += region.kind != "overlap"
    assert counts == [1] * 100
    covered = {b for start, length, _ in claimed for b in range(start, min(start + length, 100))}
    unclaimed = {
        b for r in regions if r.kind in ("gap", "trailing") for b in range(r.offset, r.offset + r.nbytes)
    }  # fmt: skip
    assert unclaimed == set(range(100)) - covered


def findings(*tensors: FileTensor, **options) -> dict[str, tuple[str, str | None]]:
    _, found = file_report([file(*tensors, **options)])
    return {finding.code: (finding.message, finding.hint) for finding in found}


def test_a_slice_that_drags_its_storage():
    found = findings(tensor("tiny", Layout((11,), (1,), 100)), nbytes=4000_000, size=4001_000)
    message, hint = found["storage-waste"]
    assert message.startswith("99.9 % of storage s0 (3.81 MiB) is reached by no tensor: tiny uses 44 B")
    assert hint == "clone() tiny before saving: the file would be about 1,044 B"


def test_small_waste_is_not_worth_a_word():
    assert "storage-waste" not in findings(tensor("most", Layout((950,), (1,))))


def test_tied_tensors_are_named_with_the_one_to_keep():
    whole = Layout.contiguous((1000,))
    found = findings(tensor("head", whole), tensor("embedding", whole), tensor("part", Layout((10,), (1,), 5)))
    message, hint = found["shared-storage"]
    assert message.startswith("head, embedding, part share bytes of storage s0")
    assert hint.endswith("keep embedding, drop head, tied to it, clone() part")


def test_neighbours_in_one_storage_share_no_bytes():
    found = findings(tensor("a", Layout((500,), (1,))), tensor("b", Layout((500,), (1,), 500)))
    assert "shared-storage" not in found


def test_order_and_overlap():
    found = findings(tensor("t", Layout((3, 4), (1, 3))), tensor("x", Layout((5, 5), (0, 1)), storage="1"))
    assert found["non-contiguous"][0].startswith("t, x are not contiguous")
    assert found["overlap"][0].startswith("25 elements over 20 B of the file")


def test_misaligned_by_item_size():
    odd = TensorFile(
        kind="npz", path="x.npz", size=100, tensors=(tensor("a", Layout((2,), (1,)), 8),),
        storages=(FileStorage(key="0", nbytes=16, stored_bytes=16, file_offset=42),),
    )  # fmt: skip
    report, found = file_report([odd])
    assert [(f.code, f.where) for f in found] == [("misaligned", "a")]
    assert report.tensors[0].file_alignment == 2
    assert report.files[0].aligned == {"16": 0, "64": 0, "4096": 0}


def test_prefixes_are_as_long_as_they_stay_few():
    names = [f"model.layers.{i}.{part}.weight" for i in range(30) for part in ("q", "k")] + [
        "model.norm.weight",
        "head.bias",
    ]
    report, _ = file_report([file(*(tensor(name, Layout((2,), (1,)), storage=name) for name in names))])
    assert {total.key: total.tensors for total in by_prefix(report.tensors)} == {
        "model.layers": 60, "model.norm": 1, "head.bias": 1,
    }  # fmt: skip


def test_only_what_is_asked_for():
    tensors = [tensor(name, Layout((2,), (1,)), storage=name) for name in ("a.weight", "a.bias", "b.weight", "[0]")]
    report, _ = file_report([file(*tensors)], tensors=["a.*", "[0]"])
    assert [t.name for t in report.tensors] == ["a.weight", "a.bias", "[0]"]
    assert [s.id for s in report.storages] == ["s0", "s1", "s3"]
    with pytest.raises(UsageError, match="cannot find a tensor 'c'"):
        file_report([file(*tensors)], tensors=["c"])


def test_storages_of_several_files_have_different_names():
    one, two = file(tensor("a", Layout((2,), (1,)))), file(tensor("a", Layout((2,), (1,))), path="y.pt")
    report, _ = file_report([one, two], first_storage=3)
    assert [(s.id, s.source) for s in report.storages] == [("s3", "x.pt"), ("s4", "y.pt")]


def test_compare_names_what_changed():
    old, _ = file_report(
        [
            file(
                tensor("a", Layout((6,), (1,))),
                tensor("b", Layout((2,), (1,))),
                tensor("c", Layout((2, 3), (3, 1)), storage="1"),
            )
        ]
    )
    new, _ = file_report(
        [
            file(
                tensor("a", Layout((6,), (1,)), 2, dtype="float16"),
                tensor("c", Layout((2, 3), (1, 2)), storage="1"),
                tensor("d", Layout((1,), (1,)), storage="2"),
                path="new.pt",
            )
        ]
    )
    changes = {(c.tensor, c.what): (c.old, c.new) for c in compare_inspect(old, new)}
    assert changes == {
        ("a", "dtype"): ("float32", "float16"),
        ("a", "bytes"): ("24", "12"),
        ("a", "shares with"): ("b", "none"),
        ("b", "removed"): ("float32 [2] strides (1,), 8 B", None),
        ("c", "strides"): ("(3, 1)", "(1, 2)"),
        ("d", "added"): (None, "float32 [1] strides (1,), 4 B"),
    }
    assert compare_inspect(old, old) == ()
