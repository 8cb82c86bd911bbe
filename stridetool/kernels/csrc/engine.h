/* The copy engine, included once per instruction set (ISA_NAME, STREAM_LINE, VECTORS and SHUFFLES are set before).
 *
 *   flat      one run: memcpy, or lines streamed around the caches
 *   plane     two dimensions of a tile, by kind: transpose, rows, splat, strided, generic
 *   tile      the other dimensions of a tile around a plane
 *   flush     a packed tile to the destination: whole lines streamed, the next tile's source prefetched meanwhile
 *   execute   the tile loop
 */
#define PASTE2(a, b) a##_##b
#define PASTE(a, b) PASTE2(a, b)
#define FN(name) PASTE(ISA_NAME(name), x)

/* --- block transposes ---------------------------------------------------------------------------------------- */
#define V 16
#include "block.h"
#if VECTORS >= 32
#define V 32
#include "block.h"
#endif
#if VECTORS >= 64
#define V 64
#include "block.h"
#endif

/* --- planes: dst[k*dk + i*W] = src[i*si + k*sk] ---------------------------------------------------------------- */
typedef struct {
    ptrdiff_t n, nk;      /* extents along dimension 0 and across */
    ptrdiff_t di, dk, si, sk; /* bytes */
} FN(Plane);

#define DEFINE_SCALAR(W, T)                                                                                  \
    static void FN(scalar##W)(char *dst, const char *src, const FN(Plane) * p) {                             \
        for (ptrdiff_t k = 0; k < p->nk; k++) {                                                              \
            char *d = dst + k * p->dk;                                                                       \
            const char *s = src + k * p->sk;                                                                 \
            _Pragma("GCC unroll 4") for (ptrdiff_t i = 0; i < p->n; i++) {                                   \
                T value;                                                                                     \
                memcpy(&value, s + i * p->si, W);                                                            \
                memcpy(d + i * p->di, &value, W);                                                            \
            }                                                                                                \
        }                                                                                                    \
    }
DEFINE_SCALAR(1, uint8_t)
DEFINE_SCALAR(2, uint16_t)
DEFINE_SCALAR(4, uint32_t)
DEFINE_SCALAR(8, uint64_t)
DEFINE_SCALAR(16, u8x16)
#undef DEFINE_SCALAR

static void FN(scalar)(char *dst, const char *src, const FN(Plane) * p, ptrdiff_t width) {
    switch (width) {
    case 1: FN(scalar1)(dst, src, p); break;
    case 2: FN(scalar2)(dst, src, p); break;
    case 4: FN(scalar4)(dst, src, p); break;
    case 8: FN(scalar8)(dst, src, p); break;
    default: FN(scalar16)(dst, src, p);
    }
}

#ifdef SHUFFLES
#define V 16
#include "shuffle.h"
#if VECTORS >= 32
#define V VECTORS
#include "shuffle.h"
#define WIDEST(name) PASTE(ISA_NAME(name), VECTORS)
#else
#define WIDEST(name) PASTE(ISA_NAME(name), 16)
#endif

/* A gather with a small stride: 16 bytes of output from |step| loads, each shuffled into its place. The last
 * group upwards in memory goes element by element, so that nothing beyond the view is read. */
static void FN(gather)(char *dst, const char *src, ptrdiff_t n, ptrdiff_t step, ptrdiff_t width, uint8_t mask[8][16],
                       Prefetch *next) {
    ptrdiff_t q = 16 / width, groups = n / q, stride = q * step * width;
    FN(Plane) edge = {q, 1, width, 0, step * width, 0};
    if (step < 0) {
        if (step < -1) {
            FN(scalar)(dst, src, &edge, width);
            dst += 16, src += stride, groups--, n -= q;
        }
        src += (q - 1) * step * width;
    } else if (step > 1) {
        groups -= 1;
    }
    ptrdiff_t done = WIDEST(gather)(dst, src, groups, stride, mask, (int)size_of(step), next);
    done += ISA_NAME(gather_16)(dst + 16 * done, src + done * stride, groups - done, stride, mask, (int)size_of(step), next);
    if (step < 0) src -= (q - 1) * step * width;
    edge.n = n - done * q;
    FN(scalar)(dst + done * 16, src + done * stride, &edge, width);
}

static void FN(gathers)(char *dst, const char *src, const FN(Plane) * p, ptrdiff_t width, Prefetch *next) {
    ptrdiff_t step = p->si / width, q = 16 / width;
    uint8_t mask[8][16]; /* [load][byte of the output] */
    memset(mask, 0x80, sizeof mask);
    for (ptrdiff_t e = 0; e < q; e++)
        for (ptrdiff_t b = 0; b < width; b++) {
            ptrdiff_t from = (step > 0 ? e : q - 1 - e) * size_of(p->si) + b;
            mask[from / 16][e * width + b] = (uint8_t)(from % 16);
        }
    for (ptrdiff_t k = 0; k < p->nk; k++) FN(gather)(dst + k * p->dk, src + k * p->sk, p->n, step, width, mask, next);
}

/* Few elements along dimension 0 and many across, destination rows back to back: 16 bytes of each of the n source
 * rows become n * 16 bytes of output. */
static void FN(interleave)(char *dst, const char *src, const FN(Plane) * p, ptrdiff_t width) {
    ptrdiff_t n = p->n, q = 16 / width, groups = p->nk / q;
    uint8_t mask[8][8][16]; /* [output vector][source row][byte] */
    memset(mask, 0x80, sizeof mask);
    for (ptrdiff_t e = 0; e < q; e++)
        for (ptrdiff_t i = 0; i < n; i++)
            for (ptrdiff_t b = 0; b < width; b++) {
                ptrdiff_t to = (e * n + i) * width + b;
                mask[to / 16][i][to % 16] = (uint8_t)(e * width + b);
            }
    ptrdiff_t done = WIDEST(interleave)(dst, src, groups, p->si, mask, (int)n);
    done += ISA_NAME(interleave_16)(dst + done * n * 16, src + done * 16, groups - done, p->si, mask, (int)n);
    FN(Plane) rest = *p;
    rest.nk -= done * q;
    FN(scalar)(dst + done * q * p->dk, src + done * 16, &rest, width);
}
#endif

static void FN(strided)(char *dst, const char *src, const FN(Plane) * p, ptrdiff_t width, Prefetch *next) {
#ifdef SHUFFLES
    ptrdiff_t step = p->si / width;
    if (step * width == p->si && size_of(step) <= 8 && step && p->di == width && width < 16 && p->n * width >= 32) {
        FN(gathers)(dst, src, p, width, next);
        return;
    }
#endif
    (void)next;
    FN(scalar)(dst, src, p, width);
}

#define SQUARES(v)                                                                                            \
    if (p.n * width >= v && p.nk * width >= 16) {                                                             \
        switch (width) {                                                                                      \
        case 1: ISA_NAME(square1_##v)(dst, p.dk, src, p.si, p.n, p.nk); return;                               \
        case 2: ISA_NAME(square2_##v)(dst, p.dk, src, p.si, p.n, p.nk); return;                               \
        case 4: ISA_NAME(square4_##v)(dst, p.dk, src, p.si, p.n, p.nk); return;                               \
        case 8: ISA_NAME(square8_##v)(dst, p.dk, src, p.si, p.n, p.nk); return;                               \
        default: ISA_NAME(square16_##v)(dst, p.dk, src, p.si, p.n, p.nk); return;                             \
        }                                                                                                     \
    }

static void FN(transpose)(char *dst, const char *src, FN(Plane) p, ptrdiff_t width, Prefetch *next) {
    if (p.sk < 0) { /* the source runs backwards across: walk it forwards, the destination backwards */
        dst += (p.nk - 1) * p.dk;
        src += (p.nk - 1) * p.sk;
        p.dk = -p.dk;
        p.sk = -p.sk;
    }
#if VECTORS >= 64
    SQUARES(64)
#endif
#if VECTORS >= 32
    SQUARES(32)
#endif
    SQUARES(16)
#ifdef SHUFFLES
    if (p.n <= 8 && p.dk == p.n * width && p.nk * width >= 16) {
        FN(interleave)(dst, src, &p, width);
        return;
    }
#endif
    FN(strided)(dst, src, &p, width, next);
}
#undef SQUARES

/* Rows: dimension 0 is contiguous on both sides. Lengths of up to 64 bytes are two or four overlapping moves of a
 * fixed size, which never touch a byte outside the row. */
#define ROWS_OF(SIZE)                                                                                         \
    for (ptrdiff_t k = 0; k < p->nk; k++, dst += p->dk, src += p->sk) {                                       \
        char head[SIZE], tail[SIZE];                                                                          \
        memcpy(head, src, SIZE);                                                                              \
        memcpy(tail, src + nbytes - SIZE, SIZE);                                                              \
        memcpy(dst, head, SIZE);                                                                              \
        memcpy(dst + nbytes - SIZE, tail, SIZE);                                                              \
    }

static void FN(rows)(char *dst, const char *src, const FN(Plane) * p, ptrdiff_t width) {
    ptrdiff_t nbytes = p->n * width;
    if (nbytes < 4) {
        FN(scalar)(dst, src, p, width);
    } else if (nbytes <= 8) {
        ROWS_OF(4)
    } else if (nbytes <= 16) {
        ROWS_OF(8)
    } else if (nbytes <= 32) {
        ROWS_OF(16)
    } else if (nbytes <= 64) {
        ROWS_OF(32)
    } else if (nbytes <= 128) {
        ROWS_OF(64)
    } else {
        for (ptrdiff_t k = 0; k < p->nk; k++) memcpy(dst + k * p->dk, src + k * p->sk, (size_t)nbytes);
    }
}
#undef ROWS_OF

static void FN(splat)(char *dst, const char *src, const FN(Plane) * p, ptrdiff_t width) {
    for (ptrdiff_t k = 0; k < p->nk; k++) {
        char *d = dst + k * p->dk;
        char line[64];
        ptrdiff_t nbytes = p->n * width, at = 0;
        for (ptrdiff_t b = 0; b < 64; b += width) memcpy(line + b, src + k * p->sk, (size_t)width);
        for (; at + 64 <= nbytes; at += 64) memcpy(d + at, line, 64);
        memcpy(d + at, line, (size_t)(nbytes - at));
    }
}

static void FN(plane)(Kind kind, char *dst, const char *src, const FN(Plane) * p, ptrdiff_t width, Prefetch *next) {
    switch (kind) {
    case TRANSPOSE: FN(transpose)(dst, src, *p, width, next); break;
    case ROWS: FN(rows)(dst, src, p, width); break;
    case SPLAT: FN(splat)(dst, src, p, width); break;
    case STRIDED: FN(strided)(dst, src, p, width, next); break;
    default: FN(scalar)(dst, src, p, width);
    }
}

/* --- tile: all dimensions of one tile, `extent` of them, onto strides `ds` ------------------------------------- */
static void FN(tile)(const Plan *plan, const ptrdiff_t *extent, char *dst, const ptrdiff_t *ds, const char *src,
                     Prefetch *next) {
    int k = plan->across, outer[MAX_DIMS], no = 0;
    ptrdiff_t at[MAX_DIMS];
    FN(Plane) p = {extent[0], k ? extent[k] : 1, ds[0], k ? ds[k] : 0, plan->ss[0], k ? plan->ss[k] : 0};
    for (int i = 1; i < plan->nd; i++)
        if (i != k && extent[i] > 1) {
            outer[no] = i;
            at[no++] = 0;
        }
    for (;;) {
        FN(plane)(plan->kind, dst, src, &p, plan->width, next);
        int j = 0;
        for (; j < no; j++) {
            int i = outer[j];
            dst += ds[i];
            src += plan->ss[i];
            if (++at[j] < extent[i]) break;
            dst -= ds[i] * extent[i];
            src -= plan->ss[i] * extent[i];
            at[j] = 0;
        }
        if (j == no) return;
    }
}

/* --- streaming -------------------------------------------------------------------------------------------------- */
static void FN(stream_run)(char *dst, const char *src, ptrdiff_t nbytes, Prefetch *next) {
    ptrdiff_t head = least(nbytes, (ptrdiff_t)(-(uintptr_t)dst & 63)), at = head;
    memcpy(dst, src, (size_t)head);
    for (; at + 64 <= nbytes; at += 64) {
        progress(next, 64);
        STREAM_LINE(dst + at, src + at);
    }
    memcpy(dst + at, src + at, (size_t)(nbytes - at));
}

static void FN(stream_splat)(char *dst, const char *src, ptrdiff_t nbytes, ptrdiff_t width) {
    char line[128];
    for (ptrdiff_t b = 0; b < 128; b += width) memcpy(line + b, src, (size_t)width);
    ptrdiff_t head = least(nbytes, (ptrdiff_t)(-(uintptr_t)dst & 63)), at = head;
    memcpy(dst, line, (size_t)head);
    const char *from = line + head % width;
    for (; at + 64 <= nbytes; at += 64) STREAM_LINE(dst + at, from);
    memcpy(dst + at, from, (size_t)(nbytes - at));
}

/* Several pages at a time keep more hardware prefetchers and DRAM banks busy on some machines and cost on others. */
static void FN(stream_flat)(char *dst, const char *src, ptrdiff_t nbytes, int pages) {
    ptrdiff_t head = least(nbytes, (ptrdiff_t)(-(uintptr_t)dst & 63)), at = head, block = 4096 * pages;
    memcpy(dst, src, (size_t)head);
    for (; at + block <= nbytes; at += block)
        for (ptrdiff_t b = 0; b < 4096; b += 64)
            for (int page = 0; page < pages; page++) {
                ptrdiff_t o = at + page * 4096 + b;
                __builtin_prefetch(src + o + (pages > 1 ? block : 2048));
                STREAM_LINE(dst + o, src + o);
            }
    for (; at + 64 <= nbytes; at += 64) STREAM_LINE(dst + at, src + at);
    memcpy(dst + at, src + at, (size_t)(nbytes - at));
}

/* --- flush: the packed tile, run by run ------------------------------------------------------------------------- */
static void FN(flush)(const Plan *plan, const ptrdiff_t *extent, char *dst, const char *buffer, const ptrdiff_t *bs,
                      Prefetch *next) {
    ptrdiff_t at[MAX_DIMS], run = bs[plan->chain] * extent[plan->chain];
    for (int i = 0; i < plan->nd; i++) at[i] = 0;
    for (;;) {
        FN(stream_run)(dst, buffer, run, next);
        int i = plan->chain + 1;
        for (; i < plan->nd; i++) {
            dst += plan->ds[i];
            buffer += bs[i];
            if (++at[i] < extent[i]) break;
            dst -= plan->ds[i] * extent[i];
            buffer -= bs[i] * extent[i];
            at[i] = 0;
        }
        if (i == plan->nd) return;
    }
}

/* Long aligned rows and splats of a tile, straight to the destination. */
static void FN(direct)(const Plan *plan, const ptrdiff_t *extent, char *dst, const char *src, Prefetch *next) {
    ptrdiff_t at[MAX_DIMS];
    for (int i = 0; i < plan->nd; i++) at[i] = 0;
    for (;;) {
        if (plan->kind == ROWS) FN(stream_run)(dst, src, extent[0] * plan->width, next);
        else FN(stream_splat)(dst, src, extent[0] * plan->width, plan->width);
        int i = 1;
        for (; i < plan->nd; i++) {
            dst += plan->ds[i];
            src += plan->ss[i];
            if (++at[i] < extent[i]) break;
            dst -= plan->ds[i] * extent[i];
            src -= plan->ss[i] * extent[i];
            at[i] = 0;
        }
        if (i == plan->nd) return;
    }
}

/* --- execute: the tiles first..last (in the order of the source) -------------------------------------------------- */
static void FN(execute)(const Plan *plan, char *dst, const char *src, const Tiles *tiles, ptrdiff_t first, ptrdiff_t last,
                        char *buffer) {
    ptrdiff_t extent[MAX_DIMS], d, s;
    for (ptrdiff_t t = first; t < last; t++) {
        tile_at(plan, tiles, t, extent, &d, &s);
        Prefetch next = {NULL, NULL, 0, 1, 0};
        if (buffer && t + 1 < last) next = prefetch_tile(plan, tiles, t + 1, src);
        if (buffer == NULL) {
            FN(tile)(plan, extent, dst + d, plan->ds, src + s, &next);
        } else if (tiles->direct) {
            FN(direct)(plan, extent, dst + d, src + s, &next);
        } else {
            FN(tile)(plan, extent, buffer, tiles->bs, src + s, &next);
            FN(flush)(plan, extent, dst + d, buffer, tiles->bs, &next);
        }
    }
}
