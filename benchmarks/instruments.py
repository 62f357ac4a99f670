"""How long does a survey take?  By instrument, with all nulls; and how it grows with width and length.

    python benchmarks/instruments.py                 the paper's bijection Transformer, 2.67M parameters, 128 episodes
    python benchmarks/instruments.py --growth --json out.json

The limits that the project has set itself: 5 minutes on two CPU cores, 2 minutes on an H200.  Weights do not matter to
the clock, so an untrained network stands in; dynamics needs checkpoints and is left out.  On a CPU the clock of the
process is given beside the wall's: divided by the cores it is what an idle machine would need at best.
"""

from __future__ import annotations

import time
from typing import Any

from common import Parser, place, run, save, whole

from windtunnel import models
from windtunnel.environment import default_device, environment, require_device
from windtunnel.errors import require_choice
from windtunnel.geometry.gather import untrained_twins
from windtunnel.geometry.guard import guarded
from windtunnel.mechanism.inspect import EPISODES, UNTRAINED
from windtunnel.mechanism.survey import INSTRUMENTS
from windtunnel.tunnels import Bijection

LIMITS_S = {"cpu": 300, "cuda": 120}
WIDTHS, LENGTHS = (96, 192, 384), (10, 20, 40)
GROWTH_EPISODES = 32


def timed(shape: dict[str, Any], length: int, episodes: int, device: str, only: list[str]) -> dict[str, Any]:
    """Seconds of each instrument on one network."""
    tunnel = Bijection(symbols=max(20, length), length=length)
    model = models.build("transformer", tunnel, **shape).to(device).eval()
    twins = untrained_twins(model, UNTRAINED)
    drawn = tunnel.sample(episodes, seed=0, stream="test")
    wall, processor, found = {}, {}, 0
    for name in only:
        start, began = time.perf_counter(), time.process_time()
        found += len(guarded(name, INSTRUMENTS[name], model, tunnel, drawn, twins))
        wall[name], processor[name] = time.perf_counter() - start, time.process_time() - began
        print(f"  {name:10s} {wall[name]:8.1f} s  processor {processor[name]:8.1f} s", flush=True)
    size = models.describe(model).params
    print(f"  {'all':10s} {sum(wall.values()):8.1f} s  processor {sum(processor.values()):8.1f} s", flush=True)
    return {
        "shape": shape,
        "length": length,
        "episodes": episodes,
        "parameters": size,
        "records": found,
        "seconds": wall,
        "processor_seconds": processor,
        "total_s": sum(wall.values()),
    }


def main() -> None:
    parser = Parser(description="Time of a survey, by instrument.")
    parser.add_argument("--device", default=default_device())
    parser.add_argument("--params", type=whole(1), default=2_670_000)
    parser.add_argument("--episodes", type=whole(1), default=EPISODES)
    parser.add_argument("--only", default=",".join(INSTRUMENTS), help="instruments, separated by commas")
    parser.add_argument("--growth", action="store_true", help="also at other widths and lengths, on fewer episodes")
    parser.add_argument("--json", type=place, default=None, help="write the result here")
    options = parser.parse_args()
    device, only = require_device(options.device), options.only.split(",")
    for name in only:
        require_choice("--only", name, INSTRUMENTS)
    print(f"{options.params:,} parameters, length 20, {options.episodes} episodes, {device}")
    main_row = timed({"params": options.params}, 20, options.episodes, device, only)
    limit = LIMITS_S["cuda" if device.startswith("cuda") else "cpu"]
    print(f"limit {limit} s: {'kept' if main_row['total_s'] <= limit else 'MISSED'}", flush=True)
    growth: dict[str, list] = {"width": [], "length": []}
    if options.growth:
        for width in WIDTHS:
            print(f"depth 6, width {width}, length 20, {GROWTH_EPISODES} episodes")
            growth["width"].append(timed({"depth": 6, "width": width}, 20, GROWTH_EPISODES, device, only))
        for length in LENGTHS:
            print(f"depth 6, width 192, length {length}, {GROWTH_EPISODES} episodes")
            growth["length"].append(timed({"depth": 6, "width": 192}, length, GROWTH_EPISODES, device, only))
        for kind, rows in growth.items():
            values = [row["shape"]["width"] if kind == "width" else row["length"] for row in rows]
            told = ", ".join(f"{value}: {row['total_s']:.1f} s" for value, row in zip(values, rows))
            print(f"by {kind}: {told}", flush=True)
    save(options.json, {"environment": environment(device), "limit_s": limit, "survey": main_row, "growth": growth})


if __name__ == "__main__":
    run(main)
