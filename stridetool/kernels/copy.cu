/* Strided copies on CUDA. One text, two compilers: NVRTC makes device code of it, and the tests compile it as C++ and
 * run it on the host (each thread a fiber), so it keeps to what both understand and includes nothing.
 *
 * Every kernel takes (destination, source, walk). The walk is made by kernels/cuda_launch.py from the copy plan: sizes
 * and byte strides, innermost dimension of the destination first; kernels of a tile find the dimension along which the
 * source is contiguous in place 1. Names end in the width of one element in bytes.
 *
 *   gather_naive      a thread an element, in the order of the source: what most libraries do
 *   gather_coalesced  in the order of the destination, four elements a thread, 32-bit indices where they suffice
 *   tile_padded       32 x 32 elements through shared memory with a padded row, so that both sides are coalesced
 *   tile_vector       16-byte accesses on both sides; elements of 1 and 2 bytes are turned inside 32-bit words
 *   rows              runs that are contiguous on both sides: threads along the run, no division inside
 *   splat             a source that stands still along the run: one read, many writes
 */
typedef long long i64;
typedef unsigned char w1;
typedef unsigned short w2;
typedef unsigned int w4;
typedef unsigned long long w8;
typedef uint4 w16;

#define MAX_DIMS 66

struct Walk {
    i64 nd, total; /* dimensions; elements, or blocks of work, in all */
    i64 n[MAX_DIMS], ds[MAX_DIMS], ss[MAX_DIMS];
};

/* Adds the offsets of `index`, counted over the dimensions from..nd with the first one fastest. */
template <typename Index>
__device__ __forceinline__ void add_offsets(const Walk &walk, int from, i64 index, i64 &d, i64 &s) {
    Index rest = (Index)index;
    for (int i = from; i < (int)walk.nd; i++) {
        Index n = (Index)walk.n[i], next = rest / n, at = rest - next * n;
        d += (i64)at * walk.ds[i];
        s += (i64)at * walk.ss[i];
        rest = next;
    }
}

__device__ __forceinline__ void offsets(const Walk &walk, int from, i64 index, i64 &d, i64 &s) {
    if (walk.total <= 0x7fffffff) add_offsets<unsigned int>(walk, from, index, d, s);
    else add_offsets<unsigned long long>(walk, from, index, d, s);
}

/* --- gathers ------------------------------------------------------------------------------------------------------ */

template <typename T>
__device__ __forceinline__ void gather_naive(char *dst, const char *src, const Walk &walk) {
    i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x, d = 0, s = 0;
    if (index >= walk.total) return;
    add_offsets<unsigned long long>(walk, 0, index, d, s);
    *(T *)(dst + d) = *(const T *)(src + s);
}

template <typename T>
__device__ __forceinline__ void gather_coalesced(char *dst, const char *src, const Walk &walk) {
    i64 first = (i64)blockIdx.x * blockDim.x * 4 + threadIdx.x;
    i64 d[4];
    T value[4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        i64 index = first + (i64)j * blockDim.x, s = 0;
        d[j] = -1;
        if (index < walk.total) {
            i64 at = 0;
            offsets(walk, 0, index, at, s);
            d[j] = at;
            value[j] = *(const T *)(src + s);
        }
    }
#pragma unroll
    for (int j = 0; j < 4; j++)
        if (d[j] >= 0) *(T *)(dst + d[j]) = value[j];
}

/* --- tiles: dimension 0 is contiguous in the destination, dimension 1 in the source --------------------------------- */

/* Which tile this block has: its first indices along dimensions 0 and 1, and the addresses of the other dimensions. */
__device__ __forceinline__ void find_tile(const Walk &walk, int ti, int tk, i64 &i0, i64 &k0, char *&dst, const char *&src) {
    i64 tiles_i = (walk.n[0] + ti - 1) / ti, tiles_k = (walk.n[1] + tk - 1) / tk;
    i64 block = blockIdx.x, d = 0, s = 0;
    i0 = block % tiles_i * ti;
    block /= tiles_i;
    k0 = block % tiles_k * tk;
    offsets(walk, 2, block / tiles_k, d, s);
    dst += d;
    src += s;
}

template <typename T>
__device__ __forceinline__ void tile_padded(char *dst, const char *src, const Walk &walk) {
    __shared__ T tile[32][33]; /* the 33rd column shifts each row by a bank */
    i64 i0, k0;
    find_tile(walk, 32, 32, i0, k0, dst, src);
    int x = threadIdx.x % 32, y = threadIdx.x / 32;
#pragma unroll
    for (int j = y; j < 32; j += 8)
        if (i0 + j < walk.n[0] && k0 + x < walk.n[1])
            tile[j][x] = *(const T *)(src + (i0 + j) * walk.ss[0] + (k0 + x) * walk.ss[1]);
    __syncthreads();
#pragma unroll
    for (int j = y; j < 32; j += 8)
        if (k0 + j < walk.n[1] && i0 + x < walk.n[0])
            *(T *)(dst + (k0 + j) * walk.ds[1] + (i0 + x) * walk.ds[0]) = tile[x][j];
}

/* A unit is what shared memory holds: an element, or a 32-bit word of P elements that are neighbours along i. */
template <int W> struct Unit;
template <> struct Unit<1> { typedef w4 type; };
template <> struct Unit<2> { typedef w4 type; };
template <> struct Unit<4> { typedef w4 type; };
template <> struct Unit<8> { typedef w8 type; };
template <> struct Unit<16> { typedef w16 type; };

template <int W> struct Shape { /* of a vectorised tile */
    static const int P = W < 4 ? 4 / W : 1;       /* elements in a unit */
    static const int V = 16 / W;                  /* elements in 16 bytes */
    static const int VU = W < 4 ? 4 : 16 / W;     /* units in 16 bytes */
    static const int UI = W == 2 || W == 4 ? 64 : 32; /* units of a tile along i */
    static const int TI = UI * P;                 /* elements along i */
    static const int TK = W == 1 ? 128 : W == 2 || W == 4 ? 64 : 32; /* elements along k */
    static const int LK = W == 1 ? 2 : W == 2 ? 4 : 8; /* lanes along k that load without bank conflicts */
};

/* 16 bytes of which `count` elements exist; `whole` says that one access may take them all. */
template <int W, typename T>
__device__ __forceinline__ void load_vector(const char *src, i64 count, T *out) {
    if (count >= Shape<W>::V) {
        *(uint4 *)out = *(const uint4 *)src;
    } else {
#pragma unroll
        for (int c = 0; c < Shape<W>::V; c++)
            if (c < count) out[c] = *(const T *)(src + c * W);
    }
}

template <int W, typename T>
__device__ __forceinline__ void store_vector(char *dst, i64 count, const T *in) {
    if (count >= Shape<W>::V) {
        *(uint4 *)dst = *(const uint4 *)in;
    } else {
#pragma unroll
        for (int c = 0; c < Shape<W>::V; c++)
            if (c < count) *(T *)(dst + c * W) = in[c];
    }
}

/* Rows of elements to units: unit c holds element c of each of the P rows. */
template <int W, typename T, typename U> struct Turn {
    static __device__ __forceinline__ void run(T (&rows)[1][16 / W], U (&units)[16 / W]) {
#pragma unroll
        for (int c = 0; c < 16 / W; c++) units[c] = *(U *)&rows[0][c];
    }
};
template <> struct Turn<2, w2, w4> {
    static __device__ __forceinline__ void run(w2 (&rows)[2][8], w4 (&units)[8]) {
        const w4 *a = (const w4 *)rows[0], *b = (const w4 *)rows[1];
#pragma unroll
        for (int c = 0; c < 4; c++) {
            units[2 * c] = __byte_perm(a[c], b[c], 0x5410);
            units[2 * c + 1] = __byte_perm(a[c], b[c], 0x7632);
        }
    }
};
template <> struct Turn<1, w1, w4> {
    static __device__ __forceinline__ void run(w1 (&rows)[4][16], w4 (&units)[16]) {
        const w4 *r0 = (const w4 *)rows[0], *r1 = (const w4 *)rows[1], *r2 = (const w4 *)rows[2], *r3 = (const w4 *)rows[3];
#pragma unroll
        for (int c = 0; c < 4; c++) {
            w4 low01 = __byte_perm(r0[c], r1[c], 0x5140), high01 = __byte_perm(r0[c], r1[c], 0x7362);
            w4 low23 = __byte_perm(r2[c], r3[c], 0x5140), high23 = __byte_perm(r2[c], r3[c], 0x7362);
            units[4 * c] = __byte_perm(low01, low23, 0x5410);
            units[4 * c + 1] = __byte_perm(low01, low23, 0x7632);
            units[4 * c + 2] = __byte_perm(high01, high23, 0x5410);
            units[4 * c + 3] = __byte_perm(high01, high23, 0x7632);
        }
    }
};

template <int W, typename T>
__device__ __forceinline__ void tile_vector(char *dst, const char *src, const Walk &walk) {
    typedef Shape<W> S;
    typedef typename Unit<W>::type U;
    __shared__ U tile[S::TK][S::UI + 1];
    i64 i0, k0;
    find_tile(walk, S::TI, S::TK, i0, k0, dst, src);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    const int load_k = S::TK / S::V / S::LK, load_i = S::UI * S::LK / 32; /* groups of a warp along each side */
#pragma unroll
    for (int group = warp; group < load_k * load_i; group += 8) {
        int kv = group % load_k * S::LK + lane % S::LK, iu = group / load_k * (32 / S::LK) + lane / S::LK;
        i64 k = k0 + kv * S::V, i = i0 + iu * S::P;
        __align__(16) T rows[S::P][S::V];
        U units[S::V];
#pragma unroll
        for (int p = 0; p < S::P; p++)
            if (i + p < walk.n[0] && k < walk.n[1])
                load_vector<W, T>(src + (i + p) * walk.ss[0] + k * W, walk.n[1] - k, rows[p]);
        Turn<W, T, U>::run(rows, units);
#pragma unroll
        for (int c = 0; c < S::V; c++) tile[kv * S::V + c][iu] = units[c];
    }
    __syncthreads();
    const int store_i = S::UI / S::VU / 8, store_k = S::TK / 4; /* 8 lanes along i, 4 along k */
#pragma unroll
    for (int group = warp; group < store_i * store_k; group += 8) {
        int iv = group % store_i * 8 + lane % 8, kk = group / store_i * 4 + lane / 8;
        i64 i = i0 + iv * S::V, k = k0 + kk;
        __align__(16) U units[S::VU];
#pragma unroll
        for (int c = 0; c < S::VU; c++) units[c] = tile[kk][iv * S::VU + c];
        if (i < walk.n[0] && k < walk.n[1])
            store_vector<W, T>(dst + k * walk.ds[1] + i * W, walk.n[0] - i, (const T *)units);
    }
}

/* --- runs: threadIdx.x along dimension 0, threadIdx.y over the others ------------------------------------------------ */

template <typename T>
__device__ __forceinline__ void rows(char *dst, const char *src, const Walk &walk) {
    for (i64 row = (i64)blockIdx.x * blockDim.y + threadIdx.y; row < walk.total; row += (i64)gridDim.x * blockDim.y) {
        i64 d = 0, s = 0, step = (i64)gridDim.y * blockDim.x;
        offsets(walk, 1, row, d, s);
        T *to = (T *)(dst + d);
        const T *from = (const T *)(src + s);
        i64 i = (i64)blockIdx.y * blockDim.x + threadIdx.x;
#pragma unroll 1 /* four loads on their way at once are enough; sixteen would spill */
        for (; i + 3 * step < walk.n[0]; i += 4 * step) {
            T a = from[i], b = from[i + step], c = from[i + 2 * step], e = from[i + 3 * step];
            to[i] = a;
            to[i + step] = b;
            to[i + 2 * step] = c;
            to[i + 3 * step] = e;
        }
#pragma unroll 1
        for (; i < walk.n[0]; i += step) to[i] = from[i];
    }
}

template <typename T>
__device__ __forceinline__ void splat(char *dst, const char *src, const Walk &walk) {
    for (i64 row = (i64)blockIdx.x * blockDim.y + threadIdx.y; row < walk.total; row += (i64)gridDim.x * blockDim.y) {
        i64 d = 0, s = 0, step = (i64)gridDim.y * blockDim.x, i = (i64)blockIdx.y * blockDim.x + threadIdx.x;
        offsets(walk, 1, row, d, s);
        const i64 per = 16 / (i64)sizeof(T);
        __align__(16) T value[16 / sizeof(T)];
#pragma unroll
        for (int c = 0; c < 16 / (int)sizeof(T); c++) value[c] = *(const T *)(src + s);
        bool whole = ((i64)(dst + d) & 15) == 0;
        i64 vectors = whole ? walk.n[0] / per : 0;
        for (i64 v = i; v < vectors; v += step) ((uint4 *)(dst + d))[v] = *(const uint4 *)value;
        for (i64 e = vectors * per + i; e < walk.n[0]; e += step) ((T *)(dst + d))[e] = value[0];
    }
}

/* --- entry points: each kernel for each width -------------------------------------------------------------------------- */

#define ENTRY(name, width, ...)                                                                                      \
    extern "C" __global__ void __launch_bounds__(256, 4) name##_##width(char *dst, const char *src, const Walk walk) { \
        __VA_ARGS__(dst, src, walk);                                                                                 \
    }
#define ENTRIES(name) \
    ENTRY(name, 1, name<w1>) ENTRY(name, 2, name<w2>) ENTRY(name, 4, name<w4>) ENTRY(name, 8, name<w8>) ENTRY(name, 16, name<w16>)

ENTRIES(gather_naive)
ENTRIES(gather_coalesced)
ENTRIES(tile_padded)
ENTRIES(rows)
ENTRIES(splat)
ENTRY(tile_vector, 1, tile_vector<1, w1>)
ENTRY(tile_vector, 2, tile_vector<2, w2>)
ENTRY(tile_vector, 4, tile_vector<4, w4>)
ENTRY(tile_vector, 8, tile_vector<8, w8>)
ENTRY(tile_vector, 16, tile_vector<16, w16>)
