"""AdamW through torch's fused kernel, without the machinery around it.

`torch.optim.AdamW(fused=True)` ends in the same two calls.  On the way it loads torch's compiler (more than a second
at start-up, also where nothing is compiled) and walks through Python that costs more than the kernel on small
networks.  Tested equal to torch's to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_EPSILON = 1e-8


class AdamW:
    """AdamW over groups of parameters, each group with its own weight decay.

    State of each parameter, zero before the first step: `step` (), `exp_avg` and `exp_avg_sq` of its shape.
    """

    def __init__(self, groups: Sequence[tuple[list[Tensor], float]], betas: tuple[float, float]) -> None:
        self.groups, self.betas = [group for group in groups if group[0]], betas
        self.state: dict[Tensor, dict[str, Tensor]] = {
            parameter: {
                "step": torch.zeros((), device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
            for parameters, _ in self.groups
            for parameter in parameters
        }

    @torch.no_grad()
    def step(self, lr: float | Tensor) -> None:
        """One update from the `.grad` of each parameter; one without a gradient stays.  `lr` is a tensor inside a
        captured graph."""
        for parameters, weight_decay in self.groups:
            moved = [parameter for parameter in parameters if parameter.grad is not None]
            if not moved:
                continue
            steps, means, squares = (
                [self.state[parameter][name] for parameter in moved] for name in ("step", "exp_avg", "exp_avg_sq")
            )
            torch._foreach_add_(steps, 1)  # pyright: ignore[reportPrivateImportUsage]
            gradients = [parameter.grad for parameter in moved]
            torch._fused_adamw_(  # pyright: ignore[reportCallIssue, reportPrivateImportUsage]
                moved,
                gradients,  # pyright: ignore[reportArgumentType]
                means,
                squares,
                [],
                steps,
                lr=lr,  # pyright: ignore[reportArgumentType]
                beta1=self.betas[0],
                beta2=self.betas[1],
                weight_decay=weight_decay,
                eps=_EPSILON,
                amsgrad=False,
                maximize=False,
            )
