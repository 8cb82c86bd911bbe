"""Snapshots and traces that nobody should trust: nothing is run, nothing hangs, and what is wrong is named."""

import contextlib
import gzip
import json
import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stridetool.errors import InputError
from stridetool.sources.allocations import read_allocations
from stridetool.sources.snapshot_pickle import load_plain
from stridetool.sources.torch_snapshot import read_json, read_pickle

DATA = Path(__file__).parents[1] / "data" / "snapshots"
SMALL = (DATA / "small_fragoom.pickle").read_bytes()

EXPONENTIAL_KEY = b"\x80\x02}K\x01K\x02\x86" + b"".join(b"q%ch%c\x86" % (i, i) for i in range(60)) + b"K\x01s."


class Reduce:
    def __reduce__(self):
        return print, ("ran",)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (pickle.dumps({"segments": [Reduce()]}, 4), "asks for builtins.print"),
        (pickle.dumps({"segments": [Reduce()]}, 2), "asks for"),
        (b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.", "asks for os.system"),
        (b"\x80\x02X\x01\x00\x00\x00aQ.", "an object beside it"),
        (b"\x80\x02K\x01r\xff\xff\xff\x7f.", "memo index"),
        (b"\x80\x02X\xff\xff\xff\x7fabc.", "claims|ends"),
        (b"\x80\x02\x8a\xff" + b"\x01" * 255 + b".", "no `segments`"),
        (b"\x80\x02\x8b\xff\xff\xff\x7f.", "integer of"),
        (EXPONENTIAL_KEY, "nested tuples"),
        (b"\x80\x04\x82\x01.", "no opcode"),
        (b"\x80\x04]" + b"(" * 1000 + b".", "damaged|broken|ends|no `segments`|more or less"),
        (b"\x80\x02}]K\x01s.", "damaged|hashed"),
    ],
)
def test_hostile_pickles_are_refused_by_name(data, reason, capsys):
    with pytest.raises(InputError, match=reason):
        read_pickle(data)
    assert "ran" not in capsys.readouterr().out


def test_a_bomb_of_empty_containers_is_refused():
    with pytest.raises(InputError):
        load_plain(b"\x80\x02" + b"]" * 12_000_000 + b".")


def test_one_entry_referred_to_again_and_again_is_refused():
    segment = {"address": 0, "total_size": 512, "blocks": [{"size": 512, "state": "inactive"}]}
    data = pickle.dumps({"segments": [segment] * 200_000}, protocol=2)
    with pytest.raises(InputError, match="more entries than the file has room for"):
        read_pickle(data)


@pytest.mark.parametrize("protocol", range(2, 6))
def test_protocols_and_forms_agree(protocol, tmp_path):
    value = pickle.loads(SMALL)
    expected = read_pickle(SMALL)
    assert read_pickle(pickle.dumps(value, protocol=protocol)) == expected
    packed = tmp_path / "snapshot.pickle.gz"
    packed.write_bytes(gzip.compress(pickle.dumps(value, protocol=protocol)))
    assert read_allocations(packed)[1] == expected


def test_json_and_the_page_of_the_viewer_agree_with_the_pickle(tmp_path):
    memory_viz = pytest.importorskip("torch.cuda._memory_viz")
    value = pickle.loads(SMALL)
    expected = read_pickle(SMALL)
    assert read_json(json.dumps(value).encode()) == expected
    page = tmp_path / "page.html"
    page.write_text(memory_viz.trace_plot(value))
    assert read_allocations(page)[1] == expected


def test_a_bare_list_is_a_snapshot_without_history():
    segments = pickle.loads(SMALL)["segments"]
    recording = read_pickle(pickle.dumps(segments))
    assert recording.devices[0].segments == read_pickle(SMALL).devices[0].segments
    assert not len(recording.devices[0].history)


def test_blocks_of_1_13_have_no_addresses_and_a_history():
    block = {"size": 1024, "state": "active_allocated", "history": [{"addr": 4096, "real_size": 700, "frames": []}]}
    rest = {"size": 1024, "state": "inactive"}
    segment = {"address": 4096, "total_size": 2048, "segment_type": "small", "blocks": [block, rest]}
    blocks = read_pickle(pickle.dumps([segment])).devices[0].segments[0].blocks
    assert [(b.address, b.size, b.requested) for b in blocks] == [(4096, 1024, 700), (5120, 1024, 0)]


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("segments", 0, "address"), -1, r"segments\[0\].address"),
        (("segments", 0, "total_size"), 1 << 70, r"segments\[0\].total_size"),
        (("segments", 0, "total_size"), float("nan"), r"segments\[0\].total_size"),
        (("segments", 0, "blocks", 0, "state"), "gone", r"segments\[0\].blocks\[0\].state"),
        (("segments", 0, "blocks"), {}, r"segments\[0\].blocks is no list"),
        (("device_traces", 0, 1, "size"), -5, r"device_traces\[0\]\[1\].size"),
        (("device_traces", 0, 1, "action"), "eval", r"device_traces\[0\]\[1\].action"),
        (("device_traces", 0, 1), [], r"device_traces\[0\]\[1\] is no dict"),
        (("device_traces", 0, 1, "pool_id"), 7, "pool_id"),
    ],
)
def test_wrong_fields_are_named(path, value, reason):
    snapshot = pickle.loads(SMALL)
    target = snapshot
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    with pytest.raises(InputError, match=reason):
        read_pickle(pickle.dumps(snapshot))


def test_a_segment_that_its_blocks_do_not_tile_is_left_out():
    snapshot = pickle.loads(SMALL)
    snapshot["segments"][0]["total_size"] += 512
    recording = read_pickle(pickle.dumps(snapshot))
    assert recording.remarks[0].code == "contradictory-segment"
    assert recording.remarks[0].where == "segments[0]"
    assert not recording.devices[0].segments


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_snapshots_are_read_or_refused(data):
    cut = bytearray(SMALL[: data.draw(st.integers(1, len(SMALL)))])
    for _ in range(data.draw(st.integers(0, 3))):
        cut[data.draw(st.integers(0, len(cut) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(InputError):
        read_pickle(bytes(cut))


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (['{"op":"alloc","id":1,"size":1.5}'], "line 1 .*size"),
        (['{"op":"alloc","id":1,"size":NaN}'], "line 1"),
        (['{"op":"alloc","id":1}'], r"event 0 \(alloc\): size missing"),
        (['{"op":"alloc","id":[1],"size":1}'], "line 1 .*id"),
        (['{"op":"jump"}'], "unknown op 'jump'"),
        (['{"op":"sync"}', '{"op":"free"}'], r"event 1 \(free\): id missing"),
        (['{"op":"sync"}', "{"], "line 2"),
    ],
)
def test_traces_name_the_line_and_the_field(lines, reason, tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(InputError, match=reason):
        read_allocations(path)


def test_gzip_bombs_and_damage_are_refused(tmp_path):
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(bytes(120_000_000), 9))
    with pytest.raises(InputError, match="bomb"):
        read_allocations(bomb)
    bomb.write_bytes(gzip.compress(SMALL)[:-20])
    with pytest.raises(InputError, match="ends too early"):
        read_allocations(bomb)


def test_rmm_logs_are_traces(tmp_path):
    path = tmp_path / "rmm.csv"
    rows = (
        "1,10:00:00,allocate,0x7f10,1048576,0x0",
        "1,10:00:01,allocate,0x7f20,512,0x5581",
        "1,1,free,0x7f10,1048576,0x0",
    )
    path.write_text("Thread,Time,Action,Pointer,Size,Stream\n" + "\n".join(rows) + "\n")
    kind, trace = read_allocations(path)
    assert kind == "rmm"
    assert [(e.op, e.nbytes, e.stream) for e in trace.events] == [
        ("alloc", 1 << 20, 0),
        ("alloc", 512, 1),
        ("free", 0, 0),
    ]
    path.write_text("Thread,Time,Action,Pointer,Size,Stream\n1,1,allocate,0x7f10,-3,0\n")
    with pytest.raises(InputError, match="line 2"):
        read_allocations(path)


def test_long_texts_and_large_memos_are_ordinary():
    value = {"segments": [], "x": ["a" * 100_000, *map(str, range(70_000))], "y": [1 << 62, -1, 2.5, None, True]}
    for protocol in (2, 4):
        assert load_plain(pickle.dumps(value, protocol)) == value
