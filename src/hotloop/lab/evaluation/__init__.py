"""Is it right, how long does it take, what does it cost: questions with known answers, put to an agent's models."""

from hotloop.lab.evaluation.candidates import ROUTER, Candidate, candidates
from hotloop.lab.evaluation.cases import Case, ExpectedCall, load_cases
from hotloop.lab.evaluation.evaluation import Outcome, Score, evaluate, score

__all__ = [
    "ROUTER",
    "Candidate",
    "Case",
    "ExpectedCall",
    "Outcome",
    "Score",
    "candidates",
    "evaluate",
    "load_cases",
    "score",
]
