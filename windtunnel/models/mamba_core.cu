// The core of a Mamba mixer, one kernel each way.  `mamba_cuda.py` says what is computed, and compiles this with
//     STATES      S, states per channel, at most 32
//     CHANNELS    E
//     GATE_ROW    numbers from one row of z to the next
//     HALF        1: x, r, z, B, C and the results are bfloat16;  0: they are float32
//     GROUP       steps from one kept state to the next
//
// A warp owns 32 channels of one episode and walks along time with their states in registers.  Lane 4 c + k holds
// channels 4 c … 4 c + 3, each with the k-th quarter of its states, so that a sum over states takes the 4 lanes of a
// quad, a sum over channels the 8 quads, and both few exchanges.  What is done once per channel (softplus, gate) is
// done by the lane of that number, for a group of steps at a time, and handed round through shared memory.  Channels
// and states that only fill up have Δ = 0, B = C = 0 and no gradient, and so change nothing.

constexpr int G = GROUP;
constexpr int P = (STATES + 3) / 4, PADDED = 4 * P;  // states per lane, and in all
constexpr int E = CHANNELS, WARPS = (E + 31) / 32, WIDTH = 32 * WARPS;
constexpr float LOG2_E = 1.4426950408889634f, LN_2 = 0.6931471805599453f;

#if HALF

// Inputs are rounded to 2^-9: here the processor's own approximations, good to 2^-22, lose nothing.
typedef unsigned short Number;

__device__ float wide(Number bits) { return __uint_as_float((unsigned)bits << 16); }

__device__ Number narrow(float value) {
    Number bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

__device__ float decay_over(float delta, float rate) { return exp2f(delta * rate); }

__device__ float sigmoid(float value) { return __fdividef(1.0f, 1.0f + exp2f(-LOG2_E * value)); }

__device__ float softplus(float value) {
    float u = exp2f(LOG2_E * value), far = LN_2 * __log2f(1.0f + u);
    float near = u * (1.0f - u * (0.5f - u * 0.33333333f));
    float log_1_u = u < 0.0156f ? near : far;
    return value > 20.0f ? value : log_1_u;
}

__device__ void add_product(float& sum, float&, float a, float b) { sum = fmaf(a, b, sum); }

#else

typedef float Number;

__device__ float wide(Number value) { return value; }
__device__ Number narrow(float value) { return value; }

// 2^(delta · rate) within 0.7 of the last bit.  The processor's own is less exact, and a long memory adds that up.
__device__ float decay_over(float delta, float rate) {
    const float shift = 12582912.0f;  // 1.5 · 2^23: added, it rounds to a whole number
    float shifted = fmaf(delta, rate, shift), whole = shifted - shift, rest = fmaf(delta, rate, -whole);
    float value = 0.00015353360504377633f;  // the least largest error on ± 1/2: 2e-9
    value = fmaf(value, rest, 0.0013398875016719103f);
    value = fmaf(value, rest, 0.00961843691766262f);
    value = fmaf(value, rest, 0.055503323674201965f);
    value = fmaf(value, rest, 0.24022647738456726f);
    value = fmaf(value, rest, 0.6931471824645996f);
    value = fmaf(value, rest, 1.0f);
    float power = __int_as_float(__float_as_int(value) + (__float_as_int(shifted) << 23));
    return whole < -125.0f ? 0.0f : power;
}

__device__ float sigmoid(float value) { return 1.0f / (1.0f + expf(-value)); }

__device__ float softplus(float value) { return value > 20.0f ? value : log1pf(expf(value)); }  // as torch has it

// What the sum rounds away is carried along: over a long time, terms of both signs lose digits otherwise.
__device__ void add_product(float& sum, float& lost, float a, float b) {
    float term = fmaf(a, b, -lost), total = sum + term;
    lost = (total - sum) - term;
    sum = total;
}

#endif

// Sums over the lanes that differ in the bits `bit`, bit / 2, … `last`.  At each bit a lane hands half of its N values
// to the lane across and takes its share of the others, until it is left with one sum of the N.
template <int N>
__device__ float sum_across(const float (&value)[N], int lane, int bit, int last) {
    if constexpr (N == 1) {
        float total = value[0];
        for (; bit >= last; bit /= 2) total += __shfl_xor_sync(~0u, total, bit);
        return total;
    } else {
        constexpr int LOWER = (N + 1) / 2;
        const bool upper = lane & bit;
        float share[LOWER];
#pragma unroll
        for (int i = 0; i < LOWER; i++) {
            float above = LOWER + i < N ? value[LOWER + i] : 0.0f;
            share[i] = (upper ? above : value[i]) + __shfl_xor_sync(~0u, upper ? value[i] : above, bit);
        }
        return sum_across<LOWER>(share, lane, bit / 2, last);
    }
}

// Of four channels, this lane is left with its own; of P states, with the one that `place_of_sum` tells.
__device__ float over_states(const float (&value)[4], int lane) { return sum_across<4>(value, lane, 2, 1); }
__device__ float over_channels(const float (&value)[P], int lane) { return sum_across<P>(value, lane, 16, 4); }

// P or more where the lane is left with nothing, or with what another lane also has.
__device__ int place_of_sum(int lane) {
    int place = 0, count = P;
#pragma unroll
    for (int bit = 16; bit >= 4; bit /= 2) {
        const int lower = (count + 1) / 2;
        if (lane & bit) place += count == 1 ? P : lower;
        count = lower;
    }
    return place;
}

// A · log2(e) of the lane's channels, from e on, and states, from s on.
__device__ void load_rates(float (&rate)[4][P], const float* A, int e, int s) {
#pragma unroll
    for (int q = 0; q < 4; q++)
#pragma unroll
        for (int p = 0; p < P; p++)
            rate[q][p] = e + q < E && s + p < STATES ? LOG2_E * A[(e + q) * STATES + s + p] : 0.0f;
}

// The rows of B and C of a group, as float32, in shared memory.
__device__ void stage(float (&to)[G][2][PADDED], const Number* BC, int bc_row, int steps, int lane) {
#pragma unroll
    for (int turn = 0; turn < (G * 2 * PADDED + 31) / 32; turn++) {
        const int j = turn * 32 + lane, i = j / (2 * PADDED), which = j / PADDED % 2, s = j % PADDED;
        const bool there = i < steps && s < STATES;
        if (i < G) to[i][which][s] = there ? wide(BC[i * bc_row + which * STATES + s]) : 0.0f;
    }
}

extern "C" __global__ void __launch_bounds__(32, STATES <= 16 ? 24 : 12) core_forward(
    const Number* __restrict__ x, const Number* __restrict__ r, const float* __restrict__ A,
    const Number* __restrict__ BC, const float* __restrict__ D, const Number* __restrict__ z,
    Number* __restrict__ out, float* __restrict__ states, int T, int bc_row, int keep) {
    __shared__ __align__(16) float delta[G][32], drive[G][32], bc[G][2][PADDED];
    const int lane = threadIdx.x % 32, e = lane / 4 * 4, s = lane % 4 * P;
    const int first = blockIdx.x % WARPS * 32, channel = min(first + lane, E - 1);
    const bool mine = first + lane < E;
    const long long episode = blockIdx.x / WARPS;
    x += episode * T * E + channel;
    r += episode * T * E + channel;
    z += episode * T * GATE_ROW + channel;
    out += episode * T * E + channel;
    BC += episode * T * bc_row;
    states += (episode * ((T - 1) / G) * PADDED + s) * WIDTH + first + e;

    float rate[4][P], h[4][P] = {};
    load_rates(rate, A, first + e, s);
    const float skip = D[channel];
    for (int left = T; left > 0; left -= G) {
        if (keep && left < T) {
#pragma unroll
            for (int p = 0; p < P; p++)
                *(float4*)(states + p * WIDTH) = make_float4(h[0][p], h[1][p], h[2][p], h[3][p]);
            states += PADDED * WIDTH;
        }
        Number u[G] = {}, raw[G] = {}, gate[G] = {};
#pragma unroll
        for (int i = 0; i < G; i++)
            if (i < left) u[i] = x[i * E], raw[i] = r[i * E], gate[i] = z[i * GATE_ROW];
        __syncwarp();
        stage(bc, BC, bc_row, left, lane);
#pragma unroll
        for (int i = 0; i < G; i++) {
            float positive = softplus(wide(raw[i])), step = mine ? positive : 0.0f;
            delta[i][lane] = step;
            drive[i][lane] = step * wide(u[i]);
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < G; i++) {
            if (i >= left) break;
            float y[4] = {};
#pragma unroll
            for (int q = 0; q < 4; q++)
#pragma unroll
                for (int p = 0; p < P; p++) {
                    float carried = decay_over(delta[i][e + q], rate[q][p]) * h[q][p];
                    h[q][p] = fmaf(drive[i][e + q], bc[i][0][s + p], carried);
                    y[q] = fmaf(h[q][p], bc[i][1][s + p], y[q]);
                }
            float total = fmaf(skip, wide(u[i]), over_states(y, lane)), through = wide(gate[i]);
            if (mine) out[i * E] = narrow(total * through * sigmoid(through));
        }
        x += G * E, r += G * E, z += G * GATE_ROW, out += G * E, BC += G * bc_row;
    }
}

// From the last group to the first: make its states again, with dz and dC, then walk back with the adjoint g.
// `dense` takes dx, dr and dz side by side; dA and dD are sums over time, dBC over the warp's channels.
extern "C" __global__ void __launch_bounds__(32, HALF && STATES <= 16 ? 12 : 8) core_backward(
    const Number* __restrict__ x, const Number* __restrict__ r, const float* __restrict__ A,
    const Number* __restrict__ BC, const float* __restrict__ D, const Number* __restrict__ z,
    const Number* __restrict__ grad, const float* __restrict__ states, Number* __restrict__ dense,
    float* __restrict__ dA, float* __restrict__ dBC, float* __restrict__ dD, int T, int bc_row) {
    __shared__ __align__(16) float delta[G][32], drive[G][32], dy[G][32], bc[G][2][PADDED];
    __shared__ float value[G][32], open_slope[G][32], delta_slope[G][32];  // what a lane keeps for itself
    const int lane = threadIdx.x % 32, e = lane / 4 * 4, s = lane % 4 * P;
    const int first = blockIdx.x % WARPS * 32, channel = min(first + lane, E - 1);
    const bool mine = first + lane < E;
    const long long episode = blockIdx.x / WARPS;
    const int kept = (T - 1) / G, place = place_of_sum(lane);
    const long long row = episode * T + kept * G;  // where the last group starts
    x += row * E + channel;
    r += row * E + channel;
    z += row * GATE_ROW + channel;
    grad += row * E + channel;
    dense += row * 3 * E + channel;
    BC += row * bc_row;
    dBC += ((long long)blockIdx.x * T + kept * G) * 2 * PADDED + s + place;
    states += ((episode + 1) * kept * PADDED + s) * WIDTH + first + e;  // one past its last

    float rate[4][P], g[4][P] = {}, rate_sum[4][P] = {}, lost[4][P] = {}, skip_sum = 0.0f, skip_lost = 0.0f;
    load_rates(rate, A, first + e, s);
    const float skip = D[channel];
    for (int group = kept, steps = T - kept * G; group >= 0; group--, steps = G) {
        float h[G][4][P];  // the state before each step
        states -= PADDED * WIDTH;
#pragma unroll
        for (int p = 0; p < P; p++) {
            float4 four = group ? *(const float4*)(states + p * WIDTH) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            h[0][0][p] = four.x, h[0][1][p] = four.y, h[0][2][p] = four.z, h[0][3][p] = four.w;
        }
        Number u[G] = {}, raw[G] = {}, gate[G] = {}, wanted[G] = {};
#pragma unroll
        for (int i = 0; i < G; i++)
            if (i < steps) u[i] = x[i * E], raw[i] = r[i * E], gate[i] = z[i * GATE_ROW], wanted[i] = grad[i * E];
        __syncwarp();
        stage(bc, BC, bc_row, steps, lane);
#pragma unroll
        for (int i = 0; i < G; i++) {
            float positive = softplus(wide(raw[i]));
            float step = mine ? positive : 0.0f, up = mine ? wide(wanted[i]) : 0.0f;
            float through = wide(gate[i]), open = sigmoid(through), push = up * through * open;
            delta[i][lane] = step;
            drive[i][lane] = step * wide(u[i]);
            dy[i][lane] = push;
            value[i][lane] = wide(u[i]);
            open_slope[i][lane] = up * open * fmaf(through, 1.0f - open, 1.0f);
            delta_slope[i][lane] = sigmoid(wide(raw[i]));
            add_product(skip_sum, skip_lost, push, wide(u[i]));
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < G; i++) {
            if (i >= steps) break;
            float y[4] = {}, dc[P] = {};
#pragma unroll
            for (int q = 0; q < 4; q++)
#pragma unroll
                for (int p = 0; p < P; p++) {
                    float carried = decay_over(delta[i][e + q], rate[q][p]) * h[i][q][p];
                    float after = fmaf(drive[i][e + q], bc[i][0][s + p], carried);
                    y[q] = fmaf(after, bc[i][1][s + p], y[q]);
                    dc[p] = fmaf(after, dy[i][e + q], dc[p]);
                    if (i + 1 < G) h[i + 1][q][p] = after;
                }
            float total = fmaf(skip, value[i][lane], over_states(y, lane)), sum = over_channels(dc, lane);
            if (mine) dense[(3 * i + 2) * E] = narrow(total * open_slope[i][lane]);
            if (place < P) dBC[(2 * i + 1) * PADDED] = sum;
        }
        __syncwarp();  // so that no compiler keeps all the decays until they come again, for want of registers
#pragma unroll
        for (int i = G - 1; i >= 0; i--) {
            if (i >= steps) continue;
            float driven[4] = {}, slowed[4] = {}, db[P] = {};
#pragma unroll
            for (int q = 0; q < 4; q++)
#pragma unroll
                for (int p = 0; p < P; p++) {
                    float adjoint = fmaf(dy[i][e + q], bc[i][1][s + p], g[q][p]);
                    db[p] = fmaf(adjoint, drive[i][e + q], db[p]);
                    driven[q] = fmaf(adjoint, bc[i][0][s + p], driven[q]);
                    g[q][p] = adjoint * decay_over(delta[i][e + q], rate[q][p]);
                    float carried = g[q][p] * h[i][q][p];
                    slowed[q] = fmaf(carried, rate[q][p], slowed[q]);
                    add_product(rate_sum[q][p], lost[q][p], carried, delta[i][e + q]);
                }
            float d_drive = over_states(driven, lane), sum = over_channels(db, lane);
            float d_delta = fmaf(d_drive, value[i][lane], LN_2 * over_states(slowed, lane));
            if (mine) {
                dense[3 * i * E] = narrow(fmaf(d_drive, delta[i][lane], skip * dy[i][lane]));
                dense[(3 * i + 1) * E] = narrow(d_delta * delta_slope[i][lane]);
            }
            if (place < P) dBC[2 * i * PADDED] = sum;
        }
        x -= G * E, r -= G * E, z -= G * GATE_ROW, grad -= G * E, BC -= G * bc_row;
        dense -= G * 3 * E, dBC -= G * 2 * PADDED;
    }
    if (mine) dD[episode * E + channel] = skip_sum;
#pragma unroll
    for (int q = 0; q < 4; q++)
#pragma unroll
        for (int p = 0; p < P; p++)
            if (first + e + q < E && s + p < STATES)
                dA[(episode * E + first + e + q) * STATES + s + p] = rate_sum[q][p];
}
