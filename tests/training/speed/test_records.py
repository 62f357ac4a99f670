"""The rule for records, on planted times."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from windtunnel import tunnels
from windtunnel.training.speed.records import (
    CACHE_FILLED,
    Attempt,
    attempts_in,
    p_faster,
    records,
    rulings,
    taught,
    world_of,
)
from windtunnel.tunnels import HMM

KEY = ("a card", "hmm", "transformer", 1e-3)


def attempt(seconds, date="2026-01-01", key=KEY, file="") -> Attempt:
    return Attempt(key, "recipe", tuple(seconds), (3.0,) * len(seconds), date, "abc", file)


def test_an_attempt_knows_whether_its_work_was_compiled_before():
    """Told by the attempt itself; in older files by a note."""
    result = {
        "recipe": {"tunnel": {"name": "hmm"}, "model": "mlp", "supervision": "labels"},
        "name": "x",
        "changes": [],
    }
    result |= {"environment": {"device": "a card", "commit": "abc"}, "seeds": [], "date": "", "targets_bits": [0.1]}
    for told, filled, note in (
        ({}, False, ""),
        ({"note": "a hot day", "cache_filled": True}, True, "a hot day"),
        ({"note": CACHE_FILLED}, True, ""),
    ):
        (found,) = attempts_in(result | told, "file")
        assert (found.cache_filled, found.note) == (filled, note)


@pytest.mark.parametrize(
    ("seconds", "median"),
    [((3, 1, 2), 2), ((4, 1, 2, 3), 2.5), ((1, math.inf, 2, 3), 2.5), ((1, 2, math.inf, math.inf), math.inf)],
)
def test_the_median_of_an_even_number_lies_between_the_two_in_the_middle(seconds, median):
    """And is no number where one of these never passed."""
    assert attempt(seconds).median_s == median


def test_p_of_five_against_five():
    """One of the 252 ways to deal ten times into two fives; by hand."""
    assert p_faster([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]) == pytest.approx(1 / 252)
    assert p_faster([6, 7, 8, 9, 10], [1, 2, 3, 4, 5]) == pytest.approx(1.0)
    assert p_faster([1, 2, 3, 4, 6], [5, 7, 8, 9, 10]) == pytest.approx(2 / 252)
    assert p_faster([1, 2, 3], [6, 7, 8, 9, 10]) == pytest.approx(1 / 56)  # three seeds can never be enough


def test_a_seed_that_never_passed_is_the_slowest():
    assert p_faster([1, 2, 3, 4, math.inf], [6, 7, 8, 9, 10]) == pytest.approx(
        p_faster([1, 2, 3, 4, 99], [6, 7, 8, 9, 10])
    )
    assert p_faster([6, 7, 8, 9, 10], [math.inf] * 5) < 0.01


def test_many_seeds_find_a_small_gain_and_no_gain_is_rarely_taken_for_one():
    rng = np.random.default_rng(0)
    old = rng.lognormal(3.0, 0.1, 30)
    assert p_faster(0.9 * rng.lognormal(3.0, 0.1, 30), old) < 0.01
    wrong = sum(p_faster(rng.lognormal(3, 0.3, 6), rng.lognormal(3, 0.3, 6)) < 0.01 for _ in range(100))
    assert wrong <= 5  # at most 1 expected


def test_the_first_attempt_with_enough_seeds_is_a_record():
    short = attempt([1, 1, 1, 1], "2026-01-01")
    first = attempt([20, 21, 22, 23, 24], "2026-01-02")
    assert [v.kind for v in rulings([first, short])] == ["no record", "record"]
    assert records([short, first]) == [first]


def test_a_record_falls_only_to_a_clear_improvement():
    old = attempt([20, 21, 22, 23, 24], "2026-01-01")
    unclear = attempt([10, 11, 21.5, 22.5, 23.5], "2026-01-02")  # faster in the middle and the mean, not at p < 0.01
    clear = attempt([10, 11, 12, 13, 14], "2026-01-03")
    slower = attempt([30, 31, 32, 33, 34], "2026-01-04")
    judged = rulings([slower, clear, unclear, old])
    assert [v.kind for v in judged] == ["record", "no record", "beats", "no record"]
    assert records([old, unclear, clear, slower]) == [clear]


def test_a_gain_smaller_than_the_time_between_two_looks_is_no_record():
    """All seeds of a sitting pass at the same look, so any difference at all is p = 0.004."""
    old = replace(attempt([5.25] * 5, "2026-01-01"), every_s=0.25)
    same = replace(attempt([5.22] * 5, "2026-01-02"), every_s=0.25)
    better = replace(attempt([4.99] * 5, "2026-01-03"), every_s=0.25)
    judged = rulings([old, same, better])
    assert [v.kind for v in judged] == ["record", "no record", "beats"]
    assert judged[1].why == "p = 0.004 against 5.25 s, but by less than the 0.25 s between two looks"


def test_an_attempt_is_judged_by_the_record_of_its_day():
    first, better = attempt([20, 21, 22, 23, 24], "2026-01-01"), attempt([10, 11, 12, 13, 14], "2026-01-03")
    between = attempt([15, 16, 17, 18, 19], "2026-01-02")
    assert [v.kind for v in rulings([better, between, first])] == ["record", "beats", "beats"]
    assert records([better, between, first]) == [better]


def test_half_of_the_seeds_must_pass():
    assert records([attempt([1, 2, math.inf, math.inf, math.inf, 3])]) == []
    assert len(records([attempt([1, 2, 3, math.inf, math.inf])])) == 1


def test_a_target_that_was_not_reached_is_a_result_and_no_record():
    failed = attempt([math.inf] * 5, "2026-01-01")
    (verdict,) = rulings([failed])
    assert (verdict.kind, verdict.why) == ("no record", "reached by 0 of 5 seeds") and records([failed]) == []
    later = attempt([10, 11, 12, 13, 14], "2026-01-02")
    assert records([failed, later]) == [later]
    again = attempt([1, 2, math.inf, math.inf, math.inf], "2026-01-03")  # its two are faster than any
    assert records([failed, later, again]) == [later]


def test_an_easier_world_is_another_world():
    plain = tunnels.to_dict(HMM())
    assert world_of(plain) == world_of({"name": "hmm"}) == "hmm"
    assert world_of(tunnels.to_dict(HMM(length=2, dynamics="rotating"))) == "hmm length=2 dynamics=rotating"
    rows = ((0.9, 0.1), (0.1, 0.9))
    given = HMM(states=2, symbols=2, header=None, transition=rows, emission=rows)
    assert world_of(json.loads(json.dumps(tunnels.to_dict(given)))) == world_of(tunnels.to_dict(given)) != "hmm"


def test_the_exact_belief_as_target_is_another_race_where_labels_are_usual():
    told = [
        taught({"tunnel": {"name": n}, "supervision": s}) for n in ("hmm", "bijection") for s in ("posterior", "labels")
    ]
    assert told == ["", "", " (exact belief)", ""]


def test_devices_tunnels_models_and_targets_have_records_of_their_own():
    keys = [("b", *KEY[1:]), (*KEY[:3], 1e-4), (KEY[0], "recall", *KEY[2:])]
    assert len(records(attempt([1, 2, 3, 4, 5], key=key) for key in keys)) == 3


def test_attempts_are_read_from_a_result_file():
    seeds = [
        {"setup_s": 4.0, "passed": {"0.01": {"seconds": 1.5}, "0.001": {"seconds": 9.0}}},
        {"setup_s": 2.0, "passed": {"0.01": {"seconds": 2.5}}},
    ]
    result = {
        "name": "hmm-transformer",
        "changes": ["steps=800"],
        "recipe": {"tunnel": {"name": "hmm"}, "model": "transformer", "supervision": "posterior"},
        "environment": {"device": "a card", "commit": None},
        "targets_bits": [0.01, 0.001],
        "date": "2026-01-01T00:00:00",
        "seeds": seeds,
    }
    loose, strict = attempts_in(result, "a.json")
    assert (loose.key, loose.seconds) == (("a card", "hmm", "transformer", 0.01), (1.5, 2.5))
    assert loose.setup_s == (4.0, 2.0) and (loose.reached, strict.reached) == (2, 1)
    assert strict.seconds == (9.0, math.inf) and strict.recipe == "hmm-transformer steps=800" and strict.commit == ""
