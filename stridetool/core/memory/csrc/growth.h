/* New memory, and what is given back for it, as in growth.py: torch's order of attempts when no cached block fits. */
#ifndef STRIDETOOL_GROWTH_H
#define STRIDETOOL_GROWTH_H

#include "expandable.h"
#include "streams.h"

static size_t choose(const Heap *h, const List *blocks, size_t index, int64_t size);

static void release_pool(Heap *h, Pool *pool) {
    if (!pool->may_release) return;
    size_t count;
    Block **blocks = free_blocks(h, pool, &count);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (blocks[i]->segment->page) blocks[kept++] = blocks[i];
        else if (is_whole(blocks[i])) release_segment(h, blocks[i]);
    }
    for (size_t i = 0; i < kept; i++) unmap(h, blocks[i]);
    pool->may_release = 0;
}

static void drop_ranges(Heap *h, Pool *pool) {
    for (size_t s = 0; s < pool->count; s++) {
        List *ranges = &pool->shelves[s]->unmapped;
        for (size_t i = 0; i < ranges->count; i++)
            if (is_whole(ranges->at[i].block)) drop_segment(h, ranges->at[i].block);
        ranges->count = 0;
    }
}

static int64_t empty_ranges(const Pool *pool) {
    int64_t count = 0;
    for (size_t s = 0; s < pool->count; s++)
        for (size_t i = 0; i < pool->shelves[s]->unmapped.count; i++) count += is_whole(pool->shelves[s]->unmapped.at[i].block);
    return count;
}

/* Whether the pool is no more. */
static int release_owner(Heap *h, Owner *owner) {
    release_pool(h, &owner->small);
    release_pool(h, &owner->large);
    if (owner->segments != empty_ranges(&owner->small) + empty_ranges(&owner->large)) return 0;
    drop_ranges(h, &owner->small);
    drop_ranges(h, &owner->large);
    for (size_t i = 0; i < h->active_count; i++)
        if (&h->owners[h->active[i]] == owner) leave(h); /* destroyed more often than ended */
    owner->exists = 0;
    h->work += h->alive_count / ENTRIES_PER_EVENT;
    for (int i = 0; i < h->alive_count; i++)
        if (&h->owners[h->alive[i]] == owner) {
            memmove(h->alive + i, h->alive + i + 1, (size_t)(--h->alive_count - i) * sizeof *h->alive);
            break;
        }
    return 1;
}

static void release_cached(Heap *h) {
    synchronize(h, NULL);
    release_pool(h, &h->large);
    release_pool(h, &h->small);
    for (int i = 0; i < h->alive_count;) {
        Owner *owner = &h->owners[h->alive[i]];
        if (owner->use_count || !release_owner(h, owner)) i++;
    }
}

static int is_releasable(const Block *block) { return block->segment->page == 0 && is_whole(block); }

/* With a max_split_size: release one block that is large enough, or the largest oversize ones of the stream. */
static int release_available(Heap *h, Pool *pool, int stream, int64_t size) {
    if (h->max_split == NO_LIMIT) return 0;
    List *blocks = &shelf_of(h, pool, stream)->free;
    int64_t need = size > h->max_split ? size : h->max_split, released = 0;
    size_t index = best_fit(blocks, need);
    if (index < blocks->count && is_releasable(blocks->at[index].block)) {
        release_segment(h, blocks->at[index].block);
        return 1;
    }
    while (index-- > 0 && released < need && blocks->at[index].key >= h->max_split)
        if (is_releasable(blocks->at[index].block)) {
            released += blocks->at[index].key;
            release_segment(h, blocks->at[index].block);
        }
    return released >= need;
}

static void collect_garbage(Heap *h) {
    int64_t excess = h->reserved - (int64_t)(h->gc_threshold * (double)h->allowed), searches = h->large.searches, ages = 0;
    if (excess <= 0 || !h->large.may_release) return;
    size_t count, kept = 0;
    Block **idle = free_blocks(h, &h->large, &count);
    for (size_t i = 0; i < count; i++)
        if (is_whole(idle[i])) {
            ages += searches - idle[i]->idle_since;
            idle[kept++] = idle[i];
        }
    for (count = kept; excess > 0 && count; count = kept) {
        double average = (double)ages / (double)count;
        kept = 0;
        for (size_t i = 0; i < count; i++) {
            int64_t age = searches - idle[i]->idle_since;
            if (idle[i]->segment->page || (double)age < average) {
                idle[kept++] = idle[i];
                continue;
            }
            excess -= idle[i]->size;
            ages -= age;
            release_segment(h, idle[i]);
        }
        if (kept == count) break;
    }
}

typedef enum { NONE, OBTAINED, REJECTED } Grown;

static Grown obtain(Heap *h, Pool *pool, int stream, int64_t size, Block **block) {
    int64_t nbytes = segment_size(h, size), limit = h->allowed;
    if (limit < 0 && h->throws) limit = h->total;
    if (limit >= 0 && h->reserved + nbytes > limit) return h->throws ? REJECTED : NONE;
    if (h->expandable) {
        *block = expand(h, pool, stream, size);
        return *block ? OBTAINED : NONE;
    }
    int64_t address = device_malloc(h, nbytes);
    if (address < 0) return NONE;
    Segment *segment = add_segment(h, pool, stream, address, nbytes, 0);
    note_reserved(h, nbytes);
    *block = new_block(h, address, nbytes, FREE, segment, NULL, NULL);
    return OBTAINED;
}

/* The repair of pytorch#189504. */
static Grown search_again(Heap *h, Pool *pool, int stream, int64_t size, Block **block) {
    if (!h->repaired) return NONE;
    List *blocks = &shelf_of(h, pool, stream)->free;
    size_t index = choose(h, blocks, best_fit(blocks, size), size);
    if (index == blocks->count) return NONE;
    *block = blocks->at[index].block;
    erase(h, blocks, index);
    return OBTAINED;
}

/* A free block of at least `size` bytes that stands in no list, or NULL. */
static Block *grow(Heap *h, Pool *pool, int stream, int64_t size) {
    Block *block = NULL;
    if (h->allowed >= 0 && h->gc_threshold > 0) collect_garbage(h);
    Grown grown = obtain(h, pool, stream, size, &block);
    if (grown == NONE && release_available(h, pool, stream, size)) {
        grown = search_again(h, pool, stream, size, &block);
        if (grown == NONE) grown = obtain(h, pool, stream, size, &block);
    }
    if (grown == NONE) {
        release_cached(h);
        grown = search_again(h, pool, stream, size, &block);
    }
    if (grown == NONE) {
        h->retries++;
        obtain(h, pool, stream, size, &block);
    }
    return block;
}

#endif
