"""The gated delta rule, in a plain and a fast form.

A head keeps a matrix S (d_k × d_v), an associative memory: Sᵀk is what is stored under key k.  At every step the
memory fades by α_t, then the value under k_t is moved a fraction β_t of the way towards v_t:

    u_t = β_t (v_t − α_t S_{t−1}ᵀ k_t)             what has to be written
    S_t = α_t S_{t−1} + k_t u_tᵀ                   = α_t (I − β_t k_t k_tᵀ) S_{t−1} + β_t k_t v_tᵀ
    o_t = S_tᵀ q_t

`delta_rule_sequential` is that loop.  `delta_rule_chunked` treats up to `chunk` steps at once.  With g_t = α_1 ⋯ α_t
inside a chunk that starts from S, unrolling gives S_t = g_t S + Σ_{i≤t} (g_t / g_i) k_i u_iᵀ, so the u's of a chunk
solve a unit lower-triangular system (Yang et al. 2024):

    (I + L) U = diag(β) (V − diag(g) K S),        L_ti = β_t (g_t / g_i) k_t·k_i   for i < t

Ratios g_t / g_i are exp of a difference of cumulative log α, never a quotient, and never above 1.  The system is
solved by forward substitution, on a GPU for all heads and chunks in one kernel (`triangular_triton.py`): inverting by
repeated squaring would be faster and lose all digits when a token, hence a key, repeats.

Shapes: q, k (n, H, T, d_k) of unit length; v (n, H, T, d_v); beta and log_decay = log α ≤ 0 (n, H, T); o as v.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from windtunnel.errors import require_choice
from windtunnel.models import kernels
from windtunnel.models.taps import StepEdit


def delta_rule_sequential(
    q: Float[Tensor, "n H T dk"],
    k: Float[Tensor, "n H T dk"],
    v: Float[Tensor, "n H T dv"],
    beta: Float[Tensor, "n H T"],
    log_decay: Float[Tensor, "n H T"],
    edit: StepEdit | None = None,
) -> Float[Tensor, "n H T dv"]:
    """The recurrence as written.  `edit(t, S_t)` may replace a state (n, H, dk, dv) before it is read and carried."""
    state = q.new_zeros(*q.shape[:2], q.shape[-1], v.shape[-1])
    outputs = []
    for t in range(q.shape[2]):
        key = k[:, :, t, :, None]
        state = log_decay[:, :, t, None, None].exp() * state
        write = beta[:, :, t, None] * (v[:, :, t] - (key * state).sum(-2))
        state = state + key * write[..., None, :]
        if edit is not None:
            state = edit(t, state)
        outputs.append((q[:, :, t, :, None] * state).sum(-2))
    return torch.stack(outputs, dim=2)


def delta_rule_chunked(
    q: Float[Tensor, "n H T dk"],
    k: Float[Tensor, "n H T dk"],
    v: Float[Tensor, "n H T dv"],
    beta: Float[Tensor, "n H T"],
    log_decay: Float[Tensor, "n H T"],
    chunk: int = 64,
) -> Float[Tensor, "n H T dv"]:
    """The same, with a sequential loop over chunks only."""
    length, key_width = q.shape[2], q.shape[3]
    size = min(chunk, length)
    chunks = -(-length // size)
    pad = chunks * size - length  # padding writes nothing (β = 0) and fades nothing (log α = 0)
    q, k, v = (F.pad(part, (0, 0, 0, pad)).unflatten(2, (chunks, size)) for part in (q, k, v))
    beta, log_decay = (F.pad(part, (0, pad)).unflatten(2, (chunks, size)) for part in (beta, log_decay))

    log_g = log_decay.cumsum(-1)
    future = torch.ones(size, size, dtype=torch.bool, device=q.device).triu(1)
    ratio = torch.exp((log_g[..., :, None] - log_g[..., None, :]).masked_fill(future, -torch.inf))  # g_t / g_i, i ≤ t
    g = log_g.exp()[..., None]

    system = (beta[..., None] * ratio * (k @ k.transpose(-1, -2))).tril(-1)  # L; the unit diagonal is implied
    right = beta[..., None] * torch.cat([v, g * k], dim=-1)
    solved = _solve(system, right)
    from_values, from_start = solved.split([v.shape[-1], key_width], dim=-1)  # U = from_values − from_start · S
    within = ratio * (q @ k.transpose(-1, -2))
    carried_keys = (ratio[..., -1, :, None] * k).transpose(-1, -2)  # (g_end / g_i) k_i

    state = q.new_zeros(*q.shape[:2], key_width, v.shape[-1])
    outputs = []
    for j in range(chunks):
        writes = from_values[:, :, j] - from_start[:, :, j] @ state
        outputs.append(within[:, :, j] @ writes + g[:, :, j] * (q[:, :, j] @ state))
        if j + 1 < chunks:
            state = g[:, :, j, -1, :, None] * state + carried_keys[:, :, j] @ writes
    return torch.cat(outputs, dim=2)[:, :, :length]


def _solve(lower: Float[Tensor, "... C C"], right: Float[Tensor, "... C d"]) -> Float[Tensor, "... C d"]:
    """U with (I + L) U = right."""
    if kernels.takes_inverse(lower) and kernels.unit_lower_inverse is not None:
        return kernels.unit_lower_inverse(lower) @ right
    return torch.linalg.solve_triangular(lower, right, upper=False, unitriangular=True)


FORMS = {"sequential": delta_rule_sequential, "chunked": delta_rule_chunked}


def delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    log_decay: Tensor,
    *,
    form: str = "auto",
    edit: StepEdit | None = None,
) -> Tensor:
    """The delta rule in float32 or better, by the named form; `auto` takes the fastest one for the device.

    Only the sequential form has states that can be edited.
    """
    require_choice("form", form, ("auto", *FORMS))
    dtype = torch.promote_types(log_decay.dtype, torch.float32)
    with torch.autocast(q.device.type, enabled=False):
        q, k, v, beta, log_decay = (part.to(dtype) for part in (q, k, v, beta, log_decay))
        if edit is not None:
            return delta_rule_sequential(q, k, v, beta, log_decay, edit)
        return FORMS["chunked" if form == "auto" else form](q, k, v, beta, log_decay)
