"""Where seeds stand: which go on together, and that none goes back for the sake of another."""

from __future__ import annotations

from dataclasses import replace

from tests.training.cases import tiny
from windtunnel.training.folder import RunFolder
from windtunnel.training.network import Network
from windtunnel.training.standing import Standing


def placed(tmp_path, steps: dict[int, list[int]]):
    recipe = tiny(seeds=tuple(steps), steps=9)
    folder = RunFolder(tmp_path)
    networks = [Network(recipe, seed, "cpu") for seed in steps]
    folder.create(recipe, None)
    for network in networks:
        for step in range(1, 9):
            network.advance()
            if step in steps[network.seed]:
                folder.seed(network.seed).save_state(step, network.state())
    fresh = [Network(recipe, seed, "cpu") for seed in steps]
    return Standing(recipe, folder, earlier=False, say=lambda line: None), fresh, folder


def test_seeds_at_one_step_advance_together_and_none_goes_back(tmp_path):
    standing, _, _ = placed(tmp_path, {0: [2, 4], 1: [2], 2: [], 3: [2, 4]})
    assert standing.groups() == [(0, 3), (1,), (2,)]
    assert standing.groups(most=1) == [(0,), (3,), (1,), (2,)]


def test_resuming_one_group_leaves_the_others_alone(tmp_path):
    standing, networks, folder = placed(tmp_path, {0: [2, 4], 1: [], 2: [2, 4]})
    assert standing.restore([networks[0], networks[2]]) == 4
    assert [int(network.step) for network in networks] == [4, 0, 4]
    assert standing.restore([networks[1]]) == -1
    assert folder.seed(0).last_step() == folder.seed(2).last_step() == 4


def test_a_finished_seed_is_in_no_group(tmp_path):
    standing, _, _ = placed(tmp_path, {0: [4, 8], 1: [4]})
    assert replace(standing, recipe=replace(standing.recipe, steps=8)).groups() == [(1,)]
