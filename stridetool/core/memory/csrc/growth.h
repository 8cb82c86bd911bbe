/* New memory and what is given back for it: growth.py, expandable.py, streams.py and private.py, rule for rule. */
#ifndef STRIDETOOL_GROWTH_H
#define STRIDETOOL_GROWTH_H

#include "device.h"

static void heap_free(Heap *h, Block *block);
static size_t choose(const Heap *h, const List *free, size_t index, int64_t size);

static void note_reserved(Heap *h, int64_t change) {
    h->reserved += change;
    h->device_calls++;
    if (h->reserved > h->peak_reserved) h->peak_reserved = h->reserved;
}

/* --- streams ----------------------------------------------------------------------------------------------------------- */

static void become_busy(Heap *h, int stream) {
    int at = h->busy_count++;
    for (; at > 0 && h->place[h->busy[at - 1]] > h->place[stream]; at--) h->busy[at] = h->busy[at - 1];
    h->busy[at] = stream;
}

static void become_idle(Heap *h, int at) {
    Queue *queue = &h->queues[h->busy[at]];
    queue->first = queue->count = 0;
    memmove(h->busy + at, h->busy + at + 1, (size_t)(--h->busy_count - at) * sizeof *h->busy);
}

static void push(Heap *h, int stream, Waiting event) {
    Queue *queue = &h->queues[stream];
    if (queue->first == queue->count) become_busy(h, stream);
    if (queue->first && queue->count == queue->room) {
        queue->count -= queue->first;
        memmove(queue->at, queue->at + queue->first, queue->count * sizeof event);
        queue->first = 0;
    }
    queue->at = with_room(h, queue->at, queue->count, &queue->room, sizeof event);
    queue->at[queue->count++] = event;
}

/* A freed block waits for each stream that used it. */
static void wait_for_uses(Heap *h, Block *block) {
    block->state = PENDING;
    while (block->uses) {
        Use *use = block->uses;
        block->uses = use->next;
        block->waits++;
        push(h, use->stream, record_event(&h->device, block));
        use->next = h->spare_uses;
        h->spare_uses = use;
    }
}

static void finish(Heap *h, Block *block) {
    if (--block->waits == 0) heap_free(h, block);
}

static void process_events(Heap *h) {
    for (int at = 0; at < h->busy_count;) {
        int stream = h->busy[at];
        Queue *queue = &h->queues[stream];
        while (queue->first < queue->count && query_event(&h->device, &queue->at[queue->first], stream))
            finish(h, queue->at[queue->first++].block);
        if (queue->first == queue->count) become_idle(h, at);
        else at++;
    }
}

/* Wait for every event (of the blocks of `owner`, unless NULL). */
static void synchronize(Heap *h, const Owner *owner) {
    for (int at = 0; at < h->busy_count;) {
        Queue *queue = &h->queues[h->busy[at]];
        size_t kept = queue->first;
        for (size_t i = queue->first; i < queue->count; i++) {
            Waiting event = queue->at[i];
            if (owner && event.block->segment->pool->owner != owner) queue->at[kept++] = event;
            else finish(h, event.block);
        }
        queue->count = kept;
        if (queue->first == queue->count) become_idle(h, at);
        else at++;
    }
}

/* --- segments ---------------------------------------------------------------------------------------------------------- */

static int64_t segment_size(const Heap *h, int64_t size) {
    if (size <= SMALL_SIZE) return SMALL_BUFFER;
    if (size < MIN_LARGE_ALLOC) return h->large_segment;
    return round_up(size, ROUND_LARGE);
}

static Segment *add_segment(Heap *h, Pool *pool, int stream, int64_t address, int64_t size, int64_t page) {
    Segment *segment = h->spare_segments;
    if (segment) h->spare_segments = (Segment *)segment->free;
    else segment = obtain_bytes(h, sizeof *segment);
    h->segments_made++;
    *segment = (Segment){address, size, h->counts_segments ? h->segments_made : 0, page, pool, &pool->free[stream], stream, 0};
    if (pool->owner) pool->owner->segments++;
    return segment;
}

/* A segment that went back. One in which blocks remain (freed by its front alone) is only marked. */
static void drop_segment(Heap *h, Block *block) {
    Segment *segment = block->segment;
    if (segment->gone) leave(h);
    segment->gone = 1;
    if (segment->pool->owner) segment->pool->owner->segments--;
    if (!is_whole(block)) return;
    spare_block(h, block);
    segment->free = (List *)h->spare_segments;
    h->spare_segments = segment;
}

static void release_segment(Heap *h, Block *block) {
    Segment *segment = block->segment;
    if (segment->gone) leave(h);
    take(h, block);
    device_free(h, segment->address, segment->size);
    note_reserved(h, -block->size);
    drop_segment(h, block);
}

/* --- expandable segments ----------------------------------------------------------------------------------------------- */

static int has_room(const Block *start, int64_t size) {
    int64_t room = 0;
    for (const Block *block = start; room < size; block = block->next) {
        room += block->size;
        if (block->next == NULL || (block->next->state != FREE && block->next->state != UNMAPPED)) break;
    }
    return room >= size;
}

/* The lowest unmapped range, or the free block left of it, from which `size` bytes are free or unmapped. */
static Block *find_range(const Pool *pool, int stream, int64_t size) {
    const List *ranges = &pool->unmapped[stream];
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
    Block *block = find_range(pool, stream, size);
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

/* --- giving back ------------------------------------------------------------------------------------------------------- */

static void release_pool(Heap *h, Pool *pool) {
    size_t count;
    Block **blocks = free_blocks(h, pool, &count);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (blocks[i]->segment->page) blocks[kept++] = blocks[i];
        else if (is_whole(blocks[i])) release_segment(h, blocks[i]);
    }
    for (size_t i = 0; i < kept; i++) unmap(h, blocks[i]);
}

static void drop_ranges(Heap *h, Pool *pool) {
    for (int stream = 0; stream < h->allocating_streams; stream++) {
        List *ranges = &pool->unmapped[stream];
        for (size_t i = 0; i < ranges->count; i++)
            if (is_whole(ranges->at[i].block)) drop_segment(h, ranges->at[i].block);
        ranges->count = 0;
    }
}

static int64_t empty_ranges(const Heap *h, const Pool *pool) {
    int64_t count = 0;
    for (int stream = 0; stream < h->allocating_streams; stream++)
        for (size_t i = 0; i < pool->unmapped[stream].count; i++) count += is_whole(pool->unmapped[stream].at[i].block);
    return count;
}

/* Whether the pool is no more. */
static int release_owner(Heap *h, Owner *owner) {
    release_pool(h, &owner->small);
    release_pool(h, &owner->large);
    if (owner->segments != empty_ranges(h, &owner->small) + empty_ranges(h, &owner->large)) return 0;
    drop_ranges(h, &owner->small);
    drop_ranges(h, &owner->large);
    owner->exists = 0;
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

/* With a max_split_size: release one block that is large enough, or the largest oversize ones of the stream. */
static int release_available(Heap *h, Pool *pool, int stream, int64_t size) {
    if (h->max_split == NO_LIMIT) return 0;
    List *free = &pool->free[stream];
    int64_t need = size > h->max_split ? size : h->max_split, released = 0;
    size_t index = best_fit(free, need);
    if (index < free->count && !free->at[index].block->segment->page) {
        release_segment(h, free->at[index].block);
        return 1;
    }
    while (index-- > 0 && released < need && free->at[index].size >= h->max_split)
        if (!free->at[index].block->segment->page) {
            released += free->at[index].size;
            release_segment(h, free->at[index].block);
        }
    return released >= need;
}

static void collect_garbage(Heap *h) {
    int64_t excess = h->reserved - (int64_t)(h->gc_threshold * (double)h->allowed), searches = h->large.searches, ages = 0;
    if (excess <= 0) return;
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

/* --- growing ----------------------------------------------------------------------------------------------------------- */

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
    List *free = &pool->free[stream];
    size_t index = choose(h, free, best_fit(free, size), size);
    if (index == free->count) return NONE;
    *block = free->at[index].block;
    erase(free, index);
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
