"""Learned prefetch: which read-only calls tend to come next, and starting them while the model is still thinking."""
