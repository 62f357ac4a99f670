// Enough of CUDA to run blocks of one warp on a CPU: 32 lanes that take turns, each with a stack of its own.
// A lane goes on until it must wait for the others, so between two waits they run one after another: from the first to
// the last, or the other way round, which must make no difference.  All must wait equally often.
#include <ucontext.h>

#include <cmath>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#define __global__
#define __device__ static
#define __shared__ static
#define __restrict__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#define asm(...) bits = nearest_half(value)  // the one instruction that is written out: float32 to bfloat16

constexpr int LANES = 32;
struct Index {
    int x;
};
struct float4 {
    float x, y, z, w;
};
static Index threadIdx, blockIdx;
static ucontext_t scheduler, lanes[LANES];
static float exchanged[LANES];

template <class To, class From>
static To as(From value) {
    To same;
    static_assert(sizeof(same) == sizeof(value), "as many bits");
    std::memcpy(&same, &value, sizeof(value));
    return same;
}
static float __uint_as_float(unsigned bits) { return as<float>(bits); }
static float __int_as_float(int bits) { return as<float>(bits); }
static int __float_as_int(float value) { return as<int>(value); }
static float __fdividef(float above, float below) { return above / below; }
#define __log2f log2f
static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static int min(int a, int b) { return a < b ? a : b; }
static unsigned short nearest_half(float value) {
    unsigned bits = as<unsigned>(value);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

static void __syncwarp() {
    const int lane = threadIdx.x;
    swapcontext(&lanes[lane], &scheduler);
    threadIdx.x = lane;
}

static float __shfl_xor_sync(unsigned, float value, int bit) {
    exchanged[threadIdx.x] = value;
    __syncwarp();
    float across = exchanged[threadIdx.x ^ bit];
    __syncwarp();  // nobody writes the next value before all have read this one
    return across;
}

static void (*body)(void**);
static void** arguments;
static int finished;
static void run_lane() {
    body(arguments);
    finished++;
}

// Whether all lanes of every block waited equally often.
static bool run_blocks(int blocks, bool backwards) {
    static std::vector<char> stacks(LANES << 20);
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) {
        for (int lane = 0; lane < LANES; lane++) {
            getcontext(&lanes[lane]);
            lanes[lane].uc_stack.ss_sp = &stacks[(size_t)lane << 20];
            lanes[lane].uc_stack.ss_size = 1 << 20;
            lanes[lane].uc_link = &scheduler;
            makecontext(&lanes[lane], run_lane, 0);
        }
        for (finished = 0; finished < LANES;) {
            if (finished) return false;
            for (int turn = 0; turn < LANES; turn++) {
                const int lane = threadIdx.x = backwards ? LANES - 1 - turn : turn;
                swapcontext(&scheduler, &lanes[lane]);
            }
        }
    }
    return true;
}

template <class... A, size_t... I>
static void call(void (*kernel)(A...), void** values, std::index_sequence<I...>) {
    kernel(*(std::remove_const_t<A>*)values[I]...);
}
template <class... A>
static void call(void (*kernel)(A...), void** values) {
    call(kernel, values, std::index_sequence_for<A...>());
}

// After the source of a kernel: a function for ctypes, which takes the addresses of the arguments.
#define LAUNCHER(name)                                                           \
    extern "C" bool launch_##name(int blocks, void** values, bool backwards) {   \
        body = [](void** given) { call(name, given); };                          \
        arguments = values;                                                      \
        return run_blocks(blocks, backwards);                                    \
    }
