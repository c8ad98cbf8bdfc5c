"""How long may it take: budgets, the deadlines that follow from them, and what is done when they are exceeded."""

from hotloop.budget.deadline import Deadline
from hotloop.budget.declared import Budget, Degrade

__all__ = ["Budget", "Deadline", "Degrade"]
