"""What is wrong with recorded runs, in order: the run as a whole, model, tools, context, network, capacity."""

from hotloop.insight.doctor.diagnosis import diagnose
from hotloop.insight.doctor.finding import Costs, Finding, finding_lines

__all__ = ["Costs", "Finding", "diagnose", "finding_lines"]
