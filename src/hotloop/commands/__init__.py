"""What the commands do: one module each, and what they share."""
