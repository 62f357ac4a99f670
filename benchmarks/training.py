"""Speed on a machine that has torch and nothing else; with the package installed, `windtunnel bench` does the same.

    python benchmarks/training.py [--device cuda] [--only hmm/transformer-9x256,hmm/lstm] [--json FILE]
    python benchmarks/training.py --only all

By default training throughput per tunnel and architecture, data generation included: sequences per second of whole
training steps (sampling, forward, backward, optimiser), the model's floating-point operations (matrix products only,
counted, forward and backward) and their share of what the card does in a large bfloat16 matrix product in the same
run.  On a CPU the cases are those of the quick preset and the share is of a float32 product.  `--only` names cases,
sections (training, seeds, sampling, evaluation, growth, profile, startup, compile) or `all` sections.
Compilation is most of it: several of these may compile side by side and take turns to measure (`--turn FILE`).
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from common import Parser, place, run, whole, wholes

from windtunnel.environment import default_device, require_device
from windtunnel.errors import InputError
from windtunnel.training.speed import SECTIONS, Plan, bench
from windtunnel.training.speed.partial_result import PartialResult
from windtunnel.training.speed.plan import chosen
from windtunnel.training.speed.tables import headline, notes, plain_text, tables


def main() -> None:
    parser = Parser(description="Speed of training, and of what belongs to it.")
    parser.add_argument("--device", default=default_device())
    parser.add_argument("--only", default="training", help="cases and sections, separated by commas, or all")
    parser.add_argument("--seeds", type=wholes(1), default=(1,), help="trained together; numbers, separated by commas")
    parser.add_argument("--batch", type=whole(1), default=None, help="instead of the recipe's")
    parser.add_argument("--quick", action="store_true", help="shorter measurements")
    parser.add_argument("--turn", type=Path, default=None, help="file of turns, for several of these on one card")
    parser.add_argument("--json", type=place, default=None)
    options = parser.parse_args()
    device = require_device(options.device)
    words = list(SECTIONS) if options.only == "all" else [word for word in options.only.split(",") if word]
    sections, cases = chosen(words, device)
    plan = Plan(device, sections, cases, options.batch, options.seeds, options.quick, options.turn)
    told = partial(print, file=sys.stderr, flush=True)
    kept = PartialResult(options.json)
    result = bench(plan, say=lambda line: told(f"… {line}"), keep=kept.rows)
    print(headline(result), *map(plain_text, tables(result)), *notes(result), sep="\n")
    kept.whole(result)
    if result["failed"]:
        raise InputError(f"without a row: {'; '.join(line for lines in result['failed'].values() for line in lines)}")


if __name__ == "__main__":
    run(main)
