"""Every script in examples/ and the Python blocks of the pages run to the end."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from windtunnel.mechanism.survey import NAMES

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def run(*arguments: str | Path, cwd: Path) -> str:
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=cwd)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(script, tmp_path):
    assert run(script, cwd=tmp_path).strip(), "an example prints what it found"


BAYES = """
import torch
from examples.new_tunnel import Coins

tunnel = Coins(coins=3, length=6)
drawn = tunnel.sample(2000)
heads = drawn.latent["tosses"].cumsum(1)[..., None]
tails = torch.arange(1, 7)[:, None] - heads
chance = tunnel.bias**heads * (1 - tunnel.bias) ** tails
torch.testing.assert_close(drawn.posterior, chance / chance.sum(-1, keepdim=True))
told = drawn.posterior.gather(-1, drawn.labels[..., None]).mean()
print(float(told - drawn.posterior.square().sum(-1).mean()))
"""


def test_the_belief_of_the_new_tunnel_is_bayes_rule_and_labels_fall_as_it_says():
    assert abs(float(run("-c", BAYES, cwd=ROOT))) < 0.02  # in a process of its own: importing it registers the tunnel


def test_there_is_a_quickstart():
    assert "quickstart" in {path.stem for path in EXAMPLES}


def test_readme_python_runs(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks
    assert run("-c", "\n".join(blocks), cwd=tmp_path).strip()  # one after the other, as a reader would


def test_the_page_of_instruments_names_them_all_and_what_its_example_prints(tmp_path):
    page = (ROOT / "docs" / "instruments.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in page for name in NAMES)
    (block,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    last = run("-c", block, cwd=tmp_path).strip().splitlines()[-1]
    assert " ".join(last.split()) in " ".join(page.split())
