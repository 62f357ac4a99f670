"""For every claim, results planted on its side of the line, on the other side, or across it."""

from __future__ import annotations

from collections.abc import Callable

from tests.study.planted import Planted, around, linear, values
from windtunnel.study.claims.primitives import TABLE, WORLDS
from windtunnel.study.trials import PRIMITIVES

PRIORS = ("home", "released")
STACKED = ("hmm-lstm-stacked", "hmm-lstm-stacked-swept")
METHODS = ("zero", "mean", "resample")
OFF, OFF_ERROR = "bits lost with late attention off", "entropy error with late attention off"
RANDOM = {"nulls": {"untrained": [0.1, 0.1], "random vectors": [0.1, 0.1]}}


def reaches(cell: str, line: float, *conditions: str) -> Callable[[Planted, str], None]:
    def plant(p: Planted, how: str) -> None:
        for metric in ("entropy_mae_bits", "curve_mae_bits", "kl_bits"):
            p.score(cell, metric, values(line, "below", how), *conditions)

    return plant


def fails(cell: str, others: tuple[str, ...], *conditions: str) -> Callable[[Planted, str], None]:
    def plant(p: Planted, how: str) -> None:
        p.baseline(cell.partition("-")[0], "uniform", "entropy_mae_bits", 1.0, *conditions)
        for name in (cell, *others):
            p.score(name, "entropy_mae_bits", values(0.5, "above", how), *conditions)

    return plant


def gap(world: str, *conditions: str) -> Callable[[Planted, str], None]:
    def plant(p: Planted, how: str) -> None:
        p.score(f"{world}-transformer", "entropy_mae_bits", [0.01] * 4 + [0.0101], *conditions)
        for mlp in ("mlp", "mlp-position"):
            p.score(f"{world}-{mlp}", "entropy_mae_bits", values(0.1, "above", how), *conditions)

    return plant


def length(k: int, line: float, which: str = "") -> Callable[[Planted, str], None]:
    """All positions, or (which: "-beyond") the new ones alone; the network with learned positions goes along."""
    condition = f"length-{k}{which}"

    def plant(p: Planted, how: str) -> None:
        p.score("hmm-transformer-9x256", "entropy_mae_bits", values(line, "below", how), condition)
        p.score("hmm-transformer-9x256-learned", "entropy_mae_bits", values(line, "below", how), condition)
        p.score("hmm-transformer-9x256-learned", "entropy_mae_bits", values(line, "below", "yes"))
        p.score("hmm-transformer-paper", "entropy_mae_bits", values(line, "below", "no"), "home", condition)

    return plant


def looked_at(how: str) -> str:
    """Whose late layers: the paper's shape, or, where nobody looked at those, the smaller network."""
    return "hmm-transformer" if how == "straddle" else "hmm-transformer-9x256"


def late(p: Planted, how: str) -> None:
    for k, seeds in ((20, around(0.001, 1e-5)), (50, linear(0.01, "above", how, far=0.009))):
        p.reading(looked_at(how), OFF, seeds, length=k, positions="all", layers=[7, 8])


def late_off(k: int, side: str, line: float) -> Callable[[Planted, str], None]:
    """Readings about a line; where it fails, that is half of a uniform guess's error."""

    def plant(p: Planted, how: str) -> None:
        for name, metric in ((OFF, "kl_bits"), (OFF_ERROR, "entropy_mae_bits")):
            p.reading(looked_at(how), name, values(line, side, how), length=k, positions="all", layers=[7, 8])
            p.baseline("hmm", "uniform", metric, 2 * line, f"length-{k}")
        p.score(looked_at(how), "entropy_mae_bits", around(0.004, 1e-4))

    return plant


def accuracy(cell: str, side: str, line: float) -> Callable[[Planted, str], None]:
    def plant(p: Planted, how: str) -> None:
        p.score(cell, "accuracy", linear(line, side, how, far=0.02), scale="linear")
        p.score(cell, "kl_bits", around(1.0))

    return plant


def mamba_recall(p: Planted, how: str) -> None:
    """The same with more training as without."""
    for cell in ("recall-mamba", "recall-mamba-long"):
        accuracy(cell, "above", 0.95)(p, how)
        p.cell(cell, sequences={"recall-mamba": 1000}.get(cell, 4000))


def no_recall(p: Planted, how: str) -> None:
    """An LSTM that recalls ("yes") or has learnt which values are stored and no more."""
    accuracy("recall-lstm", "above", 0.05)(p, how)
    p.share("recall-lstm", "binding", around(0.01, 0.001))


def capacity(p: Planted, how: str) -> None:
    for cell, lost in (("recall-transformer", around(0.5)), ("recall-mamba-long", linear(0.6, "above", how, far=0.1))):
        p.score(cell, "accuracy", around(1.0, 0.0), "pairs-8", scale="linear")
        p.score(cell, "accuracy", [1.0 - x for x in lost], "pairs-64", scale="linear")


def slowly(p: Planted, how: str) -> None:
    steps = {"yes": [800] * 5, "no": [100] * 5}.get(how, [100, 400, 200, 800, 100])
    for cell, halved in (("recall-transformer", [100] * 5), ("recall-mamba-long", steps)):
        curves = [[[step, 8.0 if step < at else 0.5] for step in range(0, 1300, 100)] for at in halved]
        p.cell(cell, history={str(seed): curve for seed, curve in enumerate(curves)})
        p.score(cell, "accuracy", around(0.999, 1e-4), scale="linear")


def agree(p: Planted, how: str) -> None:
    """All entropies match but that of the MLP, which is no case of the claim whatever its KL."""
    for metric in ("entropy_mae_bits", "kl_bits", "tv"):
        p.baseline("hmm", "uniform", metric, 1.0, *PRIORS)
        p.score("hmm-mlp", metric, values(0.1, "below", "no"), *PRIORS)
    for model in ("transformer", "mamba", "lstm"):
        p.score(f"hmm-{model}", "entropy_mae_bits", values(0.1, "below", "yes"), *PRIORS)
        for metric in ("kl_bits", "tv"):
            p.score(f"hmm-{model}", metric, values(0.1, "below", how), *PRIORS)


def stand_apart(p: Planted, how: str) -> None:
    wobble = {"yes": 0.001, "no": 1.5, "straddle": 0.3}[how]
    for index, model in enumerate(("transformer", "mamba", "lstm", "mlp")):
        p.score(f"hmm-{model}", "entropy_mae_bits", [10.0 ** (index - 3 + wobble * s) for s in (-1, -0.3, 0, 0.4, 1)])


def matched(p: Planted, how: str) -> None:
    p.cell("hmm-transformer-9x256", parameters={"yes": 2_680_500, "no": 7_130_000}.get(how, round(2_680_000 * 1.01)))


def memorised(p: Planted, how: str) -> None:
    for name in ("bijection-transformer", "hmm-transformer"):
        p.cell(name, overlap={"trained": 10, "test": 5, "shared": 0})
    if how != "yes":
        p.cell("bijection-transformer", sequences=2**60)
        p.cell("hmm-transformer", recipe=p.cells["bijection-transformer"]["recipe"], sequences=2**60)


def keys(p: Planted, how: str) -> None:
    for group in ("keys", "values"):
        for kind in ("raw", "centred"):
            seeds = linear(0.1, "below", how, far=0.05)
            p.reading("bijection-transformer", f"key cosine, {kind}", seeds, **RANDOM, hypotheses=group, path="formed")


def sharpening(p: Planted, how: str) -> None:
    name = "attention entropy, fall from first to last layer"
    seeds = around(-0.5) if how == "no" else linear(0.85, "above", how, far=0.1)
    p.reading("bijection-transformer", name, seeds)


def target(p: Planted, how: str) -> None:
    cell, name = "bijection-replacement-transformer", "attention on matching value"
    nulls = {"untrained": [0.1], "shuffled episodes": [0.1]}
    p.reading(cell, f"{name}, best of all", linear(0.5, "above", how), nulls=nulls, layer=1, head=2)
    p.reading(cell, f"{name}, slope with depth", around(0.1))
    p.reading(cell, name, around(0.1), layer=5, head="mean")


def manifold(p: Planted, how: str) -> None:
    p.reading("bijection-transformer", "PC1 share", linear(0.84, "above", how, far=0.05), stream="values")


def order(p: Planted, how: str) -> None:
    for name in ("entropy, position ignored, PC1", "entropy after position, PC1"):
        p.reading("bijection-replacement-transformer", name, linear(0.5, "above", how), stream="values")


def dissociation(p: Planted, how: str) -> None:
    for cell in ("bijection-transformer", "hmm-transformer"):
        p.summary(cell, "frame–precision dissociation", linear(0.0, "above", how), layer="all")


def clusters(p: Planted, how: str) -> None:
    p.reading("hmm-mamba", "clusters by silhouette", [5.0] * 5)
    p.reading("hmm-mamba", "silhouette at 5 clusters", around(0.6), nulls={"exact belief": [0.5], "untrained": [0.1]})
    p.reading("hmm-mamba", "adjusted Rand with the likeliest state", linear(0.5, "above", how))


def readable(p: Planted, how: str) -> None:
    p.reading("hmm-transformer", "belief decoded, R²", linear(0.5, "above", how), stream="residual")
    nulls = {"untrained": [0.02, 0.03], "shuffled episodes": [0.0, 0.0]}
    p.reading("hmm-transformer", "belief beyond windows 1 and 2, R²", around(0.5), nulls=nulls)


def residual(name: str, side: str, line: float, null: float, *cells: str) -> Callable[[Planted, str], None]:
    def plant(p: Planted, how: str) -> None:
        for cell in cells:
            seeds = linear(line, side, how, far=line / 2 if line < 0.5 else 0.05)
            p.reading(cell, name, seeds, nulls={"untrained": [null, null]}, stream="residual")

    return plant


def with_entropy(side: str, line: float, *cells: str) -> Callable[[Planted, str], None]:
    """What the first component says, and what a linear map of the whole layer reads, on the same side."""

    def plant(p: Planted, how: str) -> None:
        for name in ("entropy, position ignored, PC1", "entropy decoded, R²"):
            residual(name, side, line, 0.0, *cells)(p, how)

    return plant


LSTMS = ("hmm-lstm", "hmm-lstm-stacked")


def layers(p: Planted, how: str) -> None:
    p.score("bijection-transformer", "kl_bits", [0.01, 0.0101, 0.0099, 0.01, 0.0102])
    for method in METHODS:
        for layer in range(3):
            lost = [0.01 * (times - 1) for times in values(10.0, "above", how)]
            p.reading(
                "bijection-transformer", "bits lost to ablation", lost, part="whole layer", method=method, layer=layer
            )


def head(p: Planted, how: str) -> None:
    for method in METHODS:
        seeds = linear(0.5, "above", how)
        p.reading("bijection-transformer", "share of the largest head", seeds, method=method, layer=0)
        p.reading("bijection-transformer", "effective number of heads", around(1.5), method=method, layer=0)


def roles(p: Planted, how: str) -> None:
    """In all layers together, and carry half-way up; single layers are spared, and no network can spare the first."""
    name, seeds = "bits lost without a role", linear(0.05, "above", how, far=0.04)
    for role in ("routing", "update"):
        p.reading("hmm-transformer", name, around(0.0), role=role, site="at it", layer=0)
        p.reading("hmm-transformer", name, seeds, role=role, site="at it", layer="all")
    for layer, lost in enumerate((around(3.0), around(3.0), seeds, around(0.0))):
        p.reading("hmm-transformer", name, lost, role="carry", site="evidence before it", layer=layer)
        p.reading("hmm-transformer", name, around(3.0), role="carry", site="before it", layer=layer)  # the header too


def heads(p: Planted, how: str) -> None:
    p.score("hmm-transformer-heads-1", "kl_bits", values(0.01, "below", "yes"))
    p.score("hmm-transformer-heads-12", "kl_bits", values(0.0025, "above", how)[::-1])


def primitive(model: str, name: str) -> Callable[[Planted, str], None]:
    """A network that has the primitive ("yes"), lacks it ("no"), or comes out on both sides of 0.95."""

    def plant(p: Planted, how: str) -> None:
        shares = {"yes": around(0.99, 0.001), "no": around(0.01, 0.001)}.get(how, around(0.95, 0.04))
        for world in WORLDS[name]:
            p.share(f"{world}-{model}", name, shares)
        for world, condition in (("hmm-sticky", "home"), ("bijection-replacement", "unseen")):
            p.baseline(world, "uniform", "kl_bits", 1.0, condition)
            p.score(f"{world}-{model}", "kl_bits", around(0.01, 0.001), condition)

    return plant


def table(p: Planted, how: str) -> None:
    for model, has in TABLE.items():
        for name in PRIMITIVES:
            wanted = "yes" if name in has else "no"
            primitive(model, name)(p, {"no": "yes"}.get(wanted, wanted) if how == "no" else wanted)
    if how == "straddle":
        primitive("transformer", "transport")(p, "straddle")


PLANTS: dict[str, Callable[[Planted, str], None]] = {
    "bijection-transformer-reaches": reaches("bijection-transformer", 0.007),
    "bijection-mamba-reaches": reaches("bijection-mamba", 0.010),
    "bijection-lstm-reaches": reaches("bijection-lstm", 0.009),
    "hmm-mamba-reaches": reaches("hmm-mamba", 0.024, *PRIORS),
    "bijection-mlp-fails": fails("bijection-mlp", ("bijection-mlp-position",), "home"),
    "hmm-lstm-fails": fails("hmm-lstm", STACKED, *PRIORS),
    "hmm-mlp-fails": fails("hmm-mlp", ("hmm-mlp-position",), *PRIORS),
    "bijection-gap": gap("bijection"),
    "hmm-gap": gap("hmm", *PRIORS),
    "hmm-transformer-7.5e-5": reaches("hmm-transformer-9x256", 7.5e-5, *PRIORS),
    "hmm-transformer-0.049": reaches("hmm-transformer", 0.049, *PRIORS),
    "kl-and-tv-agree": agree,
    "seed-spread": stand_apart,
    "length-30": length(30, 0.012),
    "length-50": length(50, 0.029),
    "length-30-alone": length(30, 0.012, "-beyond"),
    "length-50-alone": length(50, 0.029, "-beyond"),
    "length-200": lambda p, how: p.score(
        "hmm-transformer", "entropy_mae_bits", values(0.029, "below", how), "length-200-beyond"
    ),
    "late-attention": late,
    "late-off-20": late_off(20, "below", 1.6e-3),
    "late-off-50": late_off(50, "above", 0.25),
    "recall-mamba-slowly": slowly,
    "bijection-transformer-0.003": reaches("bijection-transformer", 0.003),
    "recall-transformer-accuracy": accuracy("recall-transformer", "above", 0.99),
    "recall-mamba-accuracy": mamba_recall,
    "recall-lstm-accuracy": no_recall,
    "recall-capacity": capacity,
    "capacity-match": matched,
    "no-memorising": memorised,
    "orthogonal-keys": keys,
    "sharpening": sharpening,
    "sharpening-target": target,
    "value-manifold": manifold,
    "value-order": order,
    "belief-readable": readable,
    "frame-precision": dissociation,
    "mamba-five-clusters": clusters,
    "lstm-collapse": residual("PC1 share", "above", 0.9, 0.1, *LSTMS),
    "lstm-entropy": with_entropy("below", 0.05, *LSTMS),
    "mamba-entropy": with_entropy("above", 0.40, "hmm-mamba"),
    "mamba-spread": residual("PC1 share", "below", 0.25, 0.9, "hmm-mamba"),
    "attention-posterior": lambda p, how: None,
    "every-layer": layers,
    "one-frame-head": head,
    "roles": roles,
    "more-heads": heads,
    "softmax-necessary": primitive("linear-attention", "binding"),
    "primitives-table": table,
} | {f"{model}-{name}": primitive(model, name) for model in TABLE for name in PRIMITIVES}

CANNOT = {"softmax-necessary", "recall-lstm-accuracy"} | {
    f"{model}-{name}" for model, has in TABLE.items() for name in PRIMITIVES if name not in has
}
"""Claims that something cannot be done: having it refutes them, lacking it never proves them."""
UNTESTABLE = {"attention-posterior"}
"""Claims whose published number has no definition."""
EXACT = {"capacity-match", "no-memorising"}
"""Counts, which have no interval that could straddle."""
