"""Pages of recorded snapshots, and what the recording itself says was live at a moment."""

from functools import cache
from pathlib import Path

from stridetool.analysis.conditions import Conditions
from stridetool.analysis.film import film_of_recording
from stridetool.analysis.recording_report import recording_reports
from stridetool.render.alloc_page import Shown, alloc_page
from stridetool.report.envelope import envelope
from stridetool.report.inspect import Source
from stridetool.sources.allocations import read_allocations

SNAPSHOTS = Path(__file__).parents[1] / "data" / "snapshots"
NAMES = ("streams_pending.pickle", "gpt_expandable.pickle.gz", "trace_phases_1.pickle.gz", "small_fragoom.pickle")


@cache
def device(name):
    return read_allocations(SNAPSHOTS / name)[1].devices[0]


@cache
def shown(name, source=None):
    """The first device of a snapshot with its film."""
    lines = []
    _, recording = read_allocations(SNAPSHOTS / name)
    where = Source("snapshot", source or name)
    first = recording_reports(where, recording, Conditions(), (), emit=lines.append)[0]
    count = len(recording.devices[0].history)
    allocated = [line.allocated_bytes for line in lines[:count]]
    film = film_of_recording(recording.devices[0], first.report, Conditions().settings, allocated)
    return Shown(first.report, film)


def page(name, source=None):
    one = shown(name, source)
    return "".join(alloc_page(envelope("alloc-report", one.report), [one]))


def recorded_blocks(name):
    """{address: (requested, pending)} that torch's own snapshot has at its end."""
    return {
        hex(block.address): (block.requested, block.state == "active_pending_free")
        for segment in device(name).segments
        for block in segment.blocks
        if block.state != "inactive"
    }


def recorded_segments(name):
    return sorted((hex(segment.address), segment.size, segment.stream) for segment in device(name).segments)
