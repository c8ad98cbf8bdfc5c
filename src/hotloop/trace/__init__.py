"""What happened: the ledger of a run and what can be read from it."""
