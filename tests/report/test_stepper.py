"""The stepper in a real headless Chromium: by keyboard and mouse, with the numbers of `wt.evaluate`."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import pytest
import torch

import windtunnel as wt
from tests.report.watched import Watched, shown_number
from windtunnel.report import write_page
from windtunnel.report.episodes import deflate, explained, inflate
from windtunnel.training import load
from windtunnel.tunnels import HMM, to_dict


def choose(page, world: str, network: str, episode: int) -> None:
    page.locator("#step-world").select_option(world)
    page.wait_for_selector("#stepper[data-ready=yes]")
    page.locator("#step-network").select_option(label=f"{network}, seed 0")
    page.wait_for_selector("#stepper[data-ready=yes]")
    page.locator("#step-episode").select_option(str(episode))


def episode_score(network, tunnel, episode: int, count: int):
    """`wt.evaluate` on one episode of the default stream."""

    def only(episodes):
        return (torch.arange(len(episodes)) == episode)[:, None].expand(episodes.labels.shape)

    return wt.evaluate(network, tunnel, episodes=count, where=only)


CASES = [
    ("hmm", "transformer", 0),
    ("hmm", "lstm", 3),
    ("bijection-replacement", "transformer", 7),
    ("urn", "transformer", 2),
]


@pytest.mark.parametrize(("world", "model", "episode"), CASES)
def test_numbers_are_those_of_evaluate(page, demo, world, model, episode):
    run = load(demo / "runs" / f"{world}-{model}")
    count = int(page.evaluate("() => JSON.parse(document.getElementById('data').textContent).stepper[0].count"))
    score = episode_score(run.models[0], run.tunnel, episode, count)
    choose(page, world, model, episode)
    page.locator("#step-slider").fill("1")
    sampled = run.tunnel.sample(count, 1, "test")
    believed = run.models[0].log_probs(sampled.inputs).exp()[episode]
    for step in range(run.tunnel.readouts):
        assert page.locator("#step-where").inner_text() == f"step {step + 1} of {run.tunnel.readouts}"
        kept = float(page.locator("#step-kl").get_attribute("data-value"))
        assert kept == pytest.approx(score.kl_bits.per_position[step], rel=1e-4, abs=1e-7)
        assert shown_number(page.locator("#step-kl").inner_text()) == pytest.approx(kept, rel=6e-3)
        exact, model_bits = (shown_number(page.locator(f"#step-{who}-bits").inner_text()) for who in ("exact", "model"))
        assert exact == pytest.approx(score.exact_entropy_curve[step], rel=6e-3, abs=1e-6)
        assert model_bits == pytest.approx(score.model_entropy_curve[0, step], rel=6e-3, abs=1e-6)
        bars = [
            [float(v) for v in page.locator(f"[data-{who}]").evaluate_all("n => n.map(e => e.textContent)")]
            for who in ("exact", "model")
        ]
        assert bars[0] == pytest.approx(sampled.posterior[episode, step].tolist(), abs=6e-4)
        assert bars[1] == pytest.approx(believed[step].tolist(), abs=6e-4)
        page.locator("#step-on").click(force=step + 1 == run.tunnel.readouts)


def test_moves_by_keyboard(page):
    choose(page, "hmm", "transformer", 1)
    where = page.locator("#step-where")
    page.locator("#step-slider").focus()
    for key, step in (("Home", 1), ("ArrowRight", 2), ("ArrowRight", 3)):
        page.keyboard.press(key)
        assert where.inner_text() == f"step {step} of 6"
    page.locator("#stepper").focus()
    for key, step in (("ArrowLeft", 2), ("End", 6), ("ArrowRight", 6), ("Home", 1), ("ArrowLeft", 1)):
        page.keyboard.press(key)
        assert where.inner_text() == f"step {step} of 6"
    assert page.locator("#step-back").is_disabled()
    assert "KL" in page.locator("#step-live").text_content()


def test_moves_by_mouse(page):
    choose(page, "hmm", "transformer", 1)
    where = page.locator("#step-where")
    page.locator("#step-trail rect[data-step='4']").last.click()
    assert where.inner_text() == "step 5 of 6"
    page.locator("#step-back").click()
    assert where.inner_text() == "step 4 of 6"
    slider = page.locator("#step-slider").bounding_box()
    middle = slider["y"] + slider["height"] / 2
    page.mouse.move(slider["x"] + slider["width"] / 2, middle)
    page.mouse.down()
    page.mouse.move(slider["x"] + slider["width"] - 3, middle, steps=4)
    page.mouse.up()
    assert where.inner_text() == "step 6 of 6" and page.locator("#step-on").is_disabled()
    page.locator("#step-trail rect[data-step='0']").last.click()
    assert where.inner_text() == "step 1 of 6"


def test_attention_the_chain_and_the_simplex(page, demo):
    run = load(demo / "runs" / "hmm-transformer")
    choose(page, "hmm", "transformer", 2)
    page.locator("#step-slider").fill("4")
    page.locator("#step-layer").select_option("1")
    page.locator("#step-head").select_option("1")
    episodes = run.tunnel.sample(3, 1, "test")
    pattern = wt.trace(run.models[0], episodes, "blocks.1.attention.pattern")
    last = run.tunnel.header_positions + 3
    shares = pattern["blocks.1.attention.pattern"][2, 1, last, : last + 1].tolist()
    titles = page.locator("#step-tokens .token").evaluate_all("nodes => nodes.map(n => n.title)")
    assert [shown_number(title.partition(" ")[2]) for title in titles] == pytest.approx(shares, abs=0.006)
    for name in ("transition", "emission"):
        cells = page.locator(f"#step-{name} tbody td").all_inner_texts()
        assert list(map(float, cells)) == pytest.approx(episodes.latent[name][2].flatten().tolist(), abs=0.006)
    assert page.locator("#step-simplex circle").count() == 2
    choose(page, "bijection-replacement", "mlp", 0)
    assert page.locator("#step-no-attention").is_visible()
    assert not page.locator("#step-simplex").is_visible() and not page.locator("#step-chain").is_visible()


def test_says_what_the_belief_is_about(page):
    for world, model, about in (
        ("hmm", "transformer", "the state it is in now."),
        ("bijection-replacement", "mlp", "the last key's value."),
        ("urn", "transformer", "the next colour."),
    ):
        choose(page, world, model, 0)
        assert page.locator("#step-say").inner_text().endswith(f"The belief is about {about}")
    told = HMM(
        header=None, transition=[[0.5, 0.5]] * 2, emission=[[0.5, 0.5]] * 2, states=2, symbols=2, predict="symbol"
    )
    assert "T0" not in explained(to_dict(told)) and "the symbol that it will show next" in explained(to_dict(told))
    assert explained({"name": "mine"}) == ""


def test_the_truth_is_among_the_outcomes_shown_however_many_there_are(browser, source, tmp_path):
    record = deepcopy(source.exhibits["urn-transformer"])
    data = inflate(record["episodes"]["data"])
    names, steps = [f"c{i}" for i in range(40)], len(data["readout"])
    belief = [0.5 - i / 100 if i < 30 else 0.0 for i in range(40)]
    data |= {"classes": names} | {who: [[belief] * steps] * record["episodes"]["count"] for who in ("exact", "model")}
    data |= {"labels": [[35] * steps] * record["episodes"]["count"]}
    record["episodes"]["data"] = deflate(data)
    page_file = write_page(replace(source, exhibits={"urn-transformer": record}), tmp_path / "many.html")
    with Watched(browser, page_file) as seen:
        assert seen.page.locator("#step-beliefs .belief").count() == 12
        assert seen.page.locator("#step-beliefs .truth .name").inner_text() == "c35"


def test_bars_keep_their_scale_from_step_to_step(browser, source, tmp_path):
    record = deepcopy(source.exhibits["urn-transformer"])
    data = inflate(record["episodes"]["data"])
    steps, count = len(data["readout"]), record["episodes"]["count"]
    beliefs = [[0.3 + 0.1 * (k == steps - 1), 0.3, 0.3 - 0.1 * (k == steps - 1), 0.1] for k in range(steps)]
    sure = [[*beliefs[:-1], [0.97, 0.01, 0.01, 0.01]]]
    data |= {"exact": sure + [beliefs] * (count - 1), "model": [beliefs] * count}
    record["episodes"]["data"] = deflate(data)
    page_file = write_page(replace(source, exhibits={"urn-transformer": record}), tmp_path / "bars.html")
    with Watched(browser, page_file) as seen:
        for episode, end in ((0, 1), (1, 0.5)):
            seen.page.locator("#step-episode").select_option(str(episode))
            for step in (1, steps):
                seen.page.locator("#step-slider").fill(str(step))
                assert seen.page.locator("#step-scale").inner_text() == f"bars from 0 to {end}"
                bar = seen.page.locator("#step-beliefs .bar.model").first
                wide, room = (
                    bar.evaluate(f"n => n{up}.getBoundingClientRect().width") for up in ("", ".parentElement")
                )
                assert wide / room == pytest.approx(beliefs[step - 1][0] / end, abs=0.01)


def test_csv(watched, demo):
    choose(watched.page, "hmm", "lstm", 5)
    rows = watched.csv("#step-csv")
    run = load(demo / "runs" / "hmm-lstm")
    score = episode_score(run.models[0], run.tunnel, 5, 24)
    at = rows[0].index("kl_bits")
    kl = score.kl_bits.per_position.tolist()
    assert [float(row[at]) for row in rows[1:]] == pytest.approx(kl, rel=1e-4, abs=1e-7)
    exact = rows[0].index("exact s0")
    belief = run.tunnel.sample(6, 1, "test").posterior[5]
    told = [float(v) for row in rows[1:] for v in row[exact : exact + 3]]
    assert told == pytest.approx(belief.flatten().tolist(), abs=1e-5)
    assert watched.said == [] and watched.left == set()
