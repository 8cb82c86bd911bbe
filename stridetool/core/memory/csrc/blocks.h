/* Blocks, segments, pools and their sorted lists: what blocks.py holds. */
#ifndef STRIDETOOL_BLOCKS_H
#define STRIDETOOL_BLOCKS_H

#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FREE, ALLOCATED, PENDING, UNMAPPED };

#define MIN_BLOCK 512
#define SMALL_SIZE (1 << 20)
#define SMALL_BUFFER (2 << 20)
#define MIN_LARGE_ALLOC (10 << 20)
#define ROUND_LARGE (2 << 20)
#define NO_LIMIT INT64_MAX
/* What counts as the work of one event more. */
#define ENTRIES_PER_EVENT 64 /* of a list, moved */
#define BLOCKS_PER_EVENT 16  /* looked at */

typedef struct Block Block;
typedef struct Segment Segment;
typedef struct Pool Pool;
typedef struct Owner Owner;

typedef struct Use { /* a stream that uses a block beside its own */
    struct Use *next;
    int stream;
} Use;

struct Block {
    int64_t address, size, idle_since;
    Segment *segment;
    Block *prev, *next; /* a spare one: the next spare one */
    Use *uses;
    int state, waits;
};

typedef struct { /* sorted by size, then the counter and address of the block; ranges without memory by address */
    int64_t key;
    Block *block;
} Entry;

typedef struct {
    Entry *at;
    size_t count, room;
} List;

typedef struct { /* what one stream has in a pool */
    List free, unmapped;
    int stream;
} Shelf;

struct Segment {
    int64_t address, size, counter, page;
    Pool *pool;
    Shelf *shelf;
    Segment *spare;
};

struct Pool {
    int is_small, may_release; /* whether a block became free since all that could go back went back */
    int64_t min_rest, searches;
    Shelf **shelves; /* by stream */
    size_t count, room;
    Owner *owner;
};

struct Owner { /* a private pool, blocks.PrivatePool */
    Pool small, large;
    int64_t segments, use_count;
    int exists;
};

typedef struct {
    int64_t start, size;
} Gap;

typedef struct { /* the device of sim.py */
    int64_t capacity, used, next_malloc, next_virtual, pages, serial, finished_everywhere;
    int64_t *finished; /* by stream */
    int64_t queries;   /* AT_ONCE, ON_DEMAND, or how many queries find an event unfinished */
    int first_fit, is_polled; /* whether no event ended since all were looked at */
    Gap *gaps;
    size_t gap_count, gap_room;
} Device;

typedef struct { /* a block that waits for an event */
    Block *block;
    int64_t serial, queries_left;
    int done;
} Waiting;

typedef struct {
    Waiting *at;
    size_t first, count, room; /* live ones: at[first] … at[count - 1] */
} Queue;

typedef struct Chunk {
    struct Chunk *next;
    size_t used;
    char bytes[1 << 16];
} Chunk;

typedef struct {
    Device device;
    Pool small, large;
    Owner *owners;     /* by number of the private pool */
    int *alive;        /* numbers of those that exist, in the order of their creation */
    int *active;       /* numbers of those begun and not ended */
    int owner_count, alive_count;
    size_t active_count, active_room;
    int streams;
    Queue *queues;        /* by stream */
    const int64_t *rank;  /* stream → its turn when events are polled */
    int *busy;            /* streams with a queue that is not empty, by rank */
    int busy_count;
    /* settings */
    int64_t max_split, large_segment, non_split_rounding;
    double gc_threshold;
    int expandable, throws, repaired, counts_segments, special, ages, marks;
    int64_t divisions[16];
    int divides;
    int64_t total, allowed; /* bytes; allowed < 0: no limit */
    int64_t segments_made;
    /* counters */
    int64_t allocated, peak_allocated, reserved, peak_reserved, retries, device_calls;
    int64_t work; /* of the host, about in events: what long lists and queues cost more */
    /* host memory */
    Chunk *chunks;
    Block **scratch; /* what free_blocks gives */
    size_t scratch_room;
    Block *spare_blocks;
    Segment *spare_segments;
    Use *spare_uses;
    jmp_buf stop;
} Heap;

enum { DONE, LEFT, STOPPED };

/* Leave the replay: there is no host memory, or a case that is the Python path's to judge. */
static _Noreturn void leave(Heap *h) { longjmp(h->stop, LEFT); }

static void *obtain_bytes(Heap *h, size_t nbytes) {
    if (h->chunks == NULL || h->chunks->used + nbytes > sizeof h->chunks->bytes) {
        Chunk *chunk = malloc(sizeof *chunk);
        if (chunk == NULL) leave(h);
        chunk->next = h->chunks;
        chunk->used = 0;
        h->chunks = chunk;
    }
    void *bytes = h->chunks->bytes + h->chunks->used;
    h->chunks->used += (nbytes + 15) & ~(size_t)15;
    return bytes;
}

/* Room for one more in a growing array. */
static void *with_room(Heap *h, void *array, size_t count, size_t *room, size_t each) {
    if (count < *room) return array;
    size_t more = *room ? *room * 2 : 16;
    array = realloc(array, more * each);
    if (array == NULL) leave(h);
    *room = more;
    return array;
}

static Block *new_block(Heap *h, int64_t address, int64_t size, int state, Segment *segment, Block *prev, Block *next) {
    Block *block = h->spare_blocks;
    if (block) h->spare_blocks = block->next;
    else block = obtain_bytes(h, sizeof *block);
    *block = (Block){.address = address, .size = size, .state = state, .segment = segment, .prev = prev, .next = next};
    if (prev) prev->next = block;
    if (next) next->prev = block;
    return block;
}

static void spare_block(Heap *h, Block *block) {
    block->next = h->spare_blocks;
    h->spare_blocks = block;
}

/* --- sorted lists ----------------------------------------------------------------------------------------------------- */

static int is_below(Entry a, Entry b) {
    if (a.key != b.key) return a.key < b.key;
    if (a.block->segment->counter != b.block->segment->counter) return a.block->segment->counter < b.block->segment->counter;
    return a.block->address < b.block->address;
}

static size_t position(const List *list, Entry entry, size_t high) {
    size_t low = 0;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (is_below(list->at[middle], entry)) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* The first block that is large enough. */
static size_t best_fit(const List *list, int64_t size) {
    size_t low = 0;
    for (size_t high = list->count; low < high;) {
        size_t middle = (low + high) / 2;
        if (list->at[middle].key < size) low = middle + 1;
        else high = middle;
    }
    return low;
}

static Entry entry_of(Block *block) { return (Entry){block->size, block}; }

static void insert(Heap *h, List *list, Entry entry) {
    list->at = with_room(h, list->at, list->count, &list->room, sizeof *list->at);
    size_t index = position(list, entry, list->count);
    h->work += (int64_t)(list->count - index) / ENTRIES_PER_EVENT;
    memmove(list->at + index + 1, list->at + index, (list->count++ - index) * sizeof entry);
    list->at[index] = entry;
}

static void erase(Heap *h, List *list, size_t index) {
    h->work += (int64_t)(list->count - index) / ENTRIES_PER_EVENT;
    memmove(list->at + index, list->at + index + 1, (--list->count - index) * sizeof *list->at);
}

/* The entry at `index` became smaller. */
static void move_down(Heap *h, List *list, size_t index, Entry entry) {
    size_t to = position(list, entry, index);
    h->work += (int64_t)(index - to) / ENTRIES_PER_EVENT;
    memmove(list->at + to + 1, list->at + to, (index - to) * sizeof entry);
    list->at[to] = entry;
}

static void remove_entry(Heap *h, List *list, Entry entry) {
    size_t index = position(list, entry, list->count);
    if (index == list->count || list->at[index].block != entry.block) leave(h);
    erase(h, list, index);
}

/* The shelf of a stream, made when first asked for: few streams have anything in a pool. */
static Shelf *shelf_of(Heap *h, Pool *pool, int stream) {
    size_t at = 0;
    for (size_t high = pool->count; at < high;) {
        size_t middle = (at + high) / 2;
        if (pool->shelves[middle]->stream < stream) at = middle + 1;
        else high = middle;
    }
    if (at < pool->count && pool->shelves[at]->stream == stream) return pool->shelves[at];
    pool->shelves = with_room(h, pool->shelves, pool->count, &pool->room, sizeof *pool->shelves);
    Shelf *shelf = obtain_bytes(h, sizeof *shelf);
    *shelf = (Shelf){.stream = stream};
    memmove(pool->shelves + at + 1, pool->shelves + at, (pool->count++ - at) * sizeof shelf);
    return pool->shelves[at] = shelf;
}

static void put_in_order(Heap *h, Block *block) {
    block->segment->pool->may_release = 1;
    insert(h, &block->segment->shelf->free, entry_of(block));
}

static void put(Heap *h, Block *block) {
    block->idle_since = block->segment->pool->searches;
    put_in_order(h, block);
}

static void take(Heap *h, Block *block) { remove_entry(h, &block->segment->shelf->free, entry_of(block)); }

static Entry range_of(Block *block) { return (Entry){block->address, block}; }

static void put_unmapped(Heap *h, Block *block) {
    insert(h, &block->segment->shelf->unmapped, range_of(block));
}

static void take_unmapped(Heap *h, Block *block) {
    remove_entry(h, &block->segment->shelf->unmapped, range_of(block));
}

/* `block` swallows its left neighbour, which must be out of every list. */
static void absorb_left(Heap *h, Block *block) {
    Block *left = block->prev;
    block->address = left->address;
    block->size += left->size;
    block->prev = left->prev;
    if (left->prev) left->prev->next = block;
    spare_block(h, left);
}

static Block *put_before(Heap *h, Block *block, int64_t address, int64_t size, int state) {
    return new_block(h, address, size, state, block->segment, block->prev, block);
}

static int is_whole(const Block *block) { return block->prev == NULL && block->next == NULL; }

/* Every free block, by stream, size, counter and address; valid until the next call. */
static Block **free_blocks(Heap *h, const Pool *pool, size_t *count) {
    *count = 0;
    for (size_t s = 0; s < pool->count; s++) {
        const List *list = &pool->shelves[s]->free;
        for (size_t i = 0; i < list->count; i++) {
            h->scratch = with_room(h, h->scratch, *count, &h->scratch_room, sizeof *h->scratch);
            h->scratch[(*count)++] = list->at[i].block;
        }
    }
    h->work += (int64_t)(*count + pool->count) / BLOCKS_PER_EVENT;
    return h->scratch;
}

#endif
