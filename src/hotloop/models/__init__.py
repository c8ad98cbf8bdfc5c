"""Who thinks: the wire to a model service, the transports, and the embedded engine."""
