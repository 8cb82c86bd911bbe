/* The simulated device: capacity, addresses and events, as sim.py has them. */
#ifndef STRIDETOOL_DEVICE_H
#define STRIDETOOL_DEVICE_H

#include "blocks.h"

#define MALLOC_BASE 0x700000000000
#define VIRTUAL_BASE 0x600000000000
#define GRANULARITY (2 << 20)
#define MAX_PAGES (1 << 18)
#define LAST_ADDRESS ((int64_t)1 << 61) /* beyond it an address and a size may have no sum */

enum { AT_ONCE = -2, ON_DEMAND = -1 };

static int64_t round_up(int64_t nbytes, int64_t step) { return (nbytes + step - 1) / step * step; }

static int has_capacity(const Device *d, int64_t nbytes) { return nbytes <= d->capacity - d->used; }

/* The lowest range that nothing lies in. */
static int64_t lowest_gap(Heap *h, int64_t size) {
    Device *d = &h->device;
    h->work += (int64_t)d->gap_count / ENTRIES_PER_EVENT;
    for (size_t i = 0; i < d->gap_count; i++) {
        Gap *gap = &d->gaps[i];
        if (gap->size < size) continue;
        int64_t start = gap->start;
        gap->start += size;
        gap->size -= size;
        if (gap->size == 0) memmove(gap, gap + 1, (--d->gap_count - i) * sizeof *gap);
        return start;
    }
    return d->next_malloc;
}

/* A gap, one with those that it touches, or with the free end of the address space. */
static void leave_gap(Heap *h, int64_t start, int64_t size) {
    Device *d = &h->device;
    size_t index = 0;
    while (index < d->gap_count && d->gaps[index].start <= start) index++;
    if (index < d->gap_count && d->gaps[index].start == start + size) {
        size += d->gaps[index].size;
        memmove(d->gaps + index, d->gaps + index + 1, (--d->gap_count - index) * sizeof(Gap));
    }
    if (index && d->gaps[index - 1].start + d->gaps[index - 1].size == start) {
        index--;
        start = d->gaps[index].start;
        size += d->gaps[index].size;
        memmove(d->gaps + index, d->gaps + index + 1, (--d->gap_count - index) * sizeof(Gap));
    }
    if (start + size == d->next_malloc) {
        d->next_malloc = start;
        return;
    }
    d->gaps = with_room(h, d->gaps, d->gap_count, &d->gap_room, sizeof(Gap));
    memmove(d->gaps + index + 1, d->gaps + index, (d->gap_count++ - index) * sizeof(Gap));
    d->gaps[index] = (Gap){start, size};
}

/* An address, or -1 when the device is full. */
static int64_t device_malloc(Heap *h, int64_t nbytes) {
    Device *d = &h->device;
    int64_t size = round_up(nbytes, GRANULARITY);
    if (!has_capacity(d, size)) return -1;
    d->used += size;
    int64_t address = d->first_fit ? lowest_gap(h, size) : d->next_malloc;
    if (address > LAST_ADDRESS) leave(h);
    if (address + size > d->next_malloc) d->next_malloc = address + size;
    return address;
}

static void device_free(Heap *h, int64_t address, int64_t nbytes) {
    int64_t size = round_up(nbytes, GRANULARITY);
    h->device.used -= size;
    if (h->device.first_fit) leave_gap(h, address, size);
}

/* Physical memory for so many pages: all or none. */
static int device_map(Heap *h, int64_t pages, int64_t page) {
    Device *d = &h->device;
    int64_t each = round_up(page, GRANULARITY);
    int64_t fitting = (d->capacity - d->used) / each;
    if (d->pages + (pages < fitting ? pages : fitting + 1) > MAX_PAGES) leave(h);
    if (d->used > d->capacity || pages > fitting) return 0;
    d->used += pages * each;
    d->pages += pages;
    return 1;
}

static void device_unmap(Heap *h, int64_t pages, int64_t page) {
    h->device.used -= pages * round_up(page, GRANULARITY);
    h->device.pages -= pages;
}

static void device_complete(Device *d, int64_t *finished) {
    *finished = d->serial;
    d->is_polled = 0;
}

static void device_synchronize(Device *d) { device_complete(d, &d->finished_everywhere); }

static Waiting record_event(Device *d, Block *block) {
    return (Waiting){block, ++d->serial, d->queries, d->queries == AT_ONCE};
}

static int query_event(const Device *d, Waiting *event, int stream) {
    if (!event->done) {
        int64_t finished = d->finished[stream];
        if (d->finished_everywhere > finished) finished = d->finished_everywhere;
        event->done = event->serial <= finished || event->queries_left == 0;
        event->queries_left--;
    }
    return event->done;
}

#endif
