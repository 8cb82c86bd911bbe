/* Pools, and the private ones of a program, as in private.py. */
#ifndef STRIDETOOL_PRIVATE_H
#define STRIDETOOL_PRIVATE_H

#include "growth.h"

static void open_pool(const Heap *h, Pool *pool, int is_small, Owner *owner) {
    pool->is_small = is_small;
    pool->min_rest = is_small || h->expandable ? MIN_BLOCK : SMALL_SIZE + MIN_BLOCK;
    pool->searches = 0;
    pool->owner = owner;
}

static void pool_create(Heap *h, int number) {
    Owner *owner = &h->owners[number];
    if (!owner->exists) {
        owner->exists = 1;
        owner->segments = owner->use_count = 0;
        open_pool(h, &owner->small, 1, owner);
        open_pool(h, &owner->large, 0, owner);
        h->alive[h->alive_count++] = number;
    }
    owner->use_count++;
}

static void pool_begin(Heap *h, int number) {
    if (!h->owners[number].exists) leave(h);
    h->owners[number].use_count++;
    h->active = with_room(h, h->active, h->active_count, &h->active_room, sizeof *h->active);
    h->active[h->active_count++] = number;
}

static void pool_end(Heap *h, int number) {
    h->work += (int64_t)h->active_count / ENTRIES_PER_EVENT;
    size_t at = h->active_count;
    while (at > 0 && h->active[at - 1] != number) at--;
    if (at == 0) leave(h);
    memmove(h->active + at - 1, h->active + at, (h->active_count-- - at) * sizeof *h->active);
    h->owners[number].use_count--;
}

static void pool_destroy(Heap *h, int number) {
    Owner *owner = &h->owners[number];
    if (!owner->exists || owner->use_count == 0) leave(h);
    if (--owner->use_count) return;
    synchronize(h, owner);
    release_owner(h, owner);
}

#endif
