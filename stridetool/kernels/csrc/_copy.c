/* stridetool.kernels._copy: strided copies over the buffer protocol and over raw addresses.
 *
 * Sections: instruction sets, flat copies, running a plan (threads, overlap), arguments, the Python functions.
 * Needs nothing at run time but Python's limited API 3.11. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifndef _WIN32
#define HAVE_THREADS 1
#include <pthread.h>
#endif

#include "plan.h"
#include "tiles.h"
#include "vectors.h"

/* --- instruction sets -------------------------------------------------------------------------------------------- */

#ifdef HAVE_X86
#ifdef __clang__
#define BEGIN_TARGET(isa) _Pragma(isa)
#define END_TARGET _Pragma("clang attribute pop")
#define TARGET_AVX2 "clang attribute push(__attribute__((target(\"avx2\"))), apply_to = function)"
#define TARGET_AVX512 "clang attribute push(__attribute__((target(\"avx512f,avx512bw,avx512vl\"))), apply_to = function)"
#else
#define BEGIN_TARGET(isa) _Pragma("GCC push_options") _Pragma(isa)
#define END_TARGET _Pragma("GCC pop_options")
#define TARGET_AVX2 "GCC target(\"avx2\")"
#define TARGET_AVX512 "GCC target(\"avx512f,avx512bw,avx512vl\")"
#endif

BEGIN_TARGET(TARGET_AVX512)
#define ISA_NAME(name) avx512_##name
#define STREAM_LINE stream_line_avx512
#define SHUFFLES
#define VECTORS 64
#include "engine.h"
#include "engine_end.h"
END_TARGET

BEGIN_TARGET(TARGET_AVX2)
#define ISA_NAME(name) avx2_##name
#define STREAM_LINE stream_line_avx2
#define SHUFFLES
#define VECTORS 32
#include "engine.h"
#include "engine_end.h"
END_TARGET
#define STREAM_LINE stream_line_sse2
#else
#define STREAM_LINE stream_line_portable
#endif

#ifdef HAVE_NEON
#define SHUFFLES
#endif
#define ISA_NAME(name) portable_##name
#define VECTORS 16
#include "engine.h"
#include "engine_end.h"

typedef struct {
    const char *name;
    void (*execute)(const Plan *, char *, const char *, const Tiles *, ptrdiff_t, ptrdiff_t, char *);
    void (*flat)(char *, const char *, ptrdiff_t, int);
    int supported;
} Isa;

static Isa isas[] = {
#ifdef HAVE_X86
    {"c-avx512", avx512_execute_x, avx512_stream_flat_x, 0},
    {"c-avx2", avx2_execute_x, avx2_stream_flat_x, 0},
#endif
    {"c-portable", portable_execute_x, portable_stream_flat_x, 1},
};
enum { N_ISAS = sizeof isas / sizeof *isas };
static const Isa *chosen = &isas[N_ISAS - 1];

static void choose_isa(void) {
#ifdef HAVE_X86
    __builtin_cpu_init();
    isas[0].supported = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    isas[1].supported = __builtin_cpu_supports("avx2");
#endif
    for (int i = N_ISAS - 1; i >= 0; i--)
        if (isas[i].supported) chosen = &isas[i];
}

/* --- flat copies --------------------------------------------------------------------------------------------------- */

enum { SEGMENT = 1 << 20, TRIALS = 4, WAYS = 3 };
static const int pages_of_way[WAYS] = {1, 2, 4};

static int64_t nanoseconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return now.tv_sec * (int64_t)1000000000 + now.tv_nsec;
}

/* Large flat copies go a MiB at a time. The first ones try each way of streaming in turn; the fastest stays. */
static void flat_stream(char *dst, const char *src, ptrdiff_t nbytes) {
    static int64_t best[WAYS];
    static int trial = 0, way = 0;
    for (ptrdiff_t at = 0; at < nbytes; at += SEGMENT) {
        ptrdiff_t part = least(SEGMENT, nbytes - at);
        if (trial >= TRIALS * WAYS || part < SEGMENT) {
            chosen->flat(dst + at, src + at, part, pages_of_way[way]);
            continue;
        }
        int now = trial % WAYS;
        int64_t begin = nanoseconds();
        chosen->flat(dst + at, src + at, part, pages_of_way[now]);
        int64_t took = nanoseconds() - begin;
        if (trial < WAYS || took < best[now]) best[now] = took;
        if (++trial == TRIALS * WAYS)
            for (int w = 0; w < WAYS; w++)
                if (best[w] < best[way]) way = w;
    }
    stream_done();
}

static void flat_copy(char *dst, const char *src, ptrdiff_t nbytes) {
    if ((size_t)nbytes < STREAM_BYTES) memcpy(dst, src, (size_t)nbytes);
    else flat_stream(dst, src, nbytes);
}

/* --- running a plan -------------------------------------------------------------------------------------------------- */

enum { MAX_THREADS = 64 };
static const ptrdiff_t THREAD_BYTES = 2 << 20; /* a thread that copies less than this does not pay for its start */

typedef struct {
    const Plan *plan;
    const Tiles *tiles;
    char *dst;
    const char *src;
    ptrdiff_t first, last;
} Share;

static void *run_share(void *arg) {
    const Share *share = arg;
    if (share->plan->kind == RUN) {
        flat_copy(share->dst + share->first, share->src + share->first, share->last - share->first);
        return NULL;
    }
    char *room = share->plan->streams ? malloc((size_t)share->tiles->buffer_bytes + 64) : NULL; /* none: plain stores */
    char *buffer = room ? room + (-(uintptr_t)room & 63) : NULL;
    chosen->execute(share->plan, share->dst, share->src, share->tiles, share->first, share->last, buffer);
    if (room) stream_done();
    free(room);
    return NULL;
}

static void run_shares(Share whole, ptrdiff_t units, ptrdiff_t grain, int threads) {
    Share share[MAX_THREADS];
    int started[MAX_THREADS];
    ptrdiff_t step = ceil_div(ceil_div(units, threads), grain) * grain;
#ifdef HAVE_THREADS
    pthread_t id[MAX_THREADS];
#endif
    for (int i = 0; i < threads; i++) {
        share[i] = whole;
        share[i].first = least(units, i * step);
        share[i].last = i + 1 == threads ? units : least(units, (i + 1) * step);
        started[i] = 0;
#ifdef HAVE_THREADS
        if (i) started[i] = pthread_create(&id[i], NULL, run_share, &share[i]) == 0;
#endif
    }
    for (int i = 0; i < threads; i++)
        if (!started[i]) run_share(&share[i]);
#ifdef HAVE_THREADS
    for (int i = 1; i < threads; i++)
        if (started[i]) pthread_join(id[i], NULL);
#endif
}

static void run_plan(const Plan *plan, char *dst, const char *src, int threads) {
    ptrdiff_t lines[MAX_LINES];
    Tiles tiles;
    if (plan->kind == EMPTY) return;
    dst += plan->dst_shift;
    src += plan->src_shift;
    threads = (int)most(1, least(least(threads, MAX_THREADS), plan->nbytes / THREAD_BYTES));
    if (plan->kind == RUN) {
        if (threads == 1) flat_copy(dst, src, plan->nbytes);
        else run_shares((Share){plan, NULL, dst, src, 0, 0}, plan->nbytes, 4096, threads);
        return;
    }
    tiles_count(plan, &tiles, dst);
    if (plan->streams) {
        tiles.direct = tiles_direct(plan, dst);
        tiles.lines = lines;
        tiles_pack(plan, &tiles);
        tiles_lines(plan, &tiles, src);
    }
    run_shares((Share){plan, &tiles, dst, src, 0, 0}, tiles.total, 1, (int)least(threads, tiles.total));
}
#include "module.h"
