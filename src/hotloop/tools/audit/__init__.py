"""The audit log: written record by record, each chained to the one before, and verified."""
