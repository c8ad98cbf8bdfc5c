"""Which model answers: rules, a classifier learned from what was right before, and a cascade from fast to strong."""
