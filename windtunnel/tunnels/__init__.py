"""Worlds whose posterior is known exactly: sample episodes, compare a predictor with the truth."""

from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.bijection import Bijection
from windtunnel.tunnels.checking import check
from windtunnel.tunnels.episodes import Episodes, Inputs
from windtunnel.tunnels.hmm import HMM
from windtunnel.tunnels.random import STREAMS, Source
from windtunnel.tunnels.recall import Recall
from windtunnel.tunnels.registry import from_dict, get, name_of, names, register, to_dict
from windtunnel.tunnels.urn import Urn

__all__ = [
    "HMM",
    "STREAMS",
    "Bijection",
    "Episodes",
    "Inputs",
    "Recall",
    "Source",
    "Tunnel",
    "Urn",
    "check",
    "from_dict",
    "get",
    "name_of",
    "names",
    "register",
    "to_dict",
]
