/* The copy plan in C: the same rules, step for step, as stridetool/core/plan.py, for calls that must cost
 * less than a microsecond. A test compares the two on random layouts. Strides are in bytes; dimension 0 is
 * the innermost one of the destination. */
#ifndef STRIDETOOL_PLAN_H
#define STRIDETOOL_PLAN_H

#include <stddef.h>
#include <stdint.h>

enum { MAX_DIMS = 66 }; /* 64 of the buffer protocol, one for an odd item size, one spare */
enum { DST_RUN = 512, SRC_RUN = 1024, TILE_CAP = 131072, TILE_GROW = 16384 };
static const size_t STREAM_BYTES = 3u << 20; /* beyond this, stores go around the caches */
static const ptrdiff_t STREAM_RUN = 128;     /* ... when the destination comes in runs of at least this */

typedef enum { EMPTY, RUN, ROWS, SPLAT, TRANSPOSE, STRIDED, GENERIC } Kind;

typedef struct {
    Kind kind;
    int nd;             /* dimensions left after normalising */
    int across;         /* the second dimension that kernels walk, or 0 where there is none */
    int chain;          /* destination runs cover the dimensions 0..chain of a tile */
    int streams;        /* whether stores go around the caches */
    ptrdiff_t width;    /* bytes of the widened element */
    ptrdiff_t nbytes;   /* bytes written */
    ptrdiff_t dst_shift, src_shift; /* bytes from the given addresses to the first element visited */
    ptrdiff_t n[MAX_DIMS], ds[MAX_DIMS], ss[MAX_DIMS], tile[MAX_DIMS];
    int order[MAX_DIMS]; /* tile loops, innermost first: the order of the source */
} Plan;

static inline ptrdiff_t least(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
static inline ptrdiff_t most(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }
static inline ptrdiff_t size_of(ptrdiff_t stride) { return stride < 0 ? -stride : stride; }
static inline ptrdiff_t ceil_div(ptrdiff_t a, ptrdiff_t b) { return (a + b - 1) / b; }

/* --- normalise: drop, flip, sort, coalesce, widen -------------------------------------------------- */

static void plan_add(Plan *p, ptrdiff_t n, ptrdiff_t ds, ptrdiff_t ss) {
    if (n == 1) return;
    if (ds < 0) {
        p->dst_shift += (n - 1) * ds;
        p->src_shift += (n - 1) * ss;
        ds = -ds;
        ss = -ss;
    }
    int at = p->nd++; /* insertion sort by destination stride; few dimensions, no call */
    for (; at > 0 && p->ds[at - 1] > ds; at--) {
        p->n[at] = p->n[at - 1];
        p->ds[at] = p->ds[at - 1];
        p->ss[at] = p->ss[at - 1];
    }
    p->n[at] = n;
    p->ds[at] = ds;
    p->ss[at] = ss;
}

static void plan_remove(Plan *p, int at) {
    p->nd--;
    for (int i = at; i < p->nd; i++) {
        p->n[i] = p->n[i + 1];
        p->ds[i] = p->ds[i + 1];
        p->ss[i] = p->ss[i + 1];
    }
}

static void plan_coalesce(Plan *p) {
    for (int i = 1; i < p->nd;) {
        if (p->ds[i] == p->ds[i - 1] * p->n[i - 1] && p->ss[i] == p->ss[i - 1] * p->n[i - 1]) {
            p->n[i - 1] *= p->n[i];
            plan_remove(p, i);
        } else {
            i++;
        }
    }
}

static int is_width(ptrdiff_t nbytes) {
    return nbytes == 1 || nbytes == 2 || nbytes == 4 || nbytes == 8 || nbytes == 16;
}

static void plan_widen(Plan *p) {
    while (p->nd && p->ds[0] == p->width && p->ss[0] == p->width && is_width(p->n[0] * p->width)) {
        p->width *= p->n[0];
        plan_remove(p, 0);
    }
}

/* --- classify ---------------------------------------------------------------------------------------- */

static int source_inner(const Plan *p) { /* the dimension, not 0, along which the source is contiguous */
    for (int i = 1; i < p->nd; i++)
        if (size_of(p->ss[i]) == p->width) return i;
    return 0;
}

static void plan_classify(Plan *p) {
    p->across = 0;
    if (p->nd == 0) p->kind = RUN;
    else if (p->ds[0] != p->width) p->kind = GENERIC;
    else if (p->ss[0] == p->width) p->kind = p->nd == 1 ? RUN : ROWS;
    else if (p->ss[0] == 0) p->kind = SPLAT;
    else p->kind = (p->across = source_inner(p)) ? TRANSPOSE : STRIDED;
}

/* --- tile ---------------------------------------------------------------------------------------------- */

static void plan_order(Plan *p) { /* a splat has hardly a source: it keeps the order of the destination */
    for (int i = 0; i < p->nd; i++) {
        int at = i;
        for (; at > 0 && p->kind != SPLAT && size_of(p->ss[p->order[at - 1]]) > size_of(p->ss[i]); at--) p->order[at] = p->order[at - 1];
        p->order[at] = i;
    }
}

static ptrdiff_t tile_bytes(const Plan *p) {
    ptrdiff_t total = p->width;
    for (int i = 0; i < p->nd; i++) total *= p->tile[i];
    return total;
}

static void tile_destination(Plan *p, ptrdiff_t target) {
    ptrdiff_t run = p->width;
    for (int i = 0; i < p->nd && run < target; i++) {
        if (i > 0 && p->ds[i] != p->ds[i - 1] * p->n[i - 1]) break;
        p->tile[i] = most(p->tile[i], least(p->n[i], ceil_div(target, run)));
        run *= p->tile[i];
        if (p->tile[i] < p->n[i]) break;
    }
}

static void tile_source(Plan *p, ptrdiff_t target) {
    ptrdiff_t span = p->width;
    for (int j = 0; j < p->nd && span < target; j++) {
        int i = p->order[j];
        if (p->ss[i] == 0) continue;
        p->tile[i] = most(p->tile[i], least(p->n[i], most(1, target / size_of(p->ss[i]))));
        span += (p->tile[i] - 1) * size_of(p->ss[i]);
        if (p->tile[i] < p->n[i]) break;
    }
}

static void tile_shape(Plan *p) {
    ptrdiff_t dst_run = DST_RUN, src_run = SRC_RUN;
    for (;;) { /* both sides as long as wished, or else halved until the tile fits */
        for (int i = 0; i < p->nd; i++) p->tile[i] = 1;
        tile_destination(p, dst_run);
        if (p->kind != SPLAT) tile_source(p, src_run);
        if (tile_bytes(p) <= TILE_CAP || src_run <= 64) break;
        if (src_run > dst_run) src_run /= 2;
        else dst_run /= 2;
    }
    for (int i = 0; i < p->nd; i++) { /* a small tile grows outwards */
        ptrdiff_t room = TILE_GROW / tile_bytes(p);
        if (room < 2) break;
        p->tile[i] = least(p->n[i], p->tile[i] * room);
        if (p->tile[i] < p->n[i]) break;
    }
    p->chain = 0;
    while (p->chain + 1 < p->nd && p->tile[p->chain] == p->n[p->chain] &&
           p->ds[p->chain + 1] == p->ds[p->chain] * p->n[p->chain])
        p->chain++;
}

static void plan_across(Plan *p) { /* rows, splats and gathers: the longest other side of the tile */
    if (p->kind == TRANSPOSE) return;
    for (int i = 1; i < p->nd; i++)
        if (p->across == 0 || p->tile[i] > p->tile[p->across]) p->across = i;
}

static void plan_streams(Plan *p) {
    ptrdiff_t run = p->width;
    for (int i = 0; i < p->nd && p->ds[i] == run; i++) run *= p->n[i];
    p->streams = (size_t)p->nbytes >= STREAM_BYTES && run >= STREAM_RUN;
}

/* Fills *p; the caller has made sure that every product and every reach fits in ptrdiff_t. */
static void plan_copy(Plan *p, int nd, const ptrdiff_t *n, const ptrdiff_t *ds, const ptrdiff_t *ss, ptrdiff_t itemsize) {
    p->nd = p->across = p->chain = p->streams = 0;
    p->dst_shift = p->src_shift = 0;
    p->nbytes = itemsize;
    for (int i = 0; i < nd; i++) p->nbytes *= n[i];
    p->width = least(16, itemsize & -itemsize); /* an odd item is a row of the widest part that divides it */
    p->kind = EMPTY;
    if (p->nbytes == 0) return;
    plan_add(p, itemsize / p->width, p->width, p->width);
    for (int i = nd - 1; i >= 0; i--) plan_add(p, n[i], ds[i], ss[i]);
    plan_coalesce(p);
    plan_widen(p);
    plan_classify(p);
    plan_order(p);
    tile_shape(p);
    plan_across(p);
    plan_streams(p);
}

#endif
