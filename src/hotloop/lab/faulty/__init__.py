"""Agents on simulated services with faults that were planted, to see who finds them."""
