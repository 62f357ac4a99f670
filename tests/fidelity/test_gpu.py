"""The same score on a GPU as on a CPU, interval and tables included."""

from __future__ import annotations

import pytest

from tests.fidelity.test_evaluate import flat_numbers
from tests.fidelity.toys import Shown, tempered
from windtunnel.fidelity import evaluate
from windtunnel.fidelity.baselines.hmm import WindowFilter
from windtunnel.tunnels import HMM

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("subject", "tunnel", "options"),
    [
        (tempered(0.5), Shown(), {"where": "sure", "positions": slice(1, 5)}),
        ([tempered(0.5), tempered(2.0)], Shown(), {}),
        (WindowFilter(HMM(), 2), HMM(), {}),
    ],
)
def test_gpu_scores_equal_cpu_scores(subject, tunnel, options):
    cpu, gpu = (
        flat_numbers(evaluate(subject, tunnel, episodes=1000, chunk=300, device=device, **options).to_dict())
        for device in ("cpu", "cuda")
    )
    assert gpu == pytest.approx(cpu, rel=1e-8, abs=1e-10)
