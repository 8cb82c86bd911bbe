/* Runs CUDA C++ on the host: each thread of a block is a fiber, __syncthreads switches to the scheduler, which goes on
 * when all fibers wait at the barrier, and the order of the fibers is shuffled from a seed. Blocks run one by one. */
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <ucontext.h>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define __align__(n) alignas(n)

struct dim3 { unsigned x, y, z; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
static dim3 threadIdx, blockIdx, blockDim, gridDim;

static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    uint64_t bytes = (uint64_t)b << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) result |= (unsigned)(bytes >> (selector >> 4 * i & 7) * 8 & 255) << 8 * i;
    return result;
}

namespace shim {
struct Fiber {
    ucontext_t context;
    std::vector<char> stack;
    dim3 index;
    bool done;
};
static ucontext_t scheduler;
static Fiber *current;
static std::vector<Fiber> fibers;

static void yield() {
    Fiber *self = current;
    swapcontext(&self->context, &scheduler);
    threadIdx = self->index;
}
}  // namespace shim
#ifdef NO_BARRIER
static inline void __syncthreads() {}
#else
static inline void __syncthreads() { shim::yield(); }
#endif

#include SOURCE

namespace shim {
typedef void (*Kernel)(char *, const char *, Walk);
static Kernel kernel;
static char *dst_argument;
static const char *src_argument;
static Walk walk_argument;

static void body() {
    kernel(dst_argument, src_argument, walk_argument);
    current->done = true;
}

static void run_block(std::mt19937 &random) {
    std::vector<int> order(fibers.size());
    for (size_t i = 0; i < fibers.size(); i++) {
        Fiber &fiber = fibers[i];
        order[i] = (int)i;
        fiber.done = false;
        fiber.index = {(unsigned)(i % blockDim.x), (unsigned)(i / blockDim.x), 0};
        getcontext(&fiber.context);
        fiber.stack.resize(1 << 15);
        fiber.context.uc_stack.ss_sp = fiber.stack.data();
        fiber.context.uc_stack.ss_size = fiber.stack.size();
        fiber.context.uc_link = &scheduler;
        makecontext(&fiber.context, body, 0);
    }
    for (bool alive = true; alive;) { /* one round: every fiber up to its next barrier or its end */
        alive = false;
        std::shuffle(order.begin(), order.end(), random);
        for (int i : order) {
            if (fibers[i].done) continue;
            current = &fibers[i];
            threadIdx = current->index;
            swapcontext(&scheduler, &current->context);
            alive = alive || !fibers[i].done;
        }
    }
}
}  // namespace shim

#define NAMED(name) if (!std::strcmp(entry, #name)) return name;
#define WIDTHS(name) NAMED(name##_1) NAMED(name##_2) NAMED(name##_4) NAMED(name##_8) NAMED(name##_16)
static shim::Kernel find(const char *entry) {
    WIDTHS(gather_naive) WIDTHS(gather_coalesced) WIDTHS(tile_padded) WIDTHS(tile_vector) WIDTHS(rows) WIDTHS(splat)
    return nullptr;
}

extern "C" int launch(const char *entry, const unsigned *grid, const unsigned *block, char *dst, const char *src,
                      const long long *walk, unsigned seed) {
    shim::kernel = find(entry);
    if (!shim::kernel || sizeof(Walk) != (2 + 3 * MAX_DIMS) * sizeof(long long)) return 1;
    shim::dst_argument = dst;
    shim::src_argument = src;
    std::memcpy(&shim::walk_argument, walk, sizeof(Walk));
    gridDim = {grid[0], grid[1], 1};
    blockDim = {block[0], block[1], 1};
    shim::fibers.resize(block[0] * block[1]);
    std::mt19937 random(seed);
    for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++)
        for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) shim::run_block(random);
    return 0;
}
