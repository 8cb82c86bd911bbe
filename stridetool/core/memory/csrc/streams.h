/* Blocks that several streams use, as in streams.py: their free waits for an event of each. */
#ifndef STRIDETOOL_STREAMS_H
#define STRIDETOOL_STREAMS_H

#include "device.h"

static void heap_free(Heap *h, Block *block);

static void become_busy(Heap *h, int stream) {
    int at = h->busy_count++;
    for (; at > 0 && h->rank[h->busy[at - 1]] > h->rank[stream]; at--) h->busy[at] = h->busy[at - 1];
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
    if (h->device.queries == ON_DEMAND && h->device.is_polled) return;
    h->device.is_polled = 1;
    h->work += h->busy_count / BLOCKS_PER_EVENT;
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

#endif
