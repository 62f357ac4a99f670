"""The same bits and the same episodes on a GPU."""

from __future__ import annotations

import pytest
import torch

from windtunnel.tunnels import HMM, Bijection, Recall, Urn
from windtunnel.tunnels.random import Source

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]


def test_gpu_bits_equal_cpu_bits():
    cpu = Source.open(3, "test", 1000, start=2**40)
    gpu = Source.open(3, "test", 1000, start=2**40, device="cuda")
    assert torch.equal(cpu.bits(4, 33), gpu.bits(4, 33).cpu())
    assert torch.equal(cpu.permutation(4, 20), gpu.permutation(4, 20).cpu())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gpu_episodes_equal_cpu_episodes(dtype):
    for tunnel in (
        Bijection(replacement=True),
        HMM(),
        HMM(dynamics="rotating"),
        HMM(prior="released"),
        Recall(),
        Urn(),
    ):
        cpu = tunnel.sample(500, seed=4, stream="test", dtype=dtype)
        gpu = tunnel.sample(500, seed=4, stream="test", dtype=dtype, device="cuda").to("cpu")
        assert torch.equal(cpu.inputs.tokens, gpu.inputs.tokens)
        assert torch.equal(cpu.labels, gpu.labels)
        torch.testing.assert_close(cpu.posterior, gpu.posterior, atol=1e-5 if dtype == torch.float32 else 1e-12, rtol=0)


@pytest.mark.parametrize(
    "name", ["bijection", "bijection replacement", "hmm", "hmm rotating", "hmm released", "recall", "urn"]
)
def test_compiled_sampler_draws_the_same_episodes(name):
    """The sampler as the trainer compiles it, against the plain one on the CPU."""
    tunnel = {
        "bijection": Bijection(),
        "bijection replacement": Bijection(replacement=True, layout="paper"),
        "hmm": HMM(),
        "hmm rotating": HMM(dynamics="rotating", predict="symbol"),
        "hmm released": HMM(prior="released", header="tokens"),
        "recall": Recall(pairs=10, keys=30, values=30, noise=0.2, repeats=2),
        "urn": Urn(),
    }[name]

    def sample(numbers):
        return tunnel.episodes(tunnel.draw(Source(7, 0, numbers)), torch.float32)

    found = torch.compile(sample, dynamic=False)(torch.arange(333, device="cuda")).to("cpu")
    plain = tunnel.sample(333, seed=7, stream="train", dtype=torch.float32)
    assert torch.equal(found.inputs.tokens, plain.inputs.tokens)
    assert torch.equal(found.labels, plain.labels)
    torch.testing.assert_close(found.posterior, plain.posterior, atol=1e-5, rtol=0)
