"""hotloop: the millisecond agent runtime for Python."""
