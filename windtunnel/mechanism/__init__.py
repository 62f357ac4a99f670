"""What happens when the representation is changed: ablation, patching, swaps in bits, and behaviour in edited worlds.

bench = Bench(model, tunnel, episodes)
bits_lost(bench, [Place("blocks.0.attention.head_out", head=3)], "resample")     (n, K) bits of KL
heads(model, tunnel, episodes, untrained=[fresh])                                [Measurement, …]
inspect(run, only=["keys", "ablate"])                                            Survey: geometry too, every seed
inspect(model, tunnel)                                                           the same of one network
"""

from windtunnel.mechanism.ablate import Target, ablate, targets
from windtunnel.mechanism.ablation import ablation, bits_lost
from windtunnel.mechanism.anatomy import Anatomy
from windtunnel.mechanism.donors import Donors, donors
from windtunnel.mechanism.dose import dose
from windtunnel.mechanism.exchange import exchangeability
from windtunnel.mechanism.flip import evidence_flip
from windtunnel.mechanism.heads import heads
from windtunnel.mechanism.inspect import inspect
from windtunnel.mechanism.instruments import INSTRUMENTS
from windtunnel.mechanism.late import late
from windtunnel.mechanism.patch import Pair, patch, patch_changes
from windtunnel.mechanism.place import Place
from windtunnel.mechanism.ranges import position_ranges
from windtunnel.mechanism.roles import roles
from windtunnel.mechanism.score import Bench
from windtunnel.mechanism.shift import shifted_prior
from windtunnel.mechanism.survey import Entry, Survey
from windtunnel.mechanism.survey_file import load_survey, save_survey
from windtunnel.mechanism.swap import swap, swap_changes

__all__ = [
    "INSTRUMENTS",
    "inspect",
    "Survey",
    "Entry",
    "save_survey",
    "load_survey",
    "ablate",
    "heads",
    "position_ranges",
    "late",
    "patch",
    "dose",
    "swap",
    "roles",
    "evidence_flip",
    "exchangeability",
    "shifted_prior",
    "Bench",
    "Place",
    "Anatomy",
    "Target",
    "targets",
    "ablation",
    "bits_lost",
    "Donors",
    "donors",
    "Pair",
    "patch_changes",
    "swap_changes",
]
