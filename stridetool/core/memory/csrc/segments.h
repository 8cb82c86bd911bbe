/* Segments come and go, as in heap.py (add_segment, drop_segment, note_reserved) and growth.py (release_segment). */
#ifndef STRIDETOOL_SEGMENTS_H
#define STRIDETOOL_SEGMENTS_H

#include "device.h"

static void note_reserved(Heap *h, int64_t change) {
    h->reserved += change;
    h->device_calls++;
    if (h->reserved > h->peak_reserved) h->peak_reserved = h->reserved;
}

static int64_t segment_size(const Heap *h, int64_t size) {
    if (size <= SMALL_SIZE) return SMALL_BUFFER;
    if (size < MIN_LARGE_ALLOC) return h->large_segment;
    return round_up(size, ROUND_LARGE);
}

static Segment *add_segment(Heap *h, Pool *pool, int stream, int64_t address, int64_t size, int64_t page) {
    Segment *segment = h->spare_segments;
    if (segment) h->spare_segments = segment->spare;
    else segment = obtain_bytes(h, sizeof *segment);
    h->segments_made++;
    *segment = (Segment){address, size, h->counts_segments ? h->segments_made : 0, page, pool, shelf_of(h, pool, stream), NULL};
    if (pool->owner) pool->owner->segments++;
    return segment;
}

/* Forget the segment that `block` is the whole of. */
static void drop_segment(Heap *h, Block *block) {
    Segment *segment = block->segment;
    if (segment->pool->owner) segment->pool->owner->segments--;
    spare_block(h, block);
    segment->spare = h->spare_segments;
    h->spare_segments = segment;
}

static void release_segment(Heap *h, Block *block) {
    Segment *segment = block->segment;
    take(h, block);
    device_free(h, segment->address, segment->size);
    note_reserved(h, -block->size);
    drop_segment(h, block);
}

#endif
