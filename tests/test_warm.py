"""benchmarks/warm.py: what it would compile, each kind once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from warm import chosen, kind, unlike  # noqa: E402

from windtunnel.errors import InputError  # noqa: E402
from windtunnel.training.speed.cases import PAIRS  # noqa: E402


def test_sections_and_recipes_share_what_they_share():
    found = chosen(["hmm-mamba", "seeds", "growth"], [], ["hmm/mamba", "hmm/lstm"])
    assert {recipe.batch for name, recipe in found.items() if "mamba" in name} == {1024, 5120}
    kinds = unlike(found)
    assert "hmm-mamba" in kinds and "seeds hmm/mamba" not in kinds and "seeds hmm/mamba, larger" in kinds
    assert sum(name.startswith("growth") for name in kinds) == 13  # 4 axes by 3 factors, and the base


def test_what_an_optimiser_does_is_not_compiled():
    """An attempt at another rate finds the forward pass and the sampler of the recipe as it is."""
    plain, changed = (
        *chosen(["bijection-transformer"], [], []).values(),
        *chosen(["bijection-transformer"], ["average=0.99", "lr=0.001", "steps=1400"], []).values(),
    )
    assert kind(plain) == kind(changed)
    assert kind(plain) != kind(plain.with_options(precision="float32"))


def test_every_pair_differs_from_every_other():
    assert len(unlike(chosen(list(PAIRS), [], []))) == len(PAIRS) == 20


def test_settings_change_the_named():
    (recipe,) = chosen(["hmm-transformer-9x256"], ["first_batch=256", "batch=2048"], []).values()
    assert [stage.batch for stage in recipe.stages] == [256, 512, 1024, 2048]


@pytest.mark.parametrize(("words", "seeds_of"), [(["hmm-horoscope"], []), (["seeds"], ["hmm/horoscope"])])
def test_an_unknown_name_is_refused(words, seeds_of):
    with pytest.raises(InputError, match=r"horoscope.*must be one of"):
        chosen(words, [], seeds_of)
