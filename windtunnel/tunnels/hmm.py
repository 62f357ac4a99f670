"""HMM filtering: a new hidden Markov model for every episode, stated in a header, then observed.

    sequence   header (the rows of T, then of E), then o_1 … o_K
    read at    every observation
    belief     predict="state":   P(s_t | o_1 … o_t)      the forward algorithm, uniform start
               predict="symbol":  P(o_{t+1} | o_1 … o_t)  the same, pushed one step and emitted

Plain Dirichlet chains forget within two or three steps, so they barely test belief *transport*, and on sticky chains
a filter that never reads T does well.  Rotating chains require transport: the belief must be carried round a cycle that
only the header gives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from windtunnel.errors import (
    InputError,
    is_number,
    keep_number,
    keep_whole_number,
    plain_number,
    require,
    require_choice,
)
from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.episodes import Episodes, Inputs
from windtunnel.tunnels.filtering import forward_filter, likelihoods, predict_symbols
from windtunnel.tunnels.hmm_priors import GRID, GRID_FLOOR, mixed_chain, released_grid
from windtunnel.tunnels.random import Source, categorical, require_concentration

_TRANSITION, _EMISSION, _STATES, _OBSERVATIONS, _MIX, _STATIONARY, _CYCLE = range(7)  # sites of the random stream
_DEFAULT_BAND = (0.90, 0.97)
_ROUNDING = 1e-12  # how far from 1 the sum of a given row may be; 127 terms round to a hundredth of it

Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class HMM(Tunnel):
    """Hidden Markov models with `states` hidden states and `symbols` observable ones; the first state is uniform.

    latent: transition (n, S, S), emission (n, S, M), states (n, K), observations (n, K); with predict="symbol", states
    and observations have one more step, which the last readout predicts.
    """

    states: int = 5
    """S: hidden states."""
    symbols: int = 5
    """M: observable symbols."""
    length: int = 20
    """K: observations shown."""
    dynamics: Literal["dirichlet", "rotating", "sticky"] = "dirichlet"
    """How transition matrices are drawn."""
    mixing: tuple[float, float] | None = None
    """Band of the second eigenvalue modulus r, for rotating and sticky dynamics (default 0.90 to 0.97)."""
    concentration: float = 1.0
    """Dirichlet concentration of the emission rows, and of the transition rows when dynamics is dirichlet."""
    prior: Literal["dirichlet", "released"] = "dirichlet"
    """`released`: rows floored at 0.05 and rounded to hundredths, as in the authors' code."""
    header: Literal["rows", "tokens"] | None = "rows"
    """`rows`: a position per matrix row; `tokens`: a token per entry (released prior); none: fixed matrices, below."""
    predict: Literal["state", "symbol"] = "state"
    """What the belief is about: the hidden state now, or the next observation."""
    transition: Matrix | None = None
    """Fixed transition matrix (S rows of S), with header=None."""
    emission: Matrix | None = None
    """Fixed emission matrix (S rows of M), with header=None."""

    summary: ClassVar[str] = (
        "a new hidden Markov model per episode, stated in a header; belief by the forward algorithm"
    )

    def __post_init__(self) -> None:
        keep_whole_number(self, "states", 2, 127)
        keep_whole_number(self, "symbols", 2, 127)
        keep_whole_number(self, "length", 1)
        require_choice("dynamics", self.dynamics, ("dirichlet", "rotating", "sticky"))
        require_choice("prior", self.prior, ("dirichlet", "released"))
        require_choice("header", self.header, ("rows", "tokens", None))
        require_choice("predict", self.predict, ("state", "symbol"))
        keep_number(self, "concentration", 0, above=True)
        require_concentration(self.concentration)
        self._check_mixing()
        self._check_released()
        self._check_fixed()

    def _check_mixing(self) -> None:
        if self.dynamics == "dirichlet":
            require(self.mixing is None, "mixing", self.mixing, "left out when dynamics is dirichlet")
            return
        if self.mixing is None:
            return
        band = tuple(map(plain_number, self.mixing)) if isinstance(self.mixing, tuple | list) else ()
        ok = len(band) == 2 and all(map(is_number, band)) and 0.0 <= band[0] <= band[1] <= 1.0
        require(ok, "mixing", self.mixing, "a band (low, high) with 0 <= low <= high <= 1")
        object.__setattr__(self, "mixing", band)

    def _check_released(self) -> None:
        if self.prior == "released":
            widest, most = max(self.states, self.symbols), GRID // GRID_FLOOR
            require(widest <= most, "prior", self.prior, f"dirichlet above {most} states or symbols (got {widest})")
            require(self.dynamics == "dirichlet", "dynamics", self.dynamics, "dirichlet when prior is released")
            require(self.concentration == 1.0, "concentration", self.concentration, "1 when prior is released")
        if self.header == "tokens":
            require(self.prior == "released", "prior", self.prior, "released when header is tokens (a grid is needed)")

    def _check_fixed(self) -> None:
        given = {"transition": self.transition, "emission": self.emission}
        if self.header is not None:
            for name, matrix in given.items():
                if matrix is not None:
                    raise InputError(f"{name}: must be left out unless header is None")
            return
        for name, usual in (("prior", "dirichlet"), ("dynamics", "dirichlet"), ("concentration", 1.0)):
            value = getattr(self, name)
            require(value == usual, name, value, f"left at {usual} when the matrices are fixed")
        for (name, matrix), width in zip(given.items(), (self.states, self.symbols), strict=True):
            require(matrix is not None, name, None, "given when header is None")
            object.__setattr__(self, name, _checked_matrix(name, matrix, self.states, width))

    # --- sizes
    @property
    def vocabulary(self) -> int:
        if self.header == "rows":
            return self.symbols + 2 * self.states
        if self.header == "tokens":
            return self.symbols + 3 + GRID + 1
        return self.symbols

    @property
    def feature_width(self) -> int:
        return max(self.states, self.symbols) if self.header == "rows" else 0

    @property
    def classes(self) -> int:
        return self.states if self.predict == "state" else self.symbols

    @property
    def header_positions(self) -> int:
        """Positions before the first observation."""
        if self.header == "rows":
            return 2 * self.states
        if self.header == "tokens":
            return self.states * (self.states + self.symbols) + 3
        return 0

    @property
    def positions(self) -> int:
        return self.header_positions + self.length

    @property
    def readouts(self) -> int:
        return self.length

    @property
    def primitives(self) -> tuple[str, ...]:
        """Sticky chains hardly move, so they do not need transport: a control, never evidence for it."""
        return ("accumulation",) if self.dynamics == "sticky" else ("accumulation", "transport")

    @property
    def hypotheses_log2(self) -> float:
        """Released prior: rows of hundredths, at least 5 each, counted exactly.  Fixed matrices: the state paths."""
        if self.header is None:
            return self.length * math.log2(self.states)
        if self.prior == "dirichlet":
            return math.inf

        def rows_log2(width: int) -> float:
            return math.log2(math.comb(GRID - GRID_FLOOR * width + width - 1, width - 1))

        return self.states * (rows_log2(self.states) + rows_log2(self.symbols))

    # --- the world
    def draw(self, source: Source) -> dict[str, Tensor]:
        transition, emission = self._draw_matrices(source)
        steps = self.length + (self.predict == "symbol")
        path, shown = source.uniform(_STATES, steps), source.uniform(_OBSERVATIONS, steps)
        # For every step, draw what each state would do; only picking the state the chain is in has to go in order.
        moves, emits = categorical(transition.cumsum(1), path), categorical(emission.cumsum(1), shown)  # (K, S, n)
        state = (path[0] * self.states).long()[None]
        states = [state]
        for move in moves[1:]:
            state = move.gather(0, state).long()
            states.append(state)
        chain = torch.stack(states)
        observations = emits.gather(1, chain)[:, 0].long()
        return {
            "transition": transition.permute(2, 0, 1),
            "emission": emission.permute(2, 0, 1),
            "states": chain[:, 0].T,
            "observations": observations.T,
        }

    def _draw_matrices(self, source: Source) -> tuple[Tensor, Tensor]:
        """Transition (S, S, n) and emission (S, M, n), float64."""
        count, device = source.episodes.shape[0], source.episodes.device
        if self.header is None:
            fixed = [torch.tensor(m, dtype=torch.float64, device=device) for m in (self.transition, self.emission)]
            # Copies, not one matrix seen many times: who edits an episode's own must not edit all others'.
            transition, emission = (matrix[..., None].repeat(1, 1, count) for matrix in fixed)
            return transition, emission
        emission = source.dirichlet(_EMISSION, self.concentration, self.states, self.symbols)
        if self.dynamics == "dirichlet":
            transition = source.dirichlet(_TRANSITION, self.concentration, self.states, self.states)
        else:
            sites, band = (_MIX, _STATIONARY, _CYCLE), self.mixing or _DEFAULT_BAND
            transition = mixed_chain(source, sites, self.states, band, self.dynamics == "rotating")
        if self.prior == "released":
            transition, emission = (released_grid(rows).double() / GRID for rows in (transition, emission))
        return transition, emission

    def episodes(self, latent: dict[str, Tensor], dtype: torch.dtype = torch.float64) -> Episodes:
        transition = latent["transition"].permute(1, 2, 0).to(dtype)
        emission = latent["emission"].permute(1, 2, 0).to(dtype)
        observations = latent["observations"][:, : self.length].T
        posterior = forward_filter(transition, likelihoods(emission, observations))
        if self.predict == "symbol":
            posterior = predict_symbols(posterior, transition, emission)
            labels = latent["observations"][:, 1:]
        else:
            labels = latent["states"]
        return Episodes(self._encode(latent, dtype), labels, posterior.permute(2, 0, 1), dict(latent))

    # --- the input form
    def _encode(self, latent: dict[str, Tensor], dtype: torch.dtype) -> Inputs:
        observations = latent["observations"][:, : self.length]
        count, device = len(observations), observations.device
        readout = torch.arange(self.header_positions, self.positions, device=device)
        if self.header is None:
            return Inputs(observations, None, readout)
        if self.header == "tokens":
            return Inputs(torch.cat([self._grid_tokens(latent), observations], 1), None, readout)
        rows = torch.arange(self.symbols, self.vocabulary, device=device).expand(count, -1)
        features = torch.zeros(count, self.positions, self.feature_width, dtype=dtype, device=device)
        features[:, : self.states, : self.states] = latent["transition"].to(dtype)
        features[:, self.states : 2 * self.states, : self.symbols] = latent["emission"].to(dtype)
        return Inputs(torch.cat([rows, observations], 1), features, readout)

    def _grid_tokens(self, latent: dict[str, Tensor]) -> Tensor:
        """[T] entries of T row by row, [E] entries of E, [O]: 53 positions at five states and symbols."""
        parts = []
        for marker, name in enumerate(("transition", "emission")):
            entries = torch.round(latent[name].flatten(1) * GRID).long() + self.symbols + 3
            parts += [torch.full_like(entries[:, :1], self.symbols + marker), entries]
        parts.append(torch.full_like(parts[0], self.symbols + 2))
        return torch.cat(parts, 1)

    def read(self, inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
        """What the inputs state: transition (n, S, S), emission (n, S, M), observations (n, K).  Reads nothing else."""
        states, symbols, count = self.states, self.symbols, len(inputs)
        observations = inputs.tokens[:, self.header_positions :]
        if self.header == "rows":
            assert inputs.features is not None
            transition = inputs.features[:, :states, :states]
            return transition, inputs.features[:, states : 2 * states, :symbols], observations
        if self.header == "tokens":
            grid = (inputs.tokens[:, : self.header_positions] - symbols - 3).double() / GRID
            split = 1 + states * states
            transition, emission = grid[:, 1:split], grid[:, split + 1 : -1]
            return transition.unflatten(1, (states, states)), emission.unflatten(1, (states, symbols)), observations
        fixed = [
            torch.tensor(m, dtype=torch.float64, device=observations.device) for m in (self.transition, self.emission)
        ]
        transition, emission = (matrix.expand(count, -1, -1) for matrix in fixed)
        return transition, emission, observations

    def token_names(self) -> list[str]:
        names = [f"o{i}" for i in range(self.symbols)]
        if self.header == "rows":
            return names + [f"T{i}" for i in range(self.states)] + [f"E{i}" for i in range(self.states)]
        if self.header == "tokens":
            return names + ["[T]", "[E]", "[O]"] + [f".{i:02d}" for i in range(GRID + 1)]
        return names


def _checked_matrix(name: str, matrix: object, rows: int, columns: int) -> Matrix:
    """A nested tuple of floats from anything that looks like a matrix; its rows must be distributions.

    Rows whose sum is 1 but for rounding stay as they are.  Dividing those too would move their last digits at every
    construction: a world would not be the one that its description, or its own `with_length`, gives back.
    """
    try:
        tensor = torch.as_tensor(matrix, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name}: must be a matrix of numbers ({rows} rows of {columns})") from error
    if tuple(tensor.shape) != (rows, columns):
        raise InputError(f"{name} has shape {tuple(tensor.shape)}: must be ({rows}, {columns})")
    require(bool((tensor >= 0).all()), name, float(tensor.min()), "made of probabilities of at least 0")
    sums = tensor.sum(1, keepdim=True)
    off = (sums - 1).abs()
    worst = int(off.argmax())
    message = f"rows that sum to 1 (row {worst} sums to {float(sums[worst]):.6g})"
    require(bool(off.max() <= 1e-6), name, tensor[worst].tolist(), message)
    rows_of_one = torch.where(off <= _ROUNDING, tensor, tensor / sums)
    return tuple(tuple(row) for row in rows_of_one.tolist())
