"""Independent work side by side: on a GPU each piece on a stream of its own, which a captured graph keeps as branches.

Small kernels one after another leave most of a card idle; two chains of them beside each other take as long as one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch


def side_by_side(pieces: Sequence[Callable[[], object]], device: torch.device) -> None:
    """Run all of them, none of which may need what another does; on a CPU one after another.

    On a GPU each begins when all that was asked for before is done, and what is asked for later waits for all.
    """
    if device.type != "cuda" or len(pieces) == 1:
        for piece in pieces:
            piece()
        return
    main = torch.cuda.current_stream(device)
    branches = [torch.cuda.Stream(device) for _ in pieces]
    for piece, branch in zip(pieces, branches, strict=True):
        branch.wait_stream(main)
        with torch.cuda.stream(branch):
            piece()
    for branch in branches:
        main.wait_stream(branch)
