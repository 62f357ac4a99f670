"""Is what a linear map reads also used?  By how strongly the map is penalised.

    python benchmarks/decoded.py [--only hmm-transformer,hmm-mamba] [--json FILE]

Networks of `zoo/`, the stream after the last block.  A ridge map from the stream to the exact belief (or its entropy)
is fitted on one half of the episodes.  On the other half: its R², and how far the prediction moves to a donor's belief
when the directions that the map reads are exchanged for the donor's; random subspaces of equal rank beside it.  Both
numbers are of the same map.
"""

from __future__ import annotations

from typing import Any

import torch
from common import Parser, place, run, save, whole
from torch import Tensor

from windtunnel.environment import environment
from windtunnel.errors import require_choice
from windtunnel.mechanism import Bench, Pair, donors
from windtunnel.mechanism.bases import FLAT, centred, ridge, span
from windtunnel.mechanism.swap import RANDOM, measure_swap
from windtunnel.study import zoo
from windtunnel.tunnels.information import entropy_bits

NETWORKS = ("bijection-transformer", "hmm-transformer", "hmm-mamba", "hmm-lstm")
PENALTIES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
TARGETS = {"belief": lambda belief: belief, "entropy": lambda belief: entropy_bits(belief)[..., None]}


def measure(name: str, episodes: int) -> list[dict[str, Any]]:
    """One row per target and penalty."""
    shipped = zoo.as_run(name)
    network, tunnel = shipped.models[0], shipped.tunnel
    drawn, half = tunnel.sample(episodes, seed=0, stream="test"), episodes // 2
    fit, trial = Bench(network, tunnel, drawn[:half]), drawn[half:]
    given = donors(tunnel, trial)
    pair = Pair.of(network, tunnel, trial, given.episodes, given.readouts)
    stream, readout = fit.anatomy.streams[-1], drawn.inputs.readout
    shown, tried = (bench.recorded(stream)[:, readout].double() for bench in (fit, pair.recipient))
    rows = []
    for target, read in TARGETS.items():
        known, truth = read(fit.belief.double()), read(pair.recipient.belief.double())
        if float(centred(known).square().mean()) <= FLAT:
            continue  # position alone fixes it
        for penalty in PENALTIES:
            weights = ridge(centred(shown), centred(known), penalty)
            found = measure_swap(pair, [], stream, target, basis := span(weights))
            guess = (tried - shown.mean(0)) @ weights + known.mean(0)
            rows.append(
                {"network": name, "stream": stream, "target": target, "penalty": penalty, "rank": basis.shape[1]}
                | {"r_squared": _r_squared(truth, guess), "moved": found.value, "low": found.low, "high": found.high}
                | {"random": float(found.nulls[RANDOM].mean()), "p_value": found.p_value}
            )
    return rows


def _r_squared(y: Tensor, guess: Tensor) -> float:
    """Of what position leaves of y (n, K, C): nothing is due to knowing where one is."""
    return float(1 - (y - guess).square().sum() / (y - y.mean(0)).square().sum())


def main() -> None:
    parser = Parser(description="What a linear map reads, and whether it is used.")
    parser.add_argument("--only", default=",".join(NETWORKS), help="networks of the zoo, separated by commas")
    parser.add_argument("--episodes", type=whole(16), default=128)
    parser.add_argument("--json", type=place, default=None)
    options = parser.parse_args()
    names = options.only.split(",")
    for name in names:
        require_choice("--only", name, zoo.names())
    rows = []
    print(f"{'network':24s} {'target':8s} {'penalty':>8s} {'R²':>7s} {'moved by a swap':>24s} {'random':>8s}")
    for name in names:
        with torch.no_grad():
            rows += (mine := measure(name, options.episodes))
        for row in mine:
            moved = f"{row['moved']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"
            told = f"{row['penalty']:8g} {row['r_squared']:7.3f} {moved:>24s} {row['random']:8.3f}"
            print(f"{row['network']:24s} {row['target']:8s} {told}", flush=True)
    save(options.json, {"environment": environment("cpu"), "episodes": options.episodes, "decoded": rows})


if __name__ == "__main__":
    run(main)
