"""LSTM: the same cell as a plain stack (the paper's) and inside pre-norm residual blocks.

    i, f, g, o = σ, σ, tanh, σ of  W_ih x_t + b_ih + W_hh h_{t−1} + b_hh
    c_t        = f c_{t−1} + i g
    h_t        = o tanh(c_t)

    style="stacked"    x ← lstm(x), layer upon layer, no skips; PyTorch's own initialisation, as published
    style="residual"   x ← x + lstm(norm(x));  x ← x + W_2 · gelu(W_1 · norm(x));  forget gates start open

Without a tap each layer is one `nn.LSTM` call (cuDNN on a GPU).  `torch.compile` does not trace it, hence
`compilable = False`: a trainer runs the model eagerly, and may capture that in a CUDA graph.  Where a tap wants
gates, cell or hidden, the loop is written out over the same weights.  (cuDNN computes float32 products in TF32 unless
told otherwise: 3e-4 relative on an H200, against 4e-6 without.  Under autocast torch gives cuDNN float16, also where
bfloat16 was asked for: the kernels in `benchmarks/results/h200/profile.json` say so.)

Taps of block i (W = width):
    blocks.i.lstm.gates              (n, T, 4, W)  i, f, g, o after their nonlinearities  ┐ handed over step by step:
    blocks.i.lstm.cell               (n, T, W)     c                                      │ an edit is carried on
    blocks.i.lstm.hidden             (n, T, W)     h                                      ┘
    blocks.i.residual_mid, .ff.hidden, .ff.out                                            style="residual" only
    blocks.i.residual                (n, T, W)     after the block
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from windtunnel.errors import require, require_choice, require_int
from windtunnel.fidelity.predictor import full_precision
from windtunnel.models.base import SequenceModel, Sizes
from windtunnel.models.layers import FeedForward
from windtunnel.models.shape import Config, Dial
from windtunnel.models.taps import Tap, touch, wanted

STYLES = ("residual", "stacked")


@dataclass(frozen=True)
class LSTMConfig(Config):
    """Shape and style of an LSTM.  A zero means: not used by this style."""

    style: str = "residual"
    ff_width: int = 0
    """Width of the feed-forward hidden layer (residual)."""
    embed_width: int = 0
    """Width of the embedding that the first layer reads (stacked); `width` in the paper."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("style", self.style, STYLES)
        used, unused = ("ff_width", "embed_width") if self.style == "residual" else ("embed_width", "ff_width")
        require_int(used, getattr(self, used), 1)
        require(getattr(self, unused) == 0, unused, getattr(self, unused), f"0 when style is {self.style}")


class LSTMLayer(nn.Module):
    """One LSTM layer with a fused and a written-out path over the same weights."""

    def __init__(self, input_width: int, width: int, *, open_forget_gates: bool) -> None:
        super().__init__()
        self.lstm = nn.LSTM(input_width, width, batch_first=True)
        if open_forget_gates:
            with torch.no_grad():
                self.lstm.bias_ih_l0[width : 2 * width] += 1.0  # pyright: ignore[reportIndexIssue]

    def forward(self, x: Float[Tensor, "n T E"], tap: Tap | None, name: str) -> Float[Tensor, "n T W"]:
        if tap is None:
            return self.lstm(x)[0]
        if wanted(tap, *(f"{name}.{part}" for part in ("gates", "cell", "hidden"))):
            return self.explicit(x, tap, name)
        with full_precision():  # what is read or changed must not depend on which tensors a tap wants
            return self.lstm(x)[0]

    def explicit(self, x: Float[Tensor, "n T E"], tap: Tap, name: str) -> Float[Tensor, "n T W"]:
        """The plain twin of `nn.LSTM`: step by step, gates, cell and hidden state handed to the tap."""
        w_ih, w_hh, b_ih, b_hh = self.lstm.all_weights[0]
        driven = x @ w_ih.T + b_ih + b_hh
        h = c = x.new_zeros(x.shape[0], w_hh.shape[1])
        outputs = []
        for t in range(x.shape[1]):
            i, f, g, o = (driven[:, t] + h @ w_hh.T).chunk(4, dim=-1)
            gates = torch.stack([i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()], dim=1)
            i, f, g, o = tap(f"{name}.gates@{t}", gates).unbind(1)
            c = tap(f"{name}.cell@{t}", f * c + i * g)
            h = tap(f"{name}.hidden@{t}", o * c.tanh())
            outputs.append(h)
        return torch.stack(outputs, dim=1)


class ResidualBlock(nn.Module):
    """LSTM, then feed-forward, each on a normed copy of the stream and added to it."""

    def __init__(self, config: LSTMConfig) -> None:
        super().__init__()
        self.lstm_norm = nn.LayerNorm(config.width)
        self.lstm = LSTMLayer(config.width, config.width, open_forget_gates=True)
        self.ff_norm = nn.LayerNorm(config.width)
        self.ff = FeedForward(config.width, config.ff_width, gain=(2 * config.depth) ** -0.5)

    def forward(self, x: Float[Tensor, "n T W"], tap: Tap | None, name: str) -> Float[Tensor, "n T W"]:
        x = touch(tap, f"{name}.residual_mid", x + self.lstm(self.lstm_norm(x), tap, f"{name}.lstm"))
        return touch(tap, f"{name}.residual", x + self.ff(self.ff_norm(x), tap, f"{name}.ff"))


class StackedBlock(nn.Module):
    """An LSTM layer and nothing else."""

    def __init__(self, config: LSTMConfig, index: int) -> None:
        super().__init__()
        self.lstm = LSTMLayer(config.width if index else config.embed_width, config.width, open_forget_gates=False)

    def forward(self, x: Float[Tensor, "n T E"], tap: Tap | None, name: str) -> Float[Tensor, "n T W"]:
        return touch(tap, f"{name}.residual", self.lstm(x, tap, f"{name}.lstm"))


class LSTM(SequenceModel):
    """LSTM layers, stacked or in residual blocks: tokens (n, T) to logits (n, K, C) at the readouts; carries c and h,
    W numbers each, in every layer."""

    name = "lstm"
    summary = "recurrent cells in pre-norm residual blocks (style=residual) or as a plain stack (style=stacked)"
    config_class = LSTMConfig
    compilable = False
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "paper-bijection": {"depth": 6, "width": 192, "style": "stacked"},
        "paper-hmm": {"depth": 9, "width": 256, "style": "stacked"},
    }

    def __init__(self, config: LSTMConfig, sizes: Sizes) -> None:
        super().__init__(config, sizes, config.embed_width)
        stacked = config.style == "stacked"
        self.blocks = nn.ModuleList(
            StackedBlock(config, index) if stacked else ResidualBlock(config) for index in range(config.depth)
        )

    @classmethod
    def dial(cls, options: dict[str, Any]) -> Dial:
        if options.get("style", "residual") == "stacked":
            return Dial(aspect=30, block=8, absorber="embed_width", ratio=1, low=0.125, high=4)
        # Wide rather than deep: every layer is a chain of T dependent steps, so few layers are cheap.
        return Dial(aspect=128, block=16, absorber="ff_width", ratio=4, low=0.5, high=8, shallow=2)

    @classmethod
    def complete(cls, shape: dict[str, Any], sizes: Sizes) -> dict[str, Any]:
        if shape.get("style", "residual") == "stacked":
            return {"embed_width": shape["width"]} | shape
        return {"ff_width": 4 * shape["width"]} | shape
