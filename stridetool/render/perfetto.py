"""Histories in the Trace Event Format, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

Each device is a process: counters of reserved, allocated and requested bytes, an asynchronous slice for each block
(named after who asked for it) and for each segment, and an instant for each failure. Where no clock was recorded, a
microsecond stands for an entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from stridetool.report.film import (
    ALLOC,
    FREE_COMPLETED,
    FREE_REQUESTED,
    OOM,
    SEGMENT_ALLOC,
    SEGMENT_FREE,
    SEGMENT_MAP,
    SEGMENT_UNMAP,
    Film,
)

_Event = dict[str, Any]


def trace_events(films: Iterable[Film]) -> Iterator[str]:
    """The JSON document in chunks."""
    encode = msgspec.json.Encoder().encode
    yield '{"displayTimeUnit":"ms","traceEvents":[\n'
    first = True
    for process, film in enumerate(films):
        for event in _film(film, process):
            yield ("" if first else ",\n") + encode(event).decode()
            first = False
    yield "\n]}\n"


def _film(film: Film, process: int) -> Iterator[_Event]:
    yield {"name": "process_name", "ph": "M", "pid": process, "tid": 0, "args": {"name": film.name}}
    times = film.times_us
    start = times[0] if times else 0
    state = _State(film, process)
    yield from state.begin()
    for index in range(len(film.actions)):
        yield from state.step(index, times[index] - start if times else index)


class _State:
    """What is live while the entries pass, and the sums of it."""

    def __init__(self, film: Film, process: int) -> None:
        self.film = film
        self.process = process
        self.live: dict[int, tuple[int, int]] = {}  # address → (number of the slice, kind)
        self.waiting: set[int] = set()
        self.made = 0
        self.allocated = self.requested = 0
        self.reserved = sum(segment.size for segment in film.segments)

    def begin(self) -> Iterator[_Event]:
        """What was there before the first entry."""
        for block in self.film.blocks:
            yield self._born(block.address, block.kind, 0)
            if block.is_pending:
                self.waiting.add(block.address)
                self.allocated -= self.film.kind_table[block.kind].size
        for segment in self.film.segments:
            yield self._slice("b", "segment", f"{segment.size} B", segment.address, 0)
        yield self._counter(0)

    def step(self, index: int, time: int) -> Iterator[_Event]:
        """The events of one entry."""
        film = self.film
        action, address, size = film.actions[index], film.addresses[index], film.sizes[index]
        if action == ALLOC:
            yield self._born(address, film.kinds[index], time)
        elif action in (FREE_REQUESTED, FREE_COMPLETED):
            yield from self._freed(action, address, time)
        elif action in (SEGMENT_ALLOC, SEGMENT_MAP):
            self.reserved += size
            yield self._slice("b", "segment", f"{size} B", address, time)
        elif action in (SEGMENT_FREE, SEGMENT_UNMAP):
            self.reserved -= size
            yield self._slice("e", "segment", f"{size} B", address, time)
        elif action == OOM:
            args = {"requested_bytes": size}
            yield {
                "name": "out of memory",
                "ph": "i",
                "s": "g",
                "pid": self.process,
                "tid": 0,
                "ts": time,
                "args": args,
            }
        yield self._counter(time)

    def _born(self, address: int, number: int, time: int) -> _Event:
        kind = self.film.kind_table[number]
        self.live[address] = (self.made, number)
        self.made += 1
        self.allocated += kind.size
        self.requested += kind.requested
        event = self._slice("b", "block", self.film.sites[kind.site].partition("\n")[0], self.live[address][0], time)
        event["args"] = {
            "address": hex(address),
            "size": kind.size,
            "requested_size": kind.requested,
            "stream": kind.stream,
            "stack": self.film.sites[kind.site],
        }
        return event

    def _freed(self, action: int, address: int, time: int) -> Iterator[_Event]:
        """A request takes it from what is allocated, its completion ends it."""
        found = self.live.get(address)
        if found is None:
            return
        kind = self.film.kind_table[found[1]]
        if action == FREE_REQUESTED:
            self.waiting.add(address)
            self.allocated -= kind.size
            return
        if address not in self.waiting:
            self.allocated -= kind.size
        self.waiting.discard(address)
        self.requested -= kind.requested
        del self.live[address]
        yield self._slice("e", "block", self.film.sites[kind.site].partition("\n")[0], found[0], time)

    def _slice(self, phase: str, category: str, name: str, number: int, time: int) -> _Event:
        return {
            "name": name, "cat": category, "ph": phase, "id": hex(number), "pid": self.process, "tid": 0, "ts": time,
        }  # fmt: skip

    def _counter(self, time: int) -> _Event:
        args = {"allocated": self.allocated, "reserved": self.reserved, "requested": self.requested}
        return {"name": "memory", "ph": "C", "pid": self.process, "tid": 0, "ts": time, "args": args}
