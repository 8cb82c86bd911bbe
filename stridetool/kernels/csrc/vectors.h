/* The few vector operations that the kernels need, for 16, 32 and 64 bytes: loads of one 16-byte lane per row,
 * zips inside lanes, stores, and byte shuffles inside lanes. Everything else in the engine is plain C. */
#ifndef STRIDETOOL_VECTORS_H
#define STRIDETOOL_VECTORS_H

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) || defined(_M_X64)
#define HAVE_X86 1
#include <immintrin.h>
#elif defined(__aarch64__)
#define HAVE_NEON 1
#include <arm_neon.h>
#endif

#define INLINE static inline __attribute__((always_inline, unused))

/* --- 16 bytes, any machine with vector extensions (SSE2, NEON, VSX, ...) ----------------------------------- */
typedef uint8_t vec_16 __attribute__((vector_size(16)));
typedef uint8_t u8x16 __attribute__((vector_size(16)));
typedef uint16_t u16x8 __attribute__((vector_size(16)));
typedef uint32_t u32x4 __attribute__((vector_size(16)));
typedef uint64_t u64x2 __attribute__((vector_size(16)));

#ifdef __clang__
#define ZIP(T, a, b, ...) ((vec_16)__builtin_shufflevector((T)(a), (T)(b), __VA_ARGS__))
#else
#define ZIP(T, a, b, ...) ((vec_16)__builtin_shuffle((T)(a), (T)(b), (T){__VA_ARGS__}))
#endif

INLINE vec_16 load_16(const char *p) {
    vec_16 v;
    memcpy(&v, p, 16);
    return v;
}
INLINE vec_16 lanes_16(const char *p, ptrdiff_t stride) {
    (void)stride;
    return load_16(p);
}
INLINE void store_16(char *p, vec_16 v) { memcpy(p, &v, 16); }
INLINE vec_16 low1_16(vec_16 a, vec_16 b) {
    return ZIP(u8x16, a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
INLINE vec_16 high1_16(vec_16 a, vec_16 b) {
    return ZIP(u8x16, a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
INLINE vec_16 low2_16(vec_16 a, vec_16 b) { return ZIP(u16x8, a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
INLINE vec_16 high2_16(vec_16 a, vec_16 b) { return ZIP(u16x8, a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
INLINE vec_16 low4_16(vec_16 a, vec_16 b) { return ZIP(u32x4, a, b, 0, 4, 1, 5); }
INLINE vec_16 high4_16(vec_16 a, vec_16 b) { return ZIP(u32x4, a, b, 2, 6, 3, 7); }
INLINE vec_16 low8_16(vec_16 a, vec_16 b) { return ZIP(u64x2, a, b, 0, 2); }
INLINE vec_16 high8_16(vec_16 a, vec_16 b) { return ZIP(u64x2, a, b, 1, 3); }
INLINE vec_16 low16_16(vec_16 a, vec_16 b) { (void)b; return a; }
INLINE vec_16 high16_16(vec_16 a, vec_16 b) { (void)a; return b; }

#ifdef HAVE_NEON
INLINE vec_16 shuffle_16(vec_16 v, vec_16 mask) { return (vec_16)vqtbl1q_u8((uint8x16_t)v, (uint8x16_t)mask); }
#endif
#ifdef HAVE_X86
__attribute__((target("ssse3"), always_inline, unused)) static inline vec_16 shuffle_16(vec_16 v, vec_16 mask) {
    return (vec_16)_mm_shuffle_epi8((__m128i)v, (__m128i)mask);
}
#endif
INLINE vec_16 or_16(vec_16 a, vec_16 b) { return a | b; }
INLINE vec_16 same_16(const uint8_t *mask) { return load_16((const char *)mask); }
INLINE void scatter_16(char *p, ptrdiff_t stride, vec_16 v) {
    (void)stride;
    store_16(p, v);
}

/* --- 32 and 64 bytes, x86 ------------------------------------------------------------------------------------ */
#ifdef HAVE_X86
#define AVX2 __attribute__((target("avx2"), always_inline, unused)) static inline
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl"), always_inline, unused)) static inline
typedef __m256i vec_32;
typedef __m512i vec_64;

AVX2 vec_32 lanes_32(const char *p, ptrdiff_t stride) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)p)),
                                   _mm_loadu_si128((const void *)(p + stride)), 1);
}
AVX2 void store_32(char *p, vec_32 v) { _mm256_storeu_si256((void *)p, v); }
AVX2 void scatter_32(char *p, ptrdiff_t stride, vec_32 v) {
    _mm_storeu_si128((void *)p, _mm256_castsi256_si128(v));
    _mm_storeu_si128((void *)(p + stride), _mm256_extracti128_si256(v, 1));
}
AVX2 vec_32 shuffle_32(vec_32 v, vec_32 mask) { return _mm256_shuffle_epi8(v, mask); }
AVX2 vec_32 or_32(vec_32 a, vec_32 b) { return _mm256_or_si256(a, b); }
AVX2 vec_32 same_32(const uint8_t *mask) { return _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)mask)); }
AVX2 vec_32 low1_32(vec_32 a, vec_32 b) { return _mm256_unpacklo_epi8(a, b); }
AVX2 vec_32 high1_32(vec_32 a, vec_32 b) { return _mm256_unpackhi_epi8(a, b); }
AVX2 vec_32 low2_32(vec_32 a, vec_32 b) { return _mm256_unpacklo_epi16(a, b); }
AVX2 vec_32 high2_32(vec_32 a, vec_32 b) { return _mm256_unpackhi_epi16(a, b); }
AVX2 vec_32 low4_32(vec_32 a, vec_32 b) { return _mm256_unpacklo_epi32(a, b); }
AVX2 vec_32 high4_32(vec_32 a, vec_32 b) { return _mm256_unpackhi_epi32(a, b); }
AVX2 vec_32 low8_32(vec_32 a, vec_32 b) { return _mm256_unpacklo_epi64(a, b); }
AVX2 vec_32 high8_32(vec_32 a, vec_32 b) { return _mm256_unpackhi_epi64(a, b); }
AVX2 vec_32 low16_32(vec_32 a, vec_32 b) { (void)b; return a; }
AVX2 vec_32 high16_32(vec_32 a, vec_32 b) { (void)a; return b; }

AVX512 vec_64 lanes_64(const char *p, ptrdiff_t stride) {
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const void *)p));
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const void *)(p + stride)), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const void *)(p + 2 * stride)), 2);
    return _mm512_inserti32x4(v, _mm_loadu_si128((const void *)(p + 3 * stride)), 3);
}
AVX512 void store_64(char *p, vec_64 v) { _mm512_storeu_si512((void *)p, v); }
AVX512 void scatter_64(char *p, ptrdiff_t stride, vec_64 v) {
    _mm_storeu_si128((void *)p, _mm512_castsi512_si128(v));
    _mm_storeu_si128((void *)(p + stride), _mm512_extracti32x4_epi32(v, 1));
    _mm_storeu_si128((void *)(p + 2 * stride), _mm512_extracti32x4_epi32(v, 2));
    _mm_storeu_si128((void *)(p + 3 * stride), _mm512_extracti32x4_epi32(v, 3));
}
AVX512 vec_64 shuffle_64(vec_64 v, vec_64 mask) { return _mm512_shuffle_epi8(v, mask); }
AVX512 vec_64 or_64(vec_64 a, vec_64 b) { return _mm512_or_si512(a, b); }
AVX512 vec_64 same_64(const uint8_t *mask) { return _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)mask)); }
AVX512 vec_64 low1_64(vec_64 a, vec_64 b) { return _mm512_unpacklo_epi8(a, b); }
AVX512 vec_64 high1_64(vec_64 a, vec_64 b) { return _mm512_unpackhi_epi8(a, b); }
AVX512 vec_64 low2_64(vec_64 a, vec_64 b) { return _mm512_unpacklo_epi16(a, b); }
AVX512 vec_64 high2_64(vec_64 a, vec_64 b) { return _mm512_unpackhi_epi16(a, b); }
AVX512 vec_64 low4_64(vec_64 a, vec_64 b) { return _mm512_unpacklo_epi32(a, b); }
AVX512 vec_64 high4_64(vec_64 a, vec_64 b) { return _mm512_unpackhi_epi32(a, b); }
AVX512 vec_64 low8_64(vec_64 a, vec_64 b) { return _mm512_unpacklo_epi64(a, b); }
AVX512 vec_64 high8_64(vec_64 a, vec_64 b) { return _mm512_unpackhi_epi64(a, b); }
AVX512 vec_64 low16_64(vec_64 a, vec_64 b) { (void)b; return a; }
AVX512 vec_64 high16_64(vec_64 a, vec_64 b) { (void)a; return b; }
#endif

/* --- stores that go around the caches ------------------------------------------------------------------------ */
#ifdef HAVE_X86
INLINE void stream_line_sse2(char *dst, const char *src) { /* dst is a whole, aligned 64-byte line */
    for (int i = 0; i < 64; i += 16) _mm_stream_si128((void *)(dst + i), _mm_loadu_si128((const void *)(src + i)));
}
AVX2 void stream_line_avx2(char *dst, const char *src) {
    _mm256_stream_si256((void *)dst, _mm256_loadu_si256((const void *)src));
    _mm256_stream_si256((void *)(dst + 32), _mm256_loadu_si256((const void *)(src + 32)));
}
AVX512 void stream_line_avx512(char *dst, const char *src) {
    _mm512_stream_si512((void *)dst, _mm512_loadu_si512((const void *)src));
}
INLINE void stream_done(void) { _mm_sfence(); }
#else
INLINE void stream_line_portable(char *dst, const char *src) { memcpy(dst, src, 64); }
INLINE void stream_done(void) {}
#endif

#endif
