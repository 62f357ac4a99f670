"""Claims about all of this: the published statements, each with a test; the primitives, measured; the shipped networks.

study = reproduce("quick", out="results/quick")
study.evidence(); study.ledger()
card = scorecard("transformer")
share = primitives(run)
model = zoo.load("hmm-transformer")
"""

from windtunnel.study import zoo
from windtunnel.study.claim import Claim, judge
from windtunnel.study.claims import CLAIMS
from windtunnel.study.evidence import Evidence
from windtunnel.study.folder.results import StudyFolder
from windtunnel.study.primitive_shares import primitives, shares
from windtunnel.study.reproduce import reproduce
from windtunnel.study.running.sitting import Scope
from windtunnel.study.scorecard import scorecard
from windtunnel.study.scorecard_result import Attempt, Scorecard
from windtunnel.study.share import Share
from windtunnel.study.trials import Trial, trial
from windtunnel.study.verdict import Verdict

__all__ = [
    "CLAIMS",
    "Attempt",
    "Claim",
    "Evidence",
    "Scope",
    "Scorecard",
    "Share",
    "StudyFolder",
    "Trial",
    "Verdict",
    "judge",
    "primitives",
    "reproduce",
    "scorecard",
    "shares",
    "trial",
    "zoo",
]
