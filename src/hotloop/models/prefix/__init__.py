"""How much of a prompt the service has read before: where prompts diverge, and how to have it read ahead."""
