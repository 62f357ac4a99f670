"""Training throughput per tunnel and architecture, data generation included.

    python benchmarks/training.py [--device cuda] [--only hmm/transformer-9x256,hmm/lstm] [--json FILE]

For each case: sequences per second of whole training steps (sampling, forward, backward, optimiser), the model's
floating-point operations (matrix products only, counted, forward and backward) and their share of what the card does
in a large bfloat16 matrix product in the same run.  On a CPU the cases shrink and the share is of a float32 product.
"""

from __future__ import annotations

import argparse
import time

import torch
from common import save
from torch.utils.flop_counter import FlopCounterMode

from windtunnel.environment import environment, require_device
from windtunnel.training import Recipe, recipe_for
from windtunnel.training.engine import Engine
from windtunnel.training.network import Network
from windtunnel.tunnels import HMM, Bijection, Recall


def cases() -> dict[str, Recipe]:
    """The shapes that the project's speed is measured on."""
    hmm, bijection, recall = HMM(), Bijection(), Recall()
    paper = recipe_for(hmm, "transformer").with_options(
        model_options={"preset": "paper-hmm", "positions": "none"}, batch=1024
    )
    found = {"hmm/transformer-9x256": paper}
    for model in ("transformer", "mamba", "lstm", "mlp", "linear-attention"):
        found[f"hmm/{model}"] = recipe_for(hmm, model)
    found["bijection/transformer"] = recipe_for(bijection, "transformer")
    found["recall/transformer"] = recipe_for(recall, "transformer")
    return found


def matrix_rate(device: str) -> float:
    """Floating-point operations per second of one large matrix product, best of several."""
    size, dtype = (8192, torch.bfloat16) if device != "cpu" else (1024, torch.float32)
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    best = float("inf")
    for _ in range(10):
        drain(device)
        start = time.perf_counter()
        torch.mm(a, b)
        drain(device)
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best


def flops_per_sequence(recipe: Recipe) -> float:
    """Matrix-product operations of one training sequence, forward and backward, counted on the written-out path."""
    network = Network(recipe, 0, "cpu")
    inputs = recipe.tunnel.sample(2, dtype=torch.float32).inputs
    with FlopCounterMode(display=False) as counter:
        network.model(inputs.tokens, inputs.features, inputs.readout, tap=lambda name, value: value).sum().backward()
    return counter.get_total_flops() / 2


def drain(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def print_profile(engine: Engine, device: str, steps: int = 3) -> None:
    """Where a step's time goes: its most expensive kernels (GPU) or operators (CPU)."""
    kinds = [torch.profiler.ProfilerActivity.CPU] + [torch.profiler.ProfilerActivity.CUDA] * (device != "cpu")
    with torch.profiler.profile(activities=kinds) as profile:
        engine.advance(steps)
        drain(device)
    spent = [
        (event.self_device_time_total if device != "cpu" else event.self_cpu_time_total, event.count, event.key)
        for event in profile.key_averages()
    ]
    total = sum(time for time, _, _ in spent)
    for time_us, count, name in sorted(spent, reverse=True)[:24]:
        print(f"  {time_us / steps / 1e3:8.3f} ms {100 * time_us / total:5.1f}% {count / steps:7.1f} ×  {name[:110]}")


def measure(recipe: Recipe, device: str, seconds: float, profile: bool = False) -> dict[str, float]:
    """Sequences per second over about that many seconds, and the time to build, compile and capture."""
    start = time.perf_counter()
    networks = [Network(recipe, seed, device) for seed in recipe.seeds]
    engine = Engine(networks)
    engine.advance(2)
    drain(device)
    setup = time.perf_counter() - start
    start = time.perf_counter()
    engine.advance(3)
    drain(device)
    steps = max(3, int(seconds / ((time.perf_counter() - start) / 3)))
    start = time.perf_counter()
    engine.advance(steps)
    drain(device)
    each = (time.perf_counter() - start) / steps
    rate = recipe.batch * len(networks) / each
    if profile:
        print_profile(engine, device)
    memory = torch.cuda.max_memory_allocated() / 2**30 if device != "cpu" else float("nan")
    return {"sequences_per_s": rate, "ms_per_step": 1e3 * each, "setup_s": setup, "memory_gib": memory}


def main() -> None:
    parser = argparse.ArgumentParser(description="Training throughput per tunnel and architecture.")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--only", default="", help="cases, separated by commas")
    parser.add_argument("--seeds", default="1", help="numbers of seeds trained together, separated by commas")
    parser.add_argument("--seconds", type=float, default=3.0, help="measured time per case")
    parser.add_argument("--profile", action="store_true", help="list the most expensive kernels of a step")
    parser.add_argument("--batch", type=int, default=None)
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    device = require_device(options.device)
    peak = matrix_rate(device)
    print(f"{environment(device)['device']}: {peak / 1e12:.1f} TFLOP/s in a large matrix product")
    rows = []
    for name, recipe in cases().items():
        if options.only and name not in options.only.split(","):
            continue
        if device == "cpu":
            recipe = recipe.with_options(batch=32, precision="float32")
        if options.batch:
            recipe = recipe.with_options(batch=options.batch)
        flops = flops_per_sequence(recipe)
        for count in map(int, options.seeds.split(",")):
            if device != "cpu":
                torch.cuda.reset_peak_memory_stats()
            row = {"case": name, "seeds": count, "batch": recipe.batch, "flops_per_sequence": flops}
            row |= measure(recipe.with_options(seeds=tuple(range(count))), device, options.seconds, options.profile)
            row["share_of_peak"] = row["sequences_per_s"] * flops / peak
            rows.append(row)
            print(
                f"{name:24s} seeds {count} batch {recipe.batch:5d} {row['sequences_per_s']:11,.0f} sequences/s "
                f"{row['ms_per_step']:8.2f} ms/step {100 * row['share_of_peak']:5.1f}% of peak "
                f"{row['setup_s']:6.1f} s set-up {row['memory_gib']:6.2f} GiB",
                flush=True,
            )
    save(options.json, {"environment": environment(device), "matrix_flops_per_s": peak, "rows": rows})


if __name__ == "__main__":
    main()
