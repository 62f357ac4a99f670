"""Networks whose mechanism is known because it was built by hand, and predictors that are exactly right or wrong."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from windtunnel import models
from windtunnel.mechanism.chance import rotation
from windtunnel.models import touch
from windtunnel.tunnels import HMM, Bijection, Inputs, Recall, Tunnel, Urn
from windtunnel.tunnels.filtering import likelihoods, push

TINY = HMM(states=3, symbols=3, length=5)
ONCE, AGAIN = Bijection(symbols=5, length=5), Bijection(symbols=5, length=6, replacement=True)
URN = Urn(symbols=4, length=6, concentration=0.5)
RECALL = Recall(pairs=3, queries=2, filler=2, keys=5, values=6)
NOISY = Recall(pairs=3, queries=2, filler=2, keys=5, values=6, noise=0.3, repeats=2)

# Chains in which some things cannot happen.  In the first a state stays or goes on to the next, and one of them can be
# seen; the second goes round in a circle, and all follows from the beginning.
MOVES = ((0.5, 0.5, 0.0), (0.0, 0.5, 0.5), (0.5, 0.0, 0.5))
SHOWS = ((1.0, 0.0, 0.0), (0.0, 0.7, 0.3), (0.0, 0.3, 0.7))
ZEROS = HMM(states=3, symbols=3, length=6, header=None, transition=MOVES, emission=SHOWS)
SURE = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
CIRCLE = HMM(states=3, symbols=3, length=6, header=None, transition=(SURE[1], SURE[2], SURE[0]), emission=SURE)


class Exact:
    """The exact belief, read off the inputs alone; with `window`, of the last observations only (HMM)."""

    def __init__(self, tunnel: Tunnel, window: int | None = None) -> None:
        self.tunnel, self.window = tunnel, window

    def log_probs(self, inputs: Inputs) -> Tensor:
        if isinstance(self.tunnel, Urn):
            belief = self.urn(inputs)
        else:
            belief = self.hmm(inputs) if isinstance(self.tunnel, HMM) else self.bijection(inputs)
        return belief.clamp_min(1e-30).log().log_softmax(-1)

    def hmm(self, inputs: Inputs) -> Tensor:
        transition, emission, shown = self.tunnel.read(inputs)
        transition, emission = transition.double().permute(1, 2, 0), emission.double().permute(1, 2, 0)
        seen, beliefs = likelihoods(emission, shown.T), []
        for t in range(len(seen)):
            first = 0 if self.window is None else max(0, t + 1 - self.window)
            alpha = torch.full_like(seen[0], 1 / len(transition))
            for s in range(first, t + 1):
                alpha = (push(alpha, transition) if s > first else alpha) * seen[s]
                alpha = alpha / alpha.sum(0)
            beliefs.append(alpha)
        return torch.stack(beliefs).permute(2, 0, 1)

    def urn(self, inputs: Inputs) -> Tensor:
        tunnel = self.tunnel
        assert isinstance(tunnel, Urn)
        shown = inputs.tokens[:, 1:].tolist()
        weights = [
            [[tunnel.concentration + row[: t + 1].count(v) for v in range(tunnel.symbols)] for t in range(len(row))]
            for row in shown
        ]
        belief = torch.tensor(weights, dtype=torch.float64)
        return belief / belief.sum(-1, keepdim=True)

    def bijection(self, inputs: Inputs) -> Tensor:
        tunnel = self.tunnel
        assert isinstance(tunnel, Bijection) and tunnel.layout == "plain"
        keys, values = inputs.tokens[:, ::2], inputs.tokens[:, 1::2] - tunnel.symbols
        belief = torch.zeros(len(inputs), tunnel.length, tunnel.symbols, dtype=torch.float64)
        for i in range(len(inputs)):
            for t in range(tunnel.length):
                known = dict(zip(keys[i, :t].tolist(), values[i, :t].tolist()))
                if int(keys[i, t]) in known:
                    belief[i, t, known[int(keys[i, t])]] = 1.0
                else:
                    left = [v for v in range(tunnel.symbols) if v not in known.values()]
                    belief[i, t, left] = 1 / len(left)
        return belief


def noise(inputs: Inputs, width: int, seed: int = 0) -> Tensor:
    """(n, T, width): looks like chance, but is a function of what was read so far."""
    content = inputs.tokens.double() + 1.0
    if inputs.features is not None:
        content = content + inputs.features.double().sum(-1).sin() + inputs.features.double()[..., 0]
    content = content * (torch.arange(content.shape[1]) + 0.6).sqrt()  # order matters
    phase = content.cumsum(1)[..., None] * (torch.arange(width, dtype=torch.float64) + 1.7 + seed)
    return (37.0 * phase).sin() * 2**0.5


class Module(nn.Module):
    """Double precision, and one idle weight that says so."""

    def __init__(self, tunnel: HMM) -> None:
        super().__init__()
        self.tunnel, self.idle = tunnel, nn.Parameter(torch.zeros(1, dtype=torch.float64))

        self.known: dict = {}

    def belief(self, inputs: Inputs) -> Tensor:
        """(n, T, C) centred log-belief at the readouts, 0 elsewhere; remembered, as false-positive tests ask often."""
        seen = (inputs.tokens.numpy().tobytes(), None if inputs.features is None else inputs.features.numpy().tobytes())
        if seen not in self.known:
            log = Exact(self.tunnel).log_probs(inputs)
            whole = torch.zeros(len(inputs), inputs.tokens.shape[1], log.shape[-1], dtype=torch.float64)
            whole[:, inputs.readout] = log - log.mean(-1, keepdim=True)
            self.known[seen] = whole
        return self.known[seen]


class OneHead(Module):
    """Two layers of heads; head `carrier` of layer 1 holds the log-belief, the others noise that is read by `leak`."""

    def __init__(
        self, tunnel: HMM, *, heads: int = 4, carrier: int | None = 2, leak: float = 0.0, seed: int = 0
    ) -> None:
        super().__init__(tunnel)
        self.heads, self.carrier, self.leak, self.seed = heads, carrier, leak, seed

    def forward(self, tokens, features, readout, tap=None):
        inputs = Inputs(tokens, features, readout)
        n, length, classes = len(tokens), tokens.shape[1], self.tunnel.classes
        belief = self.belief(inputs)
        x = touch(tap, "embed", torch.zeros(n, length, classes, dtype=torch.float64))
        for layer in range(2):
            heads = noise(inputs, self.heads * classes, layer).unflatten(2, (self.heads, classes))
            weights = torch.full((self.heads,), self.leak, dtype=torch.float64)
            if layer == 1 and self.carrier is not None:
                heads[:, :, self.carrier], weights[self.carrier] = belief, 1.0
            heads = touch(tap, f"blocks.{layer}.attention.head_out", heads.transpose(1, 2))
            out = touch(tap, f"blocks.{layer}.attention.out", (heads * weights[:, None, None]).sum(1))
            x = touch(tap, f"blocks.{layer}.residual", x + out)
        return touch(tap, "logits", x[:, readout])


class InSubspace(Module):
    """The stream holds the log-belief in a random subspace B (D, C) and noise in the rest; the readout is B itself."""

    def __init__(self, tunnel: HMM, *, width: int = 40, seed: int = 0) -> None:
        super().__init__(tunnel)
        turn = rotation(width, 77, seed)
        self.basis, self.rest = turn[:, : tunnel.classes], turn[:, tunnel.classes :]

    def forward(self, tokens, features, readout, tap=None):
        inputs = Inputs(tokens, features, readout)
        x = self.belief(inputs) @ self.basis.T + noise(inputs, self.rest.shape[1]) @ self.rest.T
        x = touch(tap, "blocks.0.residual", touch(tap, "embed", x))
        return touch(tap, "logits", x[:, readout] @ self.basis)


class Recurrent(Module):
    """The forward algorithm itself, its belief handed to the tap step by step."""

    def forward(self, tokens, features, readout, tap=None):
        inputs = Inputs(tokens, features, readout)
        transition, emission, shown = self.tunnel.read(inputs)
        transition, emission = transition.double().permute(1, 2, 0), emission.double().permute(1, 2, 0)
        seen = likelihoods(emission, shown.T)
        touch(tap, "embed", features)
        state = torch.zeros(len(tokens), self.tunnel.states, dtype=torch.float64)  # log-belief, up to a constant
        logits = []
        for position in range(tokens.shape[1]):
            t = position - self.tunnel.header_positions
            if t >= 0:
                alpha = state.softmax(-1).T
                state = ((push(alpha, transition) if t else alpha) * seen[t]).T.log().log_softmax(-1)
            state = touch(tap, f"blocks.0.lstm.cell@{position}", state)
            if t >= 0:
                logits.append(state)
        return torch.stack(logits, 1)


def planted(kind: type[Module], tunnel: HMM = TINY, **options):
    """A planted network under the common interface."""
    return models.build(lambda _: kind(tunnel, **options), tunnel)


class Chance:
    """Predictions that depend on the inputs, but have nothing to do with the belief."""

    def __init__(self, tunnel: Tunnel, seed: int) -> None:
        self.tunnel, self.seed = tunnel, seed

    def log_probs(self, inputs: Inputs) -> Tensor:
        return noise(inputs, self.tunnel.classes, self.seed)[:, inputs.readout].log_softmax(-1)
