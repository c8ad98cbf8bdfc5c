"""The formats of a text that a schema may name: those that whoever holds a model to a schema knows."""

FORMATS = frozenset(["date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"])
