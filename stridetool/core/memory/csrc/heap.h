/* Best fit, splitting and merging, as in heap.py. */
#ifndef STRIDETOOL_HEAP_H
#define STRIDETOOL_HEAP_H

#include "growth.h"

static int bit_length(int64_t value) { return 64 - __builtin_clzll((unsigned long long)value); }

static int64_t round_size(const Heap *h, int64_t nbytes) {
    if (h->divides && nbytes >= MIN_BLOCK) {
        int bits = bit_length(nbytes), bucket = bits - 21;
        int64_t pieces = h->divisions[bucket < 0 ? 0 : bucket > 15 ? 15 : bucket];
        if (pieces > 1 && pieces <= (nbytes - 1) / MIN_BLOCK) {
            int64_t low = (int64_t)1 << (bits - 1), step = low / pieces;
            if (nbytes == low) return nbytes;
            return step ? round_up(nbytes, step) : low << 1;
        }
    }
    return round_up(nbytes, MIN_BLOCK);
}

/* Of the expandable blocks from `index` on, the first that can expand less far than its successor. */
static size_t least_room(const List *blocks, size_t index) {
    int64_t least = NO_LIMIT;
    for (size_t at = index; at < blocks->count; at++) {
        const Block *block = blocks->at[at].block, *right = block->next;
        int64_t room = block->size + (right && right->state == UNMAPPED ? right->size : 0);
        if (room >= least) return at - 1;
        if (block->segment->page == 0) return at;
        least = room;
    }
    return blocks->count - 1;
}

/* The index of the block to take, from the first one that is large enough on; blocks->count for none. */
static size_t choose(const Heap *h, const List *blocks, size_t index, int64_t size) {
    if (index == blocks->count) return index;
    int is_expandable = blocks->at[index].block->segment->page > 0;
    if (is_expandable && h->expandable) index = least_room(blocks, index);
    else if (is_expandable) {
        while (index < blocks->count && blocks->at[index].block->segment->page) index++;
        if (index == blocks->count) return index;
    }
    if (h->repaired && blocks->at[index].block->segment->page) return index;
    int64_t limit = size < h->max_split ? h->max_split : size + h->non_split_rounding;
    return blocks->at[index].key >= limit ? blocks->count : index;
}

/* A block, or NULL when memory ran out. */
static Block *heap_malloc(Heap *h, int64_t nbytes, int stream) {
    if (h->busy_count) process_events(h);
    int64_t size = round_size(h, nbytes);
    Pool *pool = &h->small;
    if (h->active_count) pool = &h->owners[h->active[h->active_count - 1]].small;
    if (size > SMALL_SIZE) pool = h->active_count ? &h->owners[h->active[h->active_count - 1]].large : &h->large;
    if (h->ages) pool->searches++;

    List *blocks = &shelf_of(h, pool, stream)->free;
    size_t index = best_fit(blocks, size);
    if (h->special) index = choose(h, blocks, index, size);
    int is_new = index == blocks->count;
    Block *block = is_new ? grow(h, pool, stream, size) : blocks->at[index].block;
    if (block == NULL) return NULL;

    Segment *segment = block->segment;
    pool = segment->pool;
    blocks = &segment->shelf->free;
    int64_t rest = block->size - size;
    if (rest >= pool->min_rest && (size < h->max_split || pool->min_rest == MIN_BLOCK)) {
        Block *front = put_before(h, block, block->address, size, ALLOCATED);
        block->address += size;
        block->size = rest;
        if (is_new) insert(h, blocks, entry_of(block));
        else move_down(h, blocks, index, entry_of(block));
        if (h->marks) block->idle_since = pool->searches;
        block = front;
    } else {
        if (!is_new) erase(h, blocks, index);
        block->state = ALLOCATED;
    }
    h->allocated += block->size;
    if (h->allocated > h->peak_allocated) h->peak_allocated = h->allocated;
    return block;
}

static void heap_free(Heap *h, Block *block) {
    if (block->state == ALLOCATED) {
        h->allocated -= block->size;
        if (block->uses) {
            wait_for_uses(h, block);
            return;
        }
    }
    block->state = FREE;
    if (block->prev && block->prev->state == FREE) {
        take(h, block->prev);
        absorb_left(h, block);
    }
    Block *right = block->next;
    if (right && right->state == FREE) {
        take(h, right);
        absorb_left(h, right);
        block = right;
    }
    put_in_order(h, block);
    if (h->marks) block->idle_since = block->segment->pool->searches;
}

static void record_stream(Heap *h, Block *block, int stream) {
    if (stream == block->segment->shelf->stream || block->state != ALLOCATED) return;
    Use **end = &block->uses;
    for (; *end; end = &(*end)->next)
        if ((*end)->stream == stream) return;
    Use *use = h->spare_uses;
    if (use) h->spare_uses = use->next;
    else use = obtain_bytes(h, sizeof *use);
    *use = (Use){NULL, stream};
    *end = use;
}

static void set_fraction(Heap *h, double fraction) {
    h->allowed = fraction < 1.0 ? (int64_t)(fraction * (double)h->device.capacity) : -1;
    h->ages = h->allowed >= 0 && h->gc_threshold > 0;
    h->marks |= h->ages;
}

#endif
