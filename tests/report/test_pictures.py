"""The arrays behind the geometry section's pictures."""

from __future__ import annotations

import numpy as np
import pytest

from windtunnel import models
from windtunnel.report.pictures import key_matrices
from windtunnel.tunnels import Recall


@pytest.mark.parametrize("seen", [20, 2])
def test_a_token_that_never_occurred_has_no_key_to_show(seen):
    """It has no mean key; a vector of zeros, centred, would be minus the mean of the others."""
    tunnel = Recall(pairs=8, queries=2, filler=2, keys=30, values=30)
    model = models.build("transformer", tunnel, depth=1, width=16, heads=2)
    episodes = tunnel.sample(4)
    tokens = episodes.inputs.tokens.clone()
    tokens[tokens < 30] %= seen  # the 30 tokens for keys come first
    there = np.unique(tokens[tokens < 24])
    episodes.inputs.tokens.copy_(tokens)
    found = key_matrices(model, tunnel, episodes, [model])
    if seen < 3:
        assert found is None
        return
    assert found is not None and found["labels"] == [tunnel.token_names()[token] for token in there]
    trained = np.array(found["tables"]["trained"])
    assert {np.shape(table) for table in found["tables"].values()} == {(len(there), len(there))}
    assert len(there) <= seen and np.diag(trained) == pytest.approx(1.0)
    assert np.array(found["tables"]["untrained"]) == pytest.approx(trained)
