"""Which device is meant, and whether it is here."""

from __future__ import annotations

import os

import pytest
import torch

import windtunnel as wt
from windtunnel import environment
from windtunnel.environment import limit_threads, require_device, thread_limits
from windtunnel.errors import InputError
from windtunnel.tunnels import Bijection

TUNNEL = Bijection(symbols=4, length=4)
TINY = {"steps": 1, "batch": 4, "validation_episodes": 4, "depth": 1, "width": 8}


@pytest.mark.parametrize("device", ["cpu", "cpu:0", torch.device("cpu"), torch.device("cpu:0")], ids=str)
def test_every_word_for_the_cpu_is_taken_everywhere(tmp_path, device):
    assert require_device(device) == "cpu"
    assert TUNNEL.sample(2, device=device).labels.device.type == "cpu"
    run = wt.train(TUNNEL, "mlp", device=device, out=tmp_path, **TINY)
    assert run.device == "cpu"
    assert wt.evaluate(wt.load(tmp_path, device=device), episodes=4, device=device).kl_bits.mean > 0


@pytest.mark.parametrize("device", [0, 1, "", "0", None, "tpu", "cuda:", "cuda:x", "cuda:-1", "cpu:1", "meta"])
def test_what_is_no_device_is_told_in_one_line(device):
    with pytest.raises(InputError, match=rf"^device = {device!r}: must be cpu, cuda or cuda:N$"):
        require_device(device)
    if device is not None:  # which leaves the choice to `train`
        with pytest.raises(InputError, match=rf"^device = {device!r}: must be cpu, cuda or cuda:N$"):
            wt.train(TUNNEL, "mlp", device=device, **TINY)


@pytest.mark.parametrize("device", ["cuda:99", torch.device("cuda:99")], ids=repr)
def test_a_gpu_that_is_not_here_is_told_in_one_line(device):
    with pytest.raises(InputError, match=r"^device = 'cuda:99': must be cpu"):
        require_device(device)


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (0, "must be cpu: torch sees no GPU here"),
        (1, "must be cpu, or cuda or cuda:0 (1 GPU here)"),
        (4, "must be cpu, or cuda:0 to cuda:3 (4 GPUs here)"),
    ],
)
def test_which_gpus_there_are_is_said_plainly(count, told, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    with pytest.raises(InputError) as error:
        require_device("cuda:9")
    assert str(error.value) == f"device = 'cuda:9': {told}"


def test_several_processes_share_the_cores_unless_the_user_has_said_otherwise(monkeypatch):
    """What the command line set for itself does not count as the user's word."""
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY")
    monkeypatch.setattr(os, "environ", {name: value for name, value in os.environ.items() if name not in names})
    monkeypatch.setattr(environment, "_set_here", {})
    monkeypatch.setattr(environment, "cores", lambda: 4)
    limit_threads()
    assert os.environ["OPENBLAS_NUM_THREADS"] == "4" and "OMP_NUM_THREADS" not in os.environ
    assert thread_limits(2)["OPENBLAS_NUM_THREADS"] == thread_limits(2)["OMP_NUM_THREADS"] == "2"
    assert thread_limits(8)["OPENBLAS_NUM_THREADS"] == "1"
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    assert "OPENBLAS_NUM_THREADS" not in thread_limits(2)
