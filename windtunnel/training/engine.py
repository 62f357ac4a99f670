"""Advance networks by many steps: on a CPU each on a thread of its own, on a GPU together in one captured graph.

On a GPU the whole step of every seed (sampling, forward, backward, optimiser) is compiled and captured once, each seed
on its own branch of the graph, and then replayed.  Branches run side by side wherever one alone does not fill the
card; at their end Muon moves the matrices of all seeds in one batch.  No seed's numbers touch another's, so seeds
together equal seeds alone but for the rounding of batched products; and any module can take part, because its
parameters need no extra axis.  (The design suggested a leading seed axis for everything: branches are simpler, and work
for cuDNN's LSTM and for foreign modules.)
"""

from __future__ import annotations

import gc
from dataclasses import replace

import torch

from windtunnel.errors import InputError
from windtunnel.training.batch_stages import Stage, stage_at
from windtunnel.training.network import Network, finish_step
from windtunnel.training.seed_threads import advance_beside

_WARMUP = 3  # steps before capture, so that every lazy allocation and autotuning has happened


class Engine:
    """Advances some networks of one recipe, all at the same step.  `compile` is only for GPUs; capture follows it.

    A batch that grows has a graph for each of its sizes.
    """

    def __init__(self, networks: list[Network], compile: bool = True) -> None:
        self.networks = networks
        self.on_gpu = networks[0].device.type == "cuda"
        self.step = int(networks[0].step)
        self.stages = networks[0].recipe.stages
        self.graphs: dict[Stage, torch.cuda.CUDAGraph] = {}
        if self.on_gpu and compile:
            self._capture()

    def advance(self, steps: int) -> None:
        """That many steps of every network."""
        if not self.on_gpu and len(self.networks) > 1:
            advance_beside(self.networks, steps)
        else:
            for step in range(self.step, self.step + steps):
                if self.graphs:
                    self.graphs[stage_at(self.stages, step)].replay()
                else:
                    for network in self.networks:
                        network.advance()
        self.step += steps

    def _capture(self) -> None:
        """Compile, capture the stages still to come on a scratch copy of the state, and put the state back."""
        saved = [{name: value.clone() for name, value in network.state().items()} for network in self.networks]
        now = stage_at(self.stages, self.step)
        for network in self.networks:
            network.compile()
        for stage in self.stages[self.stages.index(now) :]:
            self.graphs[stage] = self._captured(stage)
        for network, state in zip(self.networks, saved, strict=True):
            network.restore(state)
            network.broken_at.fill_(-1)
        torch.cuda.synchronize()

    def _captured(self, stage: Stage) -> torch.cuda.CUDAGraph:
        """One step of every network in that stage, after some to warm up."""
        main = torch.cuda.Stream()
        main.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(main):
            for network in self.networks:
                network.enter(stage)
            for _ in range(_WARMUP):
                for network in self.networks:
                    network.step.fill_(stage.first_step)  # a short stage: do not run past it, nor the table of rates
                    network.begin_step()
                finish_step(self.networks)
        torch.cuda.synchronize()
        gc.collect()
        torch.cuda.empty_cache()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=main):
            if len(self.networks) == 1:
                self.networks[0].begin_step()
            else:
                self._begin_side_by_side(main)
            finish_step(self.networks)
        return graph

    def _begin_side_by_side(self, main: torch.cuda.Stream) -> None:
        """The networks' own parts of a step, each on a branch of the graph."""
        branches = [torch.cuda.Stream() for _ in self.networks]
        for network, branch in zip(self.networks, branches, strict=True):
            branch.wait_stream(main)
            with torch.cuda.stream(branch):
                network.begin_step()
        for branch in branches:
            main.wait_stream(branch)


def fitting_batch(network: Network) -> int | None:
    """After running out of GPU memory: a halving of the batch that fits, or None.

    Half of what a plain step takes, a quarter where the batch grows: every captured graph keeps a pool of its own, and
    finding out exactly would mean compiling.
    """
    share = 2 if len(network.recipe.stages) == 1 else 4
    batch = network.recipe.batch
    while batch > 1:
        batch //= 2
        torch.cuda.empty_cache()
        try:
            recipe = replace(network.recipe, batch=batch, first_batch=0)
            smaller = Network(recipe, network.seed, str(network.device), network.factory)
            smaller.advance()
            torch.cuda.synchronize()
            return max(1, batch // share)
        except torch.cuda.OutOfMemoryError:
            continue
    return None


def out_of_memory(networks: list[Network]) -> InputError:
    """The one line for a batch that does not fit."""
    batch, together = networks[0].recipe.batch, len(networks)
    fits = fitting_batch(networks[0])
    if fits is None:
        return InputError(f"batch = {batch}: not even a batch of 1 fits into GPU memory; take a smaller model")
    alone = "" if together == 1 else f" for one seed ({together} are trained together here; train fewer at a time)"
    return InputError(f"batch = {batch}: does not fit into GPU memory; a batch of {fits} does{alone}")
