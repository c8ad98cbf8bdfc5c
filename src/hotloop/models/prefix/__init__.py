"""How much of a prompt the service has read before: where two prompts diverge, and why."""
