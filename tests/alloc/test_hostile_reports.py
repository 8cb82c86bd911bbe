"""What an attacker asks of `alloc-report` by a snapshot that can be read: it answers or refuses, and soon."""

import copy
import gzip
import io
import json
import os
import pickle
import random
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stridetool.analysis.recorded_device import refuse_bombs
from stridetool.analysis.rewind import rewind
from stridetool.cli.main import app
from stridetool.errors import InputError
from stridetool.sources.file_bytes import read_stream, read_whole
from stridetool.sources.torch_snapshot import read_pickle

DATA = Path(__file__).parents[1] / "data" / "snapshots"
SMALL_PAGE, PAGE, GIB = 2 << 20, 20 << 20, 1 << 30
BASE = 0x600000000000


def run(path, *options):
    result = CliRunner().invoke(app, ["alloc-report", str(path), *options])
    assert result.exit_code in (0, 2), (result.exit_code, result.output, result.exception)
    return result


def written(path, snapshot):
    path.write_bytes(pickle.dumps(snapshot, protocol=2))
    return path


def segment(nbytes, device=0, kind="large", state="inactive", expandable=True):
    block = {"address": BASE, "size": nbytes, "requested_size": nbytes, "state": state, "frames": []}
    return {
        "device": device, "address": BASE, "total_size": nbytes, "stream": 0, "segment_type": kind,
        "segment_pool_id": (0, 0), "is_expandable": expandable, "blocks": [block],
    }  # fmt: skip


def entry(action, nbytes, address=BASE, frames=()):
    return {
        "action": action, "addr": address, "size": nbytes, "stream": 0, "pool_id": (0, 0), "time_us": 1,
        "frames": list(frames),
    }  # fmt: skip


def recorded(*segments, traces=()):
    return {"segments": list(segments), "device_traces": list(traces), "allocator_settings": {}}


def endless():
    """A list whose text has 2^60 words."""
    value = ["a"]
    for _ in range(60):
        value = [value, value]
    return value


@pytest.mark.parametrize(
    ("snapshot", "reason"),
    [
        (recorded(segment((2 << 40) - PAGE + SMALL_PAGE)), r"begin with 1,0\d\d,\d\d\d pages"),
        (recorded(*(segment(100 * GIB, device, "small") for device in range(8))), "begin with 409,600 pages"),
        (recorded(*(segment(6000 * PAGE, device) for device in range(50))), "begin with 300,000 pages"),
        (recorded(traces=[[entry("segment_unmap", 300_000 * PAGE)]]), "begin with 300,000 pages"),
        (
            recorded(
                traces=[[entry(f"segment_{step}", 13_000 * PAGE) for _ in range(99) for step in ("map", "unmap")]]
            ),
            "its 198 entries map 1,287,000 pages",
        ),
        (
            recorded(traces=[[entry("segment_free", 1 << 49, i << 49) for i in range(9)]]),
            "more memory than any machine",
        ),
    ],
)
def test_more_pages_than_a_machine_has_are_refused_with_the_name_of_the_file(snapshot, reason, tmp_path):
    path = written(tmp_path / "bomb.pickle", snapshot)
    for options in ([], ["--sweep"]):
        result = run(path, *options)
        (error,) = (line for line in result.stderr.splitlines() if "error: " in line)
        assert re.fullmatch(f"stride-tool: error: cannot replay {re.escape(str(path))}: .*{reason}.*", error)


@pytest.mark.parametrize("nbytes", [80 * GIB // PAGE * PAGE, 280 * GIB // PAGE * PAGE])
def test_eight_full_devices_of_today_are_read(nbytes, tmp_path):
    cycle = ["segment_map", "alloc", "free_requested", "free_completed", "segment_unmap"] * 4
    trace = [entry(action, nbytes if "segment" in action else 1 << 30) for action in cycle]
    segments = [segment(nbytes, device) for device in range(8)]
    for snapshot in (recorded(*segments), recorded(traces=[trace] * 8)):
        recording = read_pickle(pickle.dumps(snapshot))
        refuse_bombs([(device, rewind(device)) for device in recording.devices], PAGE)


@pytest.mark.parametrize(
    ("snapshot", "reason"),
    [
        (recorded(segment(1 << 50)), r"segments\[0\].total_size"),
        (recorded(*(segment(1 << 49, device) for device in range(2))), "segments are more memory together"),
        (recorded(segment(512, 128)), r"segments\[0\].device is 128"),
        (recorded(traces=[[entry("segment_alloc", 1 << 50)]]), r"device_traces\[0\]\[0\].size .* no device has"),
        (recorded(traces=[[]] * 129), "device_traces` is of 129 devices"),
        (recorded(segment(512, state=[])), r"blocks\[0\].state is a list"),
        (recorded(segment(512, state=endless())), r"blocks\[0\].state is a list"),
        (recorded(segment(512, kind=endless())), "segment_type is a list"),
        (recorded(segment(endless())), r"blocks\[0\].size is a list"),
        (recorded(traces=[[entry(endless(), 1)]]), r"action is a list"),
        (recorded(traces=[[entry("alloc", endless())]]), r"size is a list"),
        (recorded(traces=[[{**entry("alloc", 1), "frames": 7}]]), r"device_traces\[0\]\[0\].frames is no list"),
        (recorded(traces=[[entry("alloc", 1), {**entry("alloc", 1), "pool_id": (1.0, 0)}]]), "pool_id is no pair"),
    ],
)
def test_sizes_that_no_device_has_and_lists_for_texts_are_named(snapshot, reason):
    with pytest.raises(InputError, match=reason):
        read_pickle(pickle.dumps(snapshot))


def test_what_a_failed_request_asked_for_may_be_any_number(tmp_path):
    path = written(tmp_path / "s.pickle", recorded(segment(PAGE), traces=[[entry("oom", 1 << 61, 5 << 30)]]))
    assert run(path).exit_code == 0


@pytest.mark.parametrize("options", [[], ["--events"], ["--at", "1"], ["--what-if", "expandable_segments:True"]])
def test_frames_that_hold_anything_are_shown_as_unknown(options, tmp_path):
    def stack():
        return [{"filename": endless(), "line": endless(), "name": endless()}, endless(), 7]

    actions = ("segment_alloc", "alloc", "free_requested", "free_completed", "segment_free", "alloc")
    trace = [entry(action, 512, frames=stack()) for action in actions]
    result = run(written(tmp_path / "s.pickle", recorded(traces=[trace])), *options)
    assert result.exit_code == 0


def test_settings_of_any_length_are_read_up_to_what_somebody_could_have_set(tmp_path):
    texts = ("roundup_power2_divisions:[" + "1:2," * 200_000, "expandable_segments:True," * 100_000, "a," * 500_000)
    for text in texts:
        snapshot = {**recorded(segment(PAGE)), "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": text}}
        result = run(written(tmp_path / "s.pickle", snapshot), "--json")
        assert result.exit_code == 0
        assert len(result.stdout) < 40_000


def test_memory_of_a_block_of_the_start_is_no_part_of_the_block_before_it(tmp_path):
    first, second, third, nbytes = BASE, BASE + (2 << 20), BASE + (5 << 19), 2 << 20
    frees = ("free_requested", "free_completed")
    trace = [*(entry(action, nbytes, second) for action in frees), entry("alloc", nbytes, third)]
    trace += [entry(action, nbytes, first) for action in frees]
    held = segment(PAGE, expandable=False)
    held["blocks"] = [
        {"size": third - BASE, "state": "inactive"},
        {"size": nbytes, "requested_size": nbytes, "state": "active_allocated"},
        {"size": PAGE - (third - BASE) - nbytes, "state": "inactive"},
    ]
    found = json.loads(run(written(tmp_path / "s.pickle", recorded(held, traces=[trace])), "--json").stdout)
    assert (found["report"]["exactness"]["predicted"], found["report"]["exactness"]["total"]) == (0, 1)


def test_memory_without_any_request_needs_no_other_settings(tmp_path):
    path = written(tmp_path / "s.pickle", recorded(segment(5 * PAGE)))
    assert run(path, "--sweep").exit_code == 0


def test_files_are_asked_for_no_more_than_their_size(tmp_path):
    asked = []

    class Spy(io.FileIO):
        def read(self, count=-1):
            asked.append(count)
            return super().read(count)

    path = tmp_path / "data"
    path.write_bytes(b"x" * 1000)
    for limit, data in ((1 << 40, b"x" * 1000), (1000, b"x" * 1000), (999, None)):
        with Spy(path) as file:
            assert read_whole(file, limit) == data
        assert read_stream(io.BytesIO(b"x" * 1000), limit) == data
    assert max(asked) <= 1001
    reader, writer = os.pipe()
    os.write(writer, b"abc")
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert read_whole(pipe, 1 << 40) == b"abc"


_VALUES = (
    *(None, True, 0, 1, -1, 128, 512, SMALL_PAGE, PAGE, 1 << 39, 1 << 50, 1 << 61, (1 << 64) - 1, -(1 << 63), 1.5),
    *("", "alloc", "free_completed", "segment_map", "segment_unmap", "oom", "small", "inactive", "active_allocated"),
    *([], {}, (), [1, 2], (0, 5), [[]], {"a": 1}, b"x", endless()),
)


def _mutated(snapshot, choose):
    """A value anywhere in it replaced, removed or repeated, or a part of it changed so that it still holds together."""
    for _ in range(choose.choice((1, 1, 2, 4))):
        here = snapshot
        while True:
            items = list(here.items() if isinstance(here, dict) else enumerate(here))
            inner = [value for _, value in items if isinstance(value, dict | list) and value]
            if not inner or (here is not snapshot and choose.random() < 0.25):
                break
            here = choose.choice(inner)
        if not items:
            continue
        key = choose.choice(items)[0]
        action = choose.randrange(6)
        if action == 0:
            del here[key]
        elif action == 1 and isinstance(here, list):
            here.append(copy.copy(here[key]))
        elif action == 2 and isinstance(here, dict) and isinstance(here.get("blocks"), list):
            here["is_expandable"] = not here.get("is_expandable")
        else:
            here[key] = choose.choice(_VALUES)
    return snapshot


@pytest.mark.parametrize("name", ["small_fragoom.pickle", "mempool.pickle.gz", "gpt_ring_500.pickle.gz"])
def test_mutated_snapshots_are_reported_or_refused_with_their_name(name, tmp_path):
    data = (DATA / name).read_bytes()
    data = gzip.decompress(data) if name.endswith(".gz") else data
    choose = random.Random(name)
    path = tmp_path / "mutated.pickle"
    options = ([], ["--what-if", "expandable_segments:True"], ["--at", "3"], ["--events"], ["--json"])
    for _ in range(25):
        result = run(written(path, _mutated(pickle.loads(data), choose)), *choose.choice(options))
        assert result.exit_code == 0 or f"{path}: " in result.stderr
