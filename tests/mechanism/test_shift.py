"""Another prior: it costs the exact predictor nothing, and a short memory where it matters."""

from __future__ import annotations

from tests.mechanism.planted import AGAIN, ONCE, RECALL, TINY, URN, ZEROS, Exact
from windtunnel.fidelity.baselines.common import Uniform
from windtunnel.geometry import Missing
from windtunnel.mechanism import shifted_prior
from windtunnel.mechanism.worlds import shifted

EPISODES = TINY.sample(32)


def test_a_shifted_prior():
    worlds = shifted(TINY)
    assert list(worlds) == ["concentration 0.3", "concentration 3", "rotating", "sticky"]
    found = shifted_prior(Exact(TINY), TINY, EPISODES, [Uniform(3)])
    assert [m.where["world"] for m in found if not isinstance(m, Missing)] == list(worlds)
    assert all(abs(m.value) < 1e-9 for m in found if not isinstance(m, Missing))
    short = {
        m.where["world"]: m for m in shifted_prior(Exact(TINY, 1), TINY, EPISODES, []) if not isinstance(m, Missing)
    }
    assert short["rotating"].low > 0.05 and short["rotating"].value > short["rotating"].nulls["equal means"].max()
    assert isinstance(shifted_prior(Exact(AGAIN), AGAIN, AGAIN.sample(4), [])[0], Missing)  # longer than its symbols
    assert list(shifted(ONCE)) == ["with replacement"] and list(shifted(RECALL)) == ["noise 0.2"]
    assert list(shifted(URN)) == ["concentration 0.05", "concentration 0.2", "concentration 1"]
    assert shifted(ZEROS) == {}  # fixed matrices have no prior
