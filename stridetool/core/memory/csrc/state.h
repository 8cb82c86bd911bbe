/* What a replay is about: its events, and the memory that is held at the beginning. */
#ifndef STRIDETOOL_STATE_H
#define STRIDETOOL_STATE_H

#include "heap.h"
#include "private.h"

typedef struct { /* an event: numbers instead of ids, and of streams and pools their place among them */
    int64_t code, slot, nbytes, stream;
} Row;

typedef struct {
    const Row *rows;
    size_t first, count, slots;
    const int64_t *state, *state_end; /* memory that is held at the beginning */
    const volatile char *stop;        /* not 0: end at once */
    int stops; /* at the first failure */
    double fraction;
    Block **blocks;       /* by slot */
    int64_t *addresses;   /* by event, or NULL; -1 for a failure, 0 for everything that is no allocation */
    int64_t *failures;
    size_t failure_count, failure_room;
} Job;

static int64_t next_number(Heap *h, Job *job, int64_t low, int64_t high) {
    if (job->state == job->state_end || *job->state < low || *job->state >= high) leave(h);
    return *job->state++;
}

static void load_block(Heap *h, Job *job, Segment *segment, Block **last) {
    int64_t address = next_number(h, job, 0, LAST_ADDRESS), size = next_number(h, job, 1, LAST_ADDRESS);
    int state = (int)next_number(h, job, FREE, UNMAPPED + 1);
    int64_t slot = next_number(h, job, -1, (int64_t)job->slots);
    Block *block = *last = new_block(h, address, size, state, segment, *last, NULL);
    if (state == FREE) put(h, block);
    if (state == UNMAPPED) put_unmapped(h, block);
    if (slot >= 0) job->blocks[slot] = block;
}

static void load_segment(Heap *h, Job *job) {
    int64_t number = next_number(h, job, -1, h->owner_count);
    if (number >= 0 && !h->owners[number].exists) leave(h);
    int is_small = (int)next_number(h, job, 0, 2);
    Pool *pool = is_small ? &h->small : &h->large;
    if (number >= 0) pool = is_small ? &h->owners[number].small : &h->owners[number].large;
    int stream = (int)next_number(h, job, 0, h->streams);
    int64_t address = next_number(h, job, 0, LAST_ADDRESS), size = next_number(h, job, 1, LAST_ADDRESS);
    int64_t counter = next_number(h, job, 0, NO_LIMIT), page = next_number(h, job, 0, LAST_ADDRESS);
    Segment *segment = add_segment(h, pool, stream, address, size, page);
    segment->counter = counter;
    h->special |= segment->page > 0;
    Block *last = NULL;
    for (int64_t blocks = next_number(h, job, 1, NO_LIMIT); blocks > 0; blocks--) load_block(h, job, segment, &last);
}

/* The memory that is there at the beginning, in the order of quick_replay._state_of. */
static void load(Heap *h, Job *job) {
    if (job->state == job->state_end) return;
    int64_t *numbers[] = {&h->allocated, &h->peak_allocated, &h->reserved, &h->peak_reserved, &h->retries, &h->device_calls,
                          &h->device.used, &h->device.next_malloc, &h->device.next_virtual, &h->device.pages};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) *numbers[i] = next_number(h, job, 0, NO_LIMIT);
    for (int64_t owners = next_number(h, job, 0, NO_LIMIT); owners > 0; owners--) {
        int number = (int)next_number(h, job, 0, h->owner_count);
        pool_create(h, number);
        h->owners[number].use_count = next_number(h, job, 0, NO_LIMIT);
    }
    int64_t made = next_number(h, job, 0, NO_LIMIT);
    for (int64_t segments = next_number(h, job, 0, NO_LIMIT); segments > 0; segments--) load_segment(h, job);
    h->segments_made = made;
}

#endif
