"""How long may it take: budgets, the deadlines that follow from them, and what is done when they are exceeded."""

from hotloop.budget.budget import Budget, Degrade
from hotloop.budget.deadline import Deadline

__all__ = ["Budget", "Deadline", "Degrade"]
