"""Reads tests/data/allocator: traces as events, recorded cases, and how to compare with them."""

import gzip
import hashlib
import json
import lzma
from pathlib import Path

from stridetool.analysis.conditions import Conditions
from stridetool.core.drivers.sim import MALLOC_BASE, VIRTUAL_BASE, SimDriver
from stridetool.core.memory.events import Event
from stridetool.core.memory.settings import Settings
from stridetool.errors import OutOfMemoryError

DATA = Path(__file__).parent.parent / "data" / "allocator"
COUNTERS = {
    "reserved": "reserved_bytes",
    "allocated": "allocated_bytes",
    "active": "active_bytes",
    "requested": "requested_bytes",
    "segments": "segment_count",
    "inactive_split": "inactive_split_bytes",
}


def load(name):
    return json.loads(lzma.decompress((DATA / name).read_bytes()))


def event(row):
    return Event(
        row["op"],
        row.get("id", row.get("pool")),
        row.get("size", row.get("bytes", 0)),
        row.get("stream", None if row["op"] == "event_complete" else 0),
        row.get("fraction", 1.0),
    )


def trace(name):
    with gzip.open(DATA / f"{name}.jsonl.gz") as lines:
        return [event(json.loads(line)) for line in lines]


def conditions(case):
    names = ("capacity", "fraction", "address_policy", "stream_events")
    return Conditions(Settings.parse(case["conf"]), **{name: case[name] for name in names})


def offset(address):
    return None if address is None else address - (MALLOC_BASE if address >= MALLOC_BASE else VIRTUAL_BASE)


class Columns:
    """The state after every event, in the form of the recorded columns."""

    def __init__(self):
        self.columns = {"addr": [], **{name: [] for name in COUNTERS}}

    def __call__(self, index, event, address, out_of_memory, allocator):
        allocator.driver.event = index + 1
        if event.op == "alloc":
            self.columns["addr"].append(-1 if out_of_memory else offset(address))
        for name, attribute in COUNTERS.items():
            self.columns[name].append(getattr(allocator, attribute))

    def first_difference(self, case, names=None):
        """(column, chunk) of the first digest that differs, of these columns or all, or None."""
        chunk = case["chunk"]
        for name in names or case["columns"]:
            column = self.columns[name]
            for i, digest in enumerate(case["columns"][name]):
                text = json.dumps(column[i * chunk : (i + 1) * chunk])
                if hashlib.sha256(text.encode()).hexdigest()[:8] != digest:
                    return name, i
        return None


def segments(rows):
    """Segments in a form that recorded and own ones share."""
    out = []
    for row in rows:
        blocks = [
            (offset(b["address"]), b["size"], b["requested_size"], b["state"]) if isinstance(b, dict) else tuple(b)
            for b in row["blocks"]
        ]
        start = offset(row["address"]) if isinstance(row["blocks"][0], dict) else row["address"]
        names = ("total_size", "allocated_size", "active_size", "requested_size", "stream", "segment_type")
        pool = tuple(row["segment_pool_id"])
        out.append((start, bool(row["is_expandable"]), pool, *(row[name] for name in names), blocks))
    return sorted(out)


class RecordingDriver(SimDriver):
    """Writes down each call that would reach a real device, and the event that it belongs to."""

    event = 0

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.calls = []

    def _note(self, call, place, result=0):
        self.calls.append([self.event, call, place, result])

    def malloc(self, nbytes):
        try:
            address = super().malloc(nbytes)
        except OutOfMemoryError:
            self._note("cudaMalloc", 0, 2)
            raise
        self._note("cudaMalloc", offset(address))
        return address

    def free(self, address):
        self._note("cudaFree", offset(address))
        super().free(address)

    def create(self, nbytes):
        try:
            handle = super().create(nbytes)
        except OutOfMemoryError:
            self._note("cuMemCreate", nbytes, 2)
            raise
        self._note("cuMemCreate", nbytes)
        return handle

    def reserve(self, nbytes):
        address = super().reserve(nbytes)
        self._note("cuMemAddressReserve", offset(address))
        return address

    def unmap(self, address, nbytes, handle):
        self._note("cuMemUnmap", offset(address))
        super().unmap(address, nbytes, handle)
