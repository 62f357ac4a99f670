"""Subspaces of the stream that may carry the belief.  Each is (D, r) with orthonormal columns.

Fitted at the readouts on x (n, K, D) and y (n, K, C), both less their mean over episodes at each readout: what position
alone explains is gone.  The belief is the one that the network is asked for: in an HMM that predicts symbols it is
about the next symbol, where `geometry.beliefs` decodes that about hidden states.

    decoded belief     span of ridge weights (XᵀX + λI)⁻¹ XᵀY       the directions a linear reader uses, λ = LIGHT
    … with a penalty   the same, λ = HEAVY                          … and one that must not lean on quiet directions
    written belief     span of the covariance XᵀY                   the directions in which the stream moves with it
    entropy axis       ridge weights of the belief's entropy        one direction; none where position fixes entropy
    hypothesis frame   rows of the network's own readout matrix     one direction per hypothesis

Which directions a reader uses is a matter of its penalty.  With hardly any it reads best and leans on directions along
which the stream hardly moves, so that swapping them does nothing; with more it reads nearly as well along those that
move, and in the limit along what is written.  So neither alone says whether what can be read is used.  After the last
block the frame is what the head itself looks at: there its swap moves the prediction by construction.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from windtunnel.geometry.measurement import Missing
from windtunnel.tunnels.information import entropy_bits

LIGHT, HEAVY = 1e-3, 1.0  # penalties λ, in units of the mean variance of a direction
PENALISED = "decoded belief, with a penalty"
EMPTY = "of rank 0: no direction of the stream varies with it"
FLAT = 1e-9  # bits²: below this variance entropy is a function of position


def span(directions: Float[Tensor, "D C"], tolerance: float = 1e-4) -> Float[Tensor, "D r"]:
    """Orthonormal basis of the columns' span; directions weaker than `tolerance` of the strongest are left out."""
    u, s, _ = torch.linalg.svd(directions.double(), full_matrices=False)
    return u[:, s > tolerance * s[0].clamp_min(1e-300)]


def centred(x: Float[Tensor, "n K D"]) -> Float[Tensor, "nK D"]:
    """Less the mean over episodes at each readout, readouts stacked."""
    return (x.double() - x.double().mean(0)).flatten(0, 1)


def ridge(x: Float[Tensor, "N D"], y: Float[Tensor, "N C"], penalty: float = LIGHT) -> Float[Tensor, "D C"]:
    """Ridge weights on centred data; the penalty in units of the mean variance of a direction."""
    gram = x.T @ x
    lift = penalty * gram.diagonal().mean().clamp_min(1e-300)
    return torch.linalg.solve(gram + lift * torch.eye(len(gram), dtype=gram.dtype, device=gram.device), x.T @ y)


def bases(model: nn.Module, x: Float[Tensor, "n K D"], belief: Float[Tensor, "n K C"]) -> dict[str, Tensor | Missing]:
    """Every subspace by name, or why there is none."""
    flat, target = centred(x), centred(belief.to(x.device))
    entropy = centred(entropy_bits(belief.double())[..., None].to(x.device))
    found: dict[str, Tensor | Missing] = {
        "decoded belief": span(ridge(flat, target)),
        PENALISED: span(ridge(flat, target, HEAVY)),
        "written belief": span(flat.T @ target),
    }
    if float(entropy.square().mean()) > FLAT:
        found["entropy axis"] = span(ridge(flat, entropy))
    else:
        found["entropy axis"] = Missing("entropy axis", "not identifiable: position alone fixes the entropy here")
    found["hypothesis frame"] = hypothesis_frame(model, x.shape[-1])
    return {name: Missing(name, EMPTY) if _is_empty(basis) else basis for name, basis in found.items()}


def _is_empty(basis: Tensor | Missing) -> bool:
    """To change nothing costs nothing: as a subspace it would pass for an inert one."""
    return isinstance(basis, Tensor) and not basis.shape[1]


def hypothesis_frame(model: nn.Module, width: int) -> Tensor | Missing:
    """Span of the readout's rows, one per hypothesis, seen from before the last norm; their mean has no effect."""
    own = getattr(model, "module", model)  # a foreign network is wrapped
    head, norm = getattr(own, "head", None), getattr(own, "final_norm", None)
    if not isinstance(head, nn.Linear) or head.weight.shape[1] != width:
        return Missing("hypothesis frame", "the network has no linear readout named `head` on its stream")
    gain = getattr(norm, "weight", None)
    rows = head.weight.detach().double()
    rows = rows if gain is None else rows * gain.detach().double()
    return span((rows - rows.mean(0)).T)
