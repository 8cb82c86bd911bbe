"""The C extension, built from csrc/; absent where there was no compiler."""

from array import array

def run(
    rows: array[int],
    places: array[int],
    slots: int,
    allocating_streams: int,
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
    addresses: array[int] | None,
) -> tuple[tuple[int, ...], int, int, int, int] | None: ...
