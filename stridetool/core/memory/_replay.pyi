"""The C extension, built from csrc/; absent where there was no compiler."""

from array import array

OPS: tuple[str, ...]  # the code of an event in `rows` is the place of its op here

def run(
    rows: array[int],
    ranks: array[int],
    slots: int,
    pools: int,
    capacity: int,
    fraction: float,
    queries: int,
    first_fit: bool,
    stops: bool,
    counts_segments: bool,
    repaired: bool,
    max_split: int,
    large_segment: int,
    non_split_rounding: int,
    gc_threshold: float,
    expandable: bool,
    throws: bool,
    divisions: tuple[int, ...],
    first: int,
    state: array[int],
    stop: bytearray,
    addresses: array[int] | None,
) -> tuple[tuple[int, ...], int, int, int, int, int] | None:
    """(failed events, peak reserved bytes, peak allocated bytes, retries, device calls, work) of rows[first:].

    `rows` are int64 quadruples (code, slot, nbytes, stream), `ranks` an int64 for each stream: its turn when events
    are polled. Sizes and the capacity are bytes; `queries` is how many find an event unfinished, -1 while the trace
    tells, -2 for none; `divisions` are 16; `state` is the memory held at the beginning, as csrc/state.h reads it;
    `addresses` has room for an int64 of each row; `work` is what it cost the host, about in events. None for what the
    Python replay is to judge. Raises KeyboardInterrupt once stop[0] is set, and ValueError for rows that name slots,
    streams or pools beyond their numbers, or too little room for addresses.
    """
