"""Does a network carry a belief that it was never shown?  Transformers taught by the next symbol alone.

    python benchmarks/unshown.py [--only dirichlet-0.3] [--seeds 3] [--steps 8000] [--json FILE]

The HMM Transformer of the study (2.67M parameters), with the next observation as its label: neither a hidden state nor
any probability is shown.  Then the instruments ask for the exact belief about the hidden state, with all their nulls,
and for what lies beyond short windows and beyond the distribution of the next symbol, which is what it was taught.

Worlds: the paper's, whose next symbol hardly depends on more than the last one, so that there is little to learn; the
same with rows of concentration 0.3, where it does; and rotating chains, where the belief must be carried on.
"""

from __future__ import annotations

from typing import Any

import torch
from common import Parser, place, run, save, whole

from windtunnel.environment import default_device, environment, require_device
from windtunnel.errors import require_choice
from windtunnel.fidelity import equivalent_window, evaluate
from windtunnel.mechanism import inspect
from windtunnel.study.running.surveying import to_records
from windtunnel.training import train
from windtunnel.training.tuned_recipes import hmm_transformer
from windtunnel.tunnels import HMM

WORLDS = {
    "dirichlet-0.3": HMM(concentration=0.3, predict="symbol"),
    "dirichlet": HMM(predict="symbol"),
    "rotating": HMM(dynamics="rotating", mixing=(0.90, 0.97), predict="symbol"),
}
INSTRUMENTS = ("beliefs", "lens", "clusters")


def measure(world: str, seeds: int, steps: int, episodes: int, device: str) -> dict[str, Any]:
    """Train on one world, score the symbols, survey the belief about states."""
    recipe = hmm_transformer(WORLDS[world]).with_options(supervision="labels", steps=steps, name=f"unshown-{world}")
    trained = train(recipe=recipe, device=device, seeds=seeds)
    home = evaluate(trained, episodes=20_000, stream="test")
    found = inspect(trained, only=INSTRUMENTS, episodes=episodes)
    return {
        "recipe": trained.recipe.to_dict(),
        "seconds": trained.seconds(),
        "history": {str(seed): trained.metrics(seed) for seed in trained.recipe.seeds},
        "home": home.to_dict(),
        "equivalent_window": equivalent_window(home),
        "survey_settings": {"episodes": episodes, "untrained": found.settings["untrained"]},
        "survey": [reading for entry in found.entries for reading in to_records([entry.found], entry.seed)],
    }


def tell(world: str, result: dict[str, Any]) -> None:
    """How well it was learnt, and the readings of the last layer."""
    kl = [f"{seed:.3g}" for seed in result["home"]["kl_bits"]["per_seed"]]
    print(f"== {world}: KL of the next symbol {', '.join(kl)} bits, window {result['equivalent_window']:.2f}")
    layers = [reading["where"].get("layer") for reading in result["survey"] if "where" in reading]
    last = max(layer for layer in layers if isinstance(layer, int))
    for reading in result["survey"]:
        if "missing" in reading:
            print(f"  {reading['name']}: {reading['missing']}")
        elif reading["where"].get("layer") == last and "R²" in reading["name"]:
            nulls = ", ".join(f"{name} {sum(values) / len(values):.3f}" for name, values in reading["nulls"].items())
            print(f"  seed {reading['where']['seed']}  {reading['name']:40s} {reading['value']:.3f}  ({nulls})")


def main() -> None:
    parser = Parser(description="Is a belief carried that was never shown?")
    parser.add_argument("--device", default=default_device())
    parser.add_argument("--only", default=",".join(WORLDS), help=f"of {', '.join(WORLDS)}, separated by commas")
    parser.add_argument("--seeds", type=whole(1), default=3)
    parser.add_argument("--steps", type=whole(1), default=8000)
    parser.add_argument("--episodes", type=whole(16), default=256, help="of the survey")
    parser.add_argument("--json", type=place, default=None, help="written after each world")
    options = parser.parse_args()
    device, names = require_device(options.device), options.only.split(",")
    for name in names:
        require_choice("--only", name, WORLDS)
    results = {}
    for name in names:
        results[name] = measure(name, options.seeds, options.steps, options.episodes, device)
        tell(name, results[name])
        save(options.json, {"environment": environment(device), "worlds": results})
        if device != "cpu":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    run(main)
