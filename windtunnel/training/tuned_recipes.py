"""The tuned recipes, one small function each: what was changed from the base, and why."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from windtunnel.training.recipe import Optimiser, Recipe, Schedule
from windtunnel.tunnels import HMM, Bijection, Recall, Tunnel

PAPER_SIZE = 2_670_000
LONG = 200
"""Positions from which on a batch is a quarter as large."""


def base(tunnel: Tunnel, model: str, name: str, **model_options: object) -> Recipe:
    """What the tuned recipes share.

    Muon on the matrices, because it was ahead of AdamW in the one comparison made (`docs/log.md`); a rate that falls
    to zero in a line, because KL fell most in the last steps of every run.  bfloat16 for speed: its cost in fidelity
    has not been measured; logits, loss and weights stay in float32.  Long sequences (recall's) in smaller batches.
    """
    return Recipe(
        tunnel,
        model,
        model_options or {"params": PAPER_SIZE},
        Optimiser(kind="muon", lr=2e-3, muon_lr=0.02, betas=(0.9, 0.95), weight_decay=0.0),
        Schedule(warmup=100, decay="linear", decay_share=0.8),
        precision="bfloat16",
        batch=1024 if tunnel.positions < LONG else 256,
        steps=3000,
        validate_every=500,
        validation_episodes=2048,
        checkpoint_every=2000,
        name=name,
    )


def hmm_transformer(tunnel: Tunnel) -> Recipe:
    """No position embedding: the causal mask alone carries order, and extrapolates best beyond the training length.

    4,000 steps: after 3,000 the interval of the three seeds' entropy error reached above 0.005 bits (`docs/log.md`).
    """
    recipe = base(tunnel, "transformer", "hmm-transformer", params=PAPER_SIZE, positions="none")
    return recipe.with_options(supervision="posterior", steps=4000)


def mamba(tunnel: Tunnel) -> Recipe:
    """With weight decay.  Without it Muon's steps add up: on bijection every seed learnt, and then one after the other
    fell back to a guess as its weights grew (`docs/log.md`).  On the HMM five of five held.
    """
    return base(tunnel, "mamba", f"{type(tunnel).__name__.lower()}-mamba").with_options(weight_decay=0.1)


def on_hmm(model: str, tunnel: Tunnel) -> Recipe:
    """Taught by the exact belief.  An LSTM has residual blocks; `hmm_lstm_stacked` is the paper's plain stack."""
    return base(tunnel, model, f"hmm-{model}").with_options(supervision="posterior")


def bijection_transformer(tunnel: Tunnel) -> Recipe:
    """Hard labels only: the belief is never shown.  (With replacement it is another task: see below.)

    The entropy error at the end fell as AdamW's rate (head and embedding) rose, so it is five times the usual one;
    `docs/log.md` has the comparison.
    """
    if isinstance(tunnel, Bijection) and tunnel.replacement:
        return _bijection_replacement_transformer(tunnel)
    return base(tunnel, "transformer", "bijection-transformer").with_options(lr=0.01, steps=5300)


def _bijection_replacement_transformer(tunnel: Tunnel) -> Recipe:
    """Scores that fall with distance, as for recall: with learned positions all five seeds stayed at a uniform guess
    for 1,500 steps (`docs/log.md`).
    """
    return base(tunnel, "transformer", "bijection-replacement-transformer", params=PAPER_SIZE, positions="alibi")


def recall_transformer(tunnel: Tunnel) -> Recipe:
    """Scores that fall with distance: with them five of five seeds found binding (`docs/records.md`); with learned,
    rotary or no positions none did in the trials of `docs/log.md`.
    """
    recipe = base(tunnel, "transformer", "recall-transformer", params=PAPER_SIZE, positions="alibi")
    return recipe.with_options(steps=600, validation_episodes=1024)


def hmm_transformer_9x256(tunnel: Tunnel) -> Recipe:
    """The paper's HMM shape, 7.1M parameters."""
    shape = {"preset": "paper-hmm", "positions": "none"}
    return hmm_transformer(tunnel).with_options(model_options=shape, steps=3000, name="hmm-transformer-9x256")


def hmm_transformer_long(tunnel: Tunnel) -> Recipe:
    """The 7.1M shape on sixteen times as many sequences: how far down does the error go?  Five minutes of an H200."""
    return hmm_transformer_9x256(tunnel).with_options(batch=2048, steps=24_000, name="hmm-transformer-long")


def bijection_transformer_posterior(tunnel: Tunnel) -> Recipe:
    """Supervised with the exact belief: what is left of the error when sampled labels add no noise."""
    recipe = bijection_transformer(tunnel)
    return recipe.with_options(supervision="posterior", name="bijection-transformer-posterior")


def hmm_lstm_stacked(tunnel: Tunnel) -> Recipe:
    """The paper's optimiser on plain layers, to see what it does: AdamW at 3e-4, 1,000 steps of warm-up, cosine.

    Seven layers of 216, to have as many parameters as the others; the paper's nine of 256 are a cell of the study.
    """
    recipe = base(tunnel, "lstm", "hmm-lstm-stacked", params=PAPER_SIZE, style="stacked")
    return recipe.with_options(
        supervision="posterior", optimiser="adamw", lr=3e-4, weight_decay=0.01, warmup=1000, decay="cosine"
    )


def hmm_mlp_position(tunnel: Tunnel) -> Recipe:
    """The paper's MLP sees one position and no matrix: one symbol tells nothing, and the best guess is uniform."""
    recipe = base(tunnel, "mlp", "hmm-mlp-position", params=PAPER_SIZE, context="position")
    return recipe.with_options(supervision="posterior")


STANDARD: dict[tuple[str, str], Callable[[Tunnel], Recipe]] = {
    ("hmm", "transformer"): hmm_transformer,
    **{("hmm", model): partial(on_hmm, model) for model in ("mamba", "lstm", "mlp", "linear-attention")},
    ("bijection", "transformer"): bijection_transformer,
    ("bijection", "mamba"): mamba,
    ("recall", "mamba"): mamba,
    ("urn", "mamba"): mamba,
    ("recall", "transformer"): recall_transformer,
}

NAMED: dict[str, Callable[[], Recipe]] = {
    "hmm-transformer-9x256": lambda: hmm_transformer_9x256(HMM()),
    "hmm-transformer-long": lambda: hmm_transformer_long(HMM()),
    "hmm-transformer": lambda: hmm_transformer(HMM()),
    "hmm-mamba": lambda: on_hmm("mamba", HMM()),
    "hmm-lstm": lambda: on_hmm("lstm", HMM()),
    "hmm-lstm-stacked": lambda: hmm_lstm_stacked(HMM()),
    "hmm-mlp": lambda: on_hmm("mlp", HMM()),
    "hmm-mlp-position": lambda: hmm_mlp_position(HMM()),
    "hmm-linear-attention": lambda: on_hmm("linear-attention", HMM()),
    "bijection-transformer": lambda: bijection_transformer(Bijection()),
    "bijection-transformer-posterior": lambda: bijection_transformer_posterior(Bijection()),
    "bijection-replacement-transformer": lambda: bijection_transformer(Bijection(replacement=True)),
    # Every stored key is asked for: 64 answers to learn from in each sequence instead of 3.
    "recall-transformer": lambda: recall_transformer(Recall(queries=64)),
}
"""The recipes by the names that `benchmarks/reach.py` and `benchmarks/records.py` know them by."""
