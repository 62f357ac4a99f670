"""A few dozen episodes, step by step: what was shown, what should be believed, what the network believes.

The episodes are the first of `evaluate`'s defaults (test stream, seed 1), and the bits are computed by the same
functions, so that every number of the stepper can be had again from `wt.evaluate`.

Attention is kept as bytes, 255 for all of it, so it is known to 0.002.  Everything is deflated: browsers inflate it.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from windtunnel.fidelity.metrics import entropy_bits, kl_bits, model_entropy_bits
from windtunnel.fidelity.predictor import checked_log_probs, evaluation_mode
from windtunnel.geometry.alignment_survey import patterns_at_readout
from windtunnel.geometry.gather import ending, named
from windtunnel.geometry.simplex import corners
from windtunnel.models.device import device_of
from windtunnel.report.curves import SEED
from windtunnel.tunnels import HMM, Bijection, Episodes, Recall, Tunnel, Urn

MOST = 24
LEAST = 4
ATTENTION_BYTES = 600_000  # of one network, before it is deflated
BELIEFS = 250_000  # numbers of one network: where there are many outcomes, episodes are fewer
PER_EPISODE = ("tokens", "labels", "exact", "model", "kl_bits", "exact_bits", "model_bits")


def class_names(tunnel: Tunnel) -> list[str]:
    """What the outcomes of a belief are called: as the tokens that show them, where tokens do."""
    tokens = tunnel.token_names()
    if isinstance(tunnel, Bijection):
        return tokens[tunnel.symbols : 2 * tunnel.symbols]
    if isinstance(tunnel, Recall):
        return tokens[tunnel.keys : tunnel.keys + tunnel.values]
    if isinstance(tunnel, Urn) or (isinstance(tunnel, HMM) and tunnel.predict == "symbol"):
        return tokens[: tunnel.classes]
    return [f"s{index}" for index in range(tunnel.classes)]


def explained(tunnel: Mapping[str, Any]) -> str:
    """What happens in an episode and what the belief is about, for a reader who has not met the tunnel; nothing for one
    of somebody's own."""
    match tunnel["name"]:
        case "bijection":
            return (
                "A hidden permutation gives each key (k) its own value (v). The belief is about the last key's value."
            )
        case "recall":
            return "Values (v) are stored under keys (k), then asked for. The belief is about the last key's value."
        case "urn":
            return "Colours (c) are drawn from an urn whose mixture is hidden. The belief is about the next colour."
        case "hmm":
            rows = " T0, T1, … and E0, E1, … are the rows of its two matrices." * (tunnel.get("header") == "rows")
            about = "state it is in now" if tunnel.get("predict") == "state" else "symbol that it will show next"
            return (
                "A chain moves through hidden states (s) and shows a symbol (o) at each step."
                f"{rows} The belief is about the {about}."
            )
    return ""


def how_many(tunnel: Tunnel, layers: int, heads: int) -> int:
    """Episodes that fit the bytes for attention and the numbers for beliefs; a few dozen at most."""
    beliefs = BELIEFS // (2 * tunnel.readouts * tunnel.classes)
    each = layers * heads * tunnel.readouts * tunnel.positions
    return int(np.clip(min(beliefs, ATTENTION_BYTES // each if each else MOST), LEAST, MOST))


@torch.no_grad()
def stepped(model: nn.Module, tunnel: Tunnel) -> dict[str, Any]:
    """Plain data about the first episodes: {"count", "layers", "heads", "data"}; `data` is what `inflate` gives back.

    tokens (n, T) names; readout (K,); labels (n, K); exact, model (n, K, C); kl_bits, exact_bits, model_bits (n, K)
    attention (n, L, H, K, T) as base64 bytes, or None where there is no softmax attention
    chain     of an HMM: the hidden chain of each episode, transition (n, S, S) and emission (n, S, V)
    """
    one = tunnel.sample(1, SEED, "test", device_of(model))
    patterned = ending(named(model, one), ".attention.pattern")
    shape = patterns_at_readout(model, one).shape if patterned else (1, 0, 0)
    count = how_many(tunnel, shape[1], shape[2])
    episodes = tunnel.sample(count, SEED, "test", device_of(model))
    with evaluation_mode([model]):
        log_q = checked_log_probs(model, episodes.inputs, tunnel)  # type: ignore[arg-type]
    names, p = tunnel.token_names(), episodes.posterior
    states = isinstance(tunnel, HMM) and tunnel.predict == "state"
    data = {
        "tokens": [[names[token] for token in row] for row in episodes.inputs.tokens.tolist()],
        "readout": episodes.inputs.readout.tolist(),
        "classes": class_names(tunnel),
        "labels": episodes.labels.tolist(),
        "exact": _rounded(p, 5),
        "model": _rounded(log_q.exp(), 5),
        "kl_bits": _significant(kl_bits(p, log_q)),
        "exact_bits": _significant(entropy_bits(p)),
        "model_bits": _significant(model_entropy_bits(log_q)),
        "attention": _attention(model, episodes) if patterned else None,
        "corners": np.round(corners(tunnel.classes), 4).tolist() if states else None,
        "chain": _chain(episodes) if isinstance(tunnel, HMM) else None,
    }
    return {"count": count, "layers": shape[1], "heads": shape[2], "data": deflate(data)}


def shortened(record: Mapping[str, Any], room: int) -> Mapping[str, Any]:
    """What `stepped` gave, with as many of its episodes as fit into `room` bytes; one at least."""
    if len(record["data"]) <= room or record["count"] == 1:
        return record
    count = max(1, min(record["count"] - 1, int(record["count"] * room / len(record["data"]))))
    data = inflate(record["data"])
    kept = data | {name: data[name][:count] for name in PER_EPISODE}
    if data["attention"] is not None:
        whole = base64.b64decode(data["attention"])
        kept["attention"] = base64.b64encode(whole[: len(whole) // record["count"] * count]).decode()
    if data["chain"] is not None:
        kept["chain"] = {name: rows[:count] for name, rows in data["chain"].items()}
    return shortened({**record, "count": count, "data": deflate(kept)}, room)


def fair_room(sizes: Sequence[int], total: int) -> int:
    """The most bytes that each may have so that all fit into the total: small ones leave their rest to the others.

    >>> fair_room([10, 50, 90], 120), fair_room([10, 20], 120)
    (60, 110)
    """
    room, left = total, sorted(sizes)
    for taken, size in enumerate(left):
        room = total // (len(left) - taken)
        if size > room:
            return room
        total -= size
    return room


def _attention(model: nn.Module, episodes: Episodes) -> str:
    patterns = patterns_at_readout(model, episodes)
    return base64.b64encode(np.round(255 * patterns).astype(np.uint8).tobytes()).decode()


def _chain(episodes: Episodes) -> dict[str, list]:
    return {name: _rounded(episodes.latent[name], 3) for name in ("transition", "emission")}


def _rounded(values: torch.Tensor, digits: int) -> list:
    return np.round(values.double().cpu().numpy(), digits).tolist()


def _significant(values: torch.Tensor) -> list:
    """Seven significant digits; infinity, which JSON does not know, as a string."""
    return [[float(f"{v:.7g}") if np.isfinite(v) else "inf" for v in row] for row in values.double().tolist()]


def deflate(data: Any) -> str:
    """JSON, deflated, in base64."""
    return base64.b64encode(zlib.compress(json.dumps(data, allow_nan=False).encode(), 9)).decode()


def inflate(text: str) -> Any:
    """What `deflate` was given."""
    return json.loads(zlib.decompress(base64.b64decode(text)))
