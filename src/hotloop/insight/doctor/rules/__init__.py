"""What may be wrong with runs, in the order in which a person would look."""

from hotloop.insight.doctor.rules import capacity, context, model, network, tools, whole

RULES = (*whole.RULES, *model.RULES, *tools.RULES, *context.RULES, *network.RULES, *capacity.RULES)
