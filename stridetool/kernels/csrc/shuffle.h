/* Gathers with a small stride and interleaves of few rows, by byte shuffles inside lanes; included once per vector
 * size V inside an instruction set. A group is 16 bytes of output (gather) or of each source row (interleave); the
 * V/16 lanes of a vector hold V/16 groups, so one mask serves them all. STEPS is a constant that the compiler unrolls. */
#define JOIN(a, b) a##_##b
#define EXPAND(a, b) JOIN(a, b)
#define OP(name) EXPAND(name, V)
#define SHUFFLE_FN(name) EXPAND(ISA_NAME(name), V)

/* `groups` x 16 bytes from STEPS loads each; `stride` bytes from group to group of the source. */
INLINE ptrdiff_t SHUFFLE_FN(gather_steps)(char *dst, const char *src, ptrdiff_t groups, ptrdiff_t stride,
                                          uint8_t mask[8][16], const int STEPS, Prefetch *next) {
    OP(vec) m[8];
    ptrdiff_t g = 0;
    for (int j = 0; j < STEPS; j++) m[j] = OP(same)(mask[j]);
    for (; g + V / 16 <= groups; g += V / 16, dst += V, src += V / 16 * stride) {
        progress(next, V);
        OP(vec) out = OP(shuffle)(OP(lanes)(src, stride), m[0]);
        for (int j = 1; j < STEPS; j++) out = OP(or)(out, OP(shuffle)(OP(lanes)(src + 16 * j, stride), m[j]));
        OP(store)(dst, out);
    }
    return g;
}

static ptrdiff_t SHUFFLE_FN(gather)(char *dst, const char *src, ptrdiff_t groups, ptrdiff_t stride, uint8_t mask[8][16],
                                    int steps, Prefetch *next) {
    switch (steps) {
    case 1: return SHUFFLE_FN(gather_steps)(dst, src, groups, stride, mask, 1, next);
    case 2: return SHUFFLE_FN(gather_steps)(dst, src, groups, stride, mask, 2, next);
    case 3: return SHUFFLE_FN(gather_steps)(dst, src, groups, stride, mask, 3, next);
    case 4: return SHUFFLE_FN(gather_steps)(dst, src, groups, stride, mask, 4, next);
    default: return SHUFFLE_FN(gather_steps)(dst, src, groups, stride, mask, steps, next);
    }
}

/* 16 bytes of each of STEPS rows, `stride` bytes apart, to STEPS x 16 bytes of output. */
INLINE ptrdiff_t SHUFFLE_FN(interleave_steps)(char *dst, const char *src, ptrdiff_t groups, ptrdiff_t stride,
                                              uint8_t mask[8][8][16], const int STEPS) {
    ptrdiff_t g = 0;
    for (; g + V / 16 <= groups; g += V / 16, src += V, dst += V * STEPS) {
        OP(vec) row[8];
        for (int i = 0; i < STEPS; i++) row[i] = OP(lanes)(src + i * stride, 16);
        for (int c = 0; c < STEPS; c++) {
            OP(vec) out = OP(shuffle)(row[0], OP(same)(mask[c][0]));
            for (int i = 1; i < STEPS; i++) out = OP(or)(out, OP(shuffle)(row[i], OP(same)(mask[c][i])));
            OP(scatter)(dst + 16 * c, 16 * STEPS, out);
        }
    }
    return g;
}

static ptrdiff_t SHUFFLE_FN(interleave)(char *dst, const char *src, ptrdiff_t groups, ptrdiff_t stride,
                                        uint8_t mask[8][8][16], int steps) {
    switch (steps) {
    case 2: return SHUFFLE_FN(interleave_steps)(dst, src, groups, stride, mask, 2);
    case 3: return SHUFFLE_FN(interleave_steps)(dst, src, groups, stride, mask, 3);
    case 4: return SHUFFLE_FN(interleave_steps)(dst, src, groups, stride, mask, 4);
    default: return SHUFFLE_FN(interleave_steps)(dst, src, groups, stride, mask, steps);
    }
}

#undef SHUFFLE_FN
#undef OP
#undef EXPAND
#undef JOIN
#undef V
