"""What is told when runs are not as they should be, and when they are again."""

from hotloop.trace.alerts.alert import Alert, LogSink, Sink
from hotloop.trace.alerts.alerts import Alerts
from hotloop.trace.alerts.rule import Rule
from hotloop.trace.alerts.webhook import Webhook

__all__ = ["Alert", "Alerts", "LogSink", "Rule", "Sink", "Webhook"]
