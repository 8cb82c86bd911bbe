/* Expandable segments, as in expandable.py: ranges of addresses whose pages are mapped when needed. */
#ifndef STRIDETOOL_EXPANDABLE_H
#define STRIDETOOL_EXPANDABLE_H

#include "segments.h"

static int has_room(const Block *start, int64_t size) {
    int64_t room = 0;
    for (const Block *block = start; room < size; block = block->next) {
        room += block->size;
        if (block->next == NULL || (block->next->state != FREE && block->next->state != UNMAPPED)) break;
    }
    return room >= size;
}

/* The lowest unmapped range, or the free block left of it, from which `size` bytes are free or unmapped. */
static Block *find_range(Heap *h, Pool *pool, int stream, int64_t size) {
    const List *ranges = &shelf_of(h, pool, stream)->unmapped;
    h->work += (int64_t)ranges->count / BLOCKS_PER_EVENT;
    for (size_t i = 0; i < ranges->count; i++) {
        Block *block = ranges->at[i].block, *left = block->prev;
        Block *start = left && left->state == FREE ? left : block;
        if (has_room(start, size)) return start;
    }
    return NULL;
}

static Block *reserve_range(Heap *h, Pool *pool, int stream) {
    int64_t page = pool->is_small ? SMALL_BUFFER : h->large_segment;
    int64_t nbytes = round_up(h->total + h->total / 8, page), address = h->device.next_virtual;
    if (address > LAST_ADDRESS) leave(h);
    h->device.next_virtual += round_up(nbytes, GRANULARITY);
    Segment *segment = add_segment(h, pool, stream, address, nbytes, page);
    Block *block = new_block(h, address, nbytes, UNMAPPED, segment, NULL, NULL);
    put_unmapped(h, block);
    return block;
}

/* `block`, which stands in no list, with its neighbours of the same state. */
static Block *merge(Heap *h, Block *block) {
    void (*unlist)(Heap *, Block *) = block->state == FREE ? take : take_unmapped;
    Block *left = block->prev, *right = block->next;
    if (left && left->state == block->state) {
        unlist(h, left);
        absorb_left(h, block);
    }
    if (right == NULL || right->state != block->state) return block;
    unlist(h, right);
    absorb_left(h, right);
    return right;
}

/* Map the first `nbytes`, in whole pages, of an unmapped block: the free block that they are part of then, or NULL. */
static Block *map_front(Heap *h, Block *block, int64_t nbytes) {
    int64_t page = block->segment->page, mapped = round_up(nbytes, page);
    if (!device_map(h, mapped / page, page)) return NULL;
    take_unmapped(h, block);
    if (mapped < block->size) {
        Block *front = put_before(h, block, block->address, mapped, FREE);
        block->address += mapped;
        block->size -= mapped;
        put_unmapped(h, block);
        block = front;
    }
    block->state = FREE;
    block = merge(h, block);
    put(h, block);
    note_reserved(h, mapped);
    return block;
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static Block *expand(Heap *h, Pool *pool, int stream, int64_t size) {
    Block *block = find_range(h, pool, stream, size);
    if (block == NULL) block = reserve_range(h, pool, stream);
    if (block->state == UNMAPPED) block = map_front(h, block, smaller(block->size, size));
    while (block && block->size < size) {
        Block *following = block->next;
        if (following == NULL) return NULL; /* a device that grew may ask for more than was reserved */
        block = map_front(h, following, smaller(size - block->size, following->size));
    }
    if (block) take(h, block);
    return block;
}

/* Unmap the whole pages inside a free block; a segment that is left without any goes back altogether. */
static void unmap(Heap *h, Block *block) {
    int64_t page = block->segment->page, base = block->segment->address;
    int64_t first = round_up(block->address - base, page), end = (block->address + block->size - base) / page * page;
    if (first >= end) return;
    take(h, block);
    device_synchronize(&h->device);
    device_unmap(h, (end - first) / page, page);
    int64_t before = base + first - block->address, behind = block->address + block->size - base - end;
    if (behind) {
        Block *middle = put_before(h, block, block->address, block->size - behind, FREE);
        block->address = base + end;
        block->size = behind;
        put(h, block);
        block = middle;
    }
    if (before) {
        put(h, put_before(h, block, block->address, before, FREE));
        block->address += before;
        block->size -= before;
    }
    block->state = UNMAPPED;
    block = merge(h, block);
    note_reserved(h, first - end);
    if (is_whole(block)) drop_segment(h, block);
    else put_unmapped(h, block);
}

#endif
