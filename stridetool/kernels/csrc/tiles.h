/* What the tile loop of one copy shares between its tiles and threads: where each tile lies, how it is packed,
 * and which source lines the next tile will read. */
#ifndef STRIDETOOL_TILES_H
#define STRIDETOOL_TILES_H

#include <stdlib.h>
#include "plan.h"

enum { MAX_LINES = 8192 };

typedef struct {
    ptrdiff_t total;              /* tiles in all */
    ptrdiff_t count[MAX_DIMS];    /* tiles along each dimension */
    ptrdiff_t first[MAX_DIMS];    /* extent of the first one, so that the others start on a destination line */
    ptrdiff_t bs[MAX_DIMS];       /* strides of the packed tile */
    ptrdiff_t buffer_bytes;
    int direct;                   /* long aligned rows need no packing */
    int nlines;                   /* source lines of a tile */
    ptrdiff_t *lines;             /* their offsets from the tile's first source element */
    ptrdiff_t step;               /* bytes packed or flushed per line to prefetch */
} Tiles;

/* Prefetches into the second cache keep pace with the bytes moved, so that some are always on their way. */
typedef struct {
    const char *base;
    const ptrdiff_t *lines;
    int left;
    ptrdiff_t step, due; /* bytes of progress per line, and progress since the last one */
} Prefetch;

static inline void progress(Prefetch *next, ptrdiff_t nbytes) {
    for (next->due += nbytes; next->due >= next->step && next->left > 0; next->due -= next->step, next->left--)
        __builtin_prefetch(next->base + *next->lines++, 0, 2);
}

static void tiles_count(const Plan *plan, Tiles *tiles, const char *dst) {
    tiles->total = 1;
    int cut = plan->chain;
    for (int i = 0; i < plan->nd; i++) {
        ptrdiff_t tile = plan->tile[i], first = tile;
        if (i == cut && plan->streams && plan->ds[i] < 64 && 64 % plan->ds[i] == 0) {
            ptrdiff_t lead = (ptrdiff_t)(-(uintptr_t)dst & 63);
            if (lead && lead % plan->ds[i] == 0 && lead / plan->ds[i] < tile) first = lead / plan->ds[i];
        }
        tiles->first[i] = least(first, plan->n[i]);
        tiles->count[i] = 1 + ceil_div(plan->n[i] - tiles->first[i], tile);
        tiles->total *= tiles->count[i];
    }
}

static inline void tile_at(const Plan *plan, const Tiles *tiles, ptrdiff_t t, ptrdiff_t *extent, ptrdiff_t *d, ptrdiff_t *s) {
    *d = *s = 0;
    for (int j = 0; j < plan->nd; j++) {
        int i = plan->order[j];
        ptrdiff_t c = t % tiles->count[i], start = c ? tiles->first[i] + (c - 1) * plan->tile[i] : 0;
        t /= tiles->count[i];
        extent[i] = c ? least(plan->tile[i], plan->n[i] - start) : tiles->first[i];
        *d += start * plan->ds[i];
        *s += start * plan->ss[i];
    }
}

/* Rows of the packed tile lie back to back while the destination's do; other rows are a line further apart when
 * they would all fall into the same cache sets. */
static void tiles_pack(const Plan *plan, Tiles *tiles) {
    ptrdiff_t stride = plan->width;
    for (int i = 0; i < plan->nd; i++) {
        tiles->bs[i] = stride;
        stride *= plan->tile[i];
        if (i == plan->chain && stride % 512 == 0) stride += 64;
    }
    tiles->buffer_bytes = stride;
}

static void tiles_lines(const Plan *plan, Tiles *tiles, const char *src) {
    ptrdiff_t span = plan->width, low = 0, at[MAX_DIMS], offset = 0;
    int outer[MAX_DIMS], no = 0, whole = 1;
    for (int j = 0; j < plan->nd; j++) {
        int i = plan->order[j];
        ptrdiff_t step = size_of(plan->ss[i]);
        if (step && step <= span + 64 && no == 0 && plan->tile[i] > 1) {
            span += (plan->tile[i] - 1) * step;
            if (plan->ss[i] < 0) low += (plan->tile[i] - 1) * plan->ss[i];
        } else if (step) {
            whole &= step % 64 == 0;
            if (plan->tile[i] > 1) outer[no++] = i;
        }
    }
    for (int j = 0; j < no; j++) at[j] = 0;
    ptrdiff_t lead = whole ? (ptrdiff_t)((uintptr_t)(src + low) & 63) : 63;
    ptrdiff_t per_run = ceil_div(lead + span, 64);
    tiles->nlines = 0;
    for (;;) {
        for (ptrdiff_t line = 0; line < per_run && tiles->nlines < MAX_LINES; line++)
            tiles->lines[tiles->nlines++] = low + offset + least(line * 64, most(span - 1, 0));
        int j = 0;
        for (; j < no; j++) {
            offset += plan->ss[outer[j]];
            if (++at[j] < plan->tile[outer[j]]) break;
            offset -= plan->ss[outer[j]] * plan->tile[outer[j]];
            at[j] = 0;
        }
        if (j == no || tiles->nlines == MAX_LINES) break;
    }
    int gathers = plan->kind == STRIDED || (plan->kind == TRANSPOSE && plan->n[plan->across] * plan->width < 16);
    int paced = gathers ? 2 : 1; /* they report their progress while packing, too */
    tiles->step = most(1, tile_bytes(plan) * paced / tiles->nlines);
}

static Prefetch prefetch_tile(const Plan *plan, const Tiles *tiles, ptrdiff_t t, const char *src) {
    ptrdiff_t extent[MAX_DIMS], d, s;
    tile_at(plan, tiles, t, extent, &d, &s);
    return (Prefetch){src + s, tiles->lines, tiles->nlines, tiles->step, 0};
}

/* Rows that are long and whole lines on the destination's side go straight there. */
static int tiles_direct(const Plan *plan, const char *dst) {
    if (plan->kind != ROWS && plan->kind != SPLAT) return 0;
    if (((uintptr_t)dst & 63) || plan->n[0] * plan->width % 64 || plan->n[0] * plan->width < 512) return 0;
    for (int i = 1; i < plan->nd; i++)
        if (plan->ds[i] % 64) return 0;
    return 1;
}

#endif
