"""Add your own architecture: a running mean of the inputs so far, with a two-layer network on top.

It can accumulate evidence but not look anything up, as the output shows.  Run:  python examples/new_architecture.py
Or:  windtunnel --plugin examples.new_architecture train urn running-mean --out runs/mean
Or, on one small world for each primitive:  windtunnel --plugin examples.new_architecture scorecard running-mean
"""

import torch
import torch.nn.functional as F
from torch import nn

import windtunnel as wt


class RunningMean(nn.Module):
    """All that is required: forward(tokens, features, readout) -> logits (n, readouts, classes).

    The logits of a readout may not depend on anything after it: a model that reads ahead is refused."""

    def __init__(self, tunnel: wt.tunnels.Tunnel, width: int = 64):
        super().__init__()
        self.embedding = nn.Embedding(tunnel.vocabulary, width)
        self.hidden, self.head = nn.Linear(2 * width, width), nn.Linear(width, tunnel.classes)

    def forward(self, tokens, features, readout, tap=None):
        touch = wt.models.touch  # optional: tensors by names that the instruments know (docs/instruments.md)
        x = touch(tap, "embed", self.embedding(tokens))
        mean = x.cumsum(1) / torch.arange(1, x.shape[1] + 1, device=x.device)[:, None]
        mean = touch(tap, "blocks.0.attention.out", mean)  # what mixes positions, here uniform attention
        x = touch(tap, "blocks.0.residual", F.gelu(self.hidden(torch.cat([x, mean], dim=-1))))
        return self.head(x[:, readout])


wt.models.register("running-mean", RunningMean)

if __name__ == "__main__":
    for replacement in (False, True):
        tunnel = wt.tunnels.Bijection(symbols=5, length=5, replacement=replacement)
        run = wt.train(tunnel, "running-mean", steps=400, supervision="posterior", device="cpu")
        kl, uniform = (wt.evaluate(p, tunnel).kl_bits.mean for p in (run, wt.baselines(tunnel)["uniform"]))
        told = f"replacement={replacement!s:5}  KL {kl:.3f} bits from the exact belief (uniform guess: {uniform:.3f})"
        print(told, wt.primitives(run), sep="\n  ")  # accumulation is realised, binding is not
