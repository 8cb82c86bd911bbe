/* Block transposes in registers, included once per vector size V (16, 32 or 64 bytes) inside an instruction set.
 *
 * A vector is V/16 lanes. Lane j of register m is loaded with 16 bytes of source row j*Q+m, Q = 16/W elements of
 * W bytes. log2(Q) rounds of zips inside the lanes turn register c into column c of Q*V/16 rows, which is V bytes
 * of destination row c. Zips inside lanes cost one instruction everywhere; crossing lanes is left to the loads. */
#define JOIN(a, b) a##_##b
#define EXPAND(a, b) JOIN(a, b)
#define BLOCK(w) EXPAND(ISA_NAME(block##w), V)
#define SQUARE(w) EXPAND(ISA_NAME(square##w), V)
#define OP(name) EXPAND(name, V)

#define DEFINE_BLOCK(W)                                                                                     \
    static inline __attribute__((always_inline)) void BLOCK(W)(char *dst, ptrdiff_t dk, const char *src, \
                                                                  ptrdiff_t si) {                           \
        enum { Q = 16 / W };                                                                                \
        OP(vec) r[Q], t[Q];                                                                                 \
        _Pragma("GCC unroll 16") for (int m = 0; m < Q; m++) r[m] = OP(lanes)(src + m * si, Q * si);        \
        _Pragma("GCC unroll 4") for (int round = 1; round < Q; round *= 2) {                                \
            _Pragma("GCC unroll 8") for (int m = 0; m < Q / 2; m++) {                                       \
                t[2 * m] = OP(low##W)(r[m], r[m + Q / 2]);                                                  \
                t[2 * m + 1] = OP(high##W)(r[m], r[m + Q / 2]);                                             \
            }                                                                                               \
            _Pragma("GCC unroll 16") for (int m = 0; m < Q; m++) r[m] = t[m];                               \
        }                                                                                                   \
        _Pragma("GCC unroll 16") for (int c = 0; c < Q; c++) OP(store)(dst + c * dk, r[c]);                 \
    }                                                                                                       \
    /* dst[k*dk + i*W] = src[i*si + k*W]; walks squares of 64 x 64 bytes so that lines stay in L1, on aligned  \
     * destination addresses where the rows agree about them. The blocks at the ends of a side overlap their   \
     * neighbours, so n >= V/W and nk >= Q is all that is asked for. */                                         \
    static void SQUARE(W)(char *dst, ptrdiff_t dk, const char *src, ptrdiff_t si, ptrdiff_t n, ptrdiff_t nk) { \
        const ptrdiff_t R = V / W, Q = 16 / W, side = most(64 / W, R);                                         \
        const ptrdiff_t lead = dk % V ? 0 : (ptrdiff_t)(-(uintptr_t)dst & (V - 1)) / W;                        \
        for (ptrdiff_t i0 = lead ? lead - side : 0; i0 < n; i0 += side)                                        \
            for (ptrdiff_t k0 = 0; k0 < nk; k0 += 64 / W)                                                      \
                for (ptrdiff_t i = i0 + R > 0 ? i0 : lead - R; i < least(i0 + side, n); i += R)                \
                    for (ptrdiff_t k = k0; k < least(k0 + 64 / W, nk); k += Q) {                               \
                        ptrdiff_t ii = most(0, least(i, n - R)), kk = least(k, nk - Q);                        \
                        BLOCK(W)(dst + kk * dk + ii * W, dk, src + ii * si + kk * W, si);                      \
                    }                                                                                          \
    }

DEFINE_BLOCK(1)
DEFINE_BLOCK(2)
DEFINE_BLOCK(4)
DEFINE_BLOCK(8)
DEFINE_BLOCK(16)

#undef DEFINE_BLOCK
#undef BLOCK
#undef SQUARE
#undef EXPAND
#undef JOIN
#undef OP
#undef V
