"""Plans: calls that the model writes at once although they need each other's results."""
