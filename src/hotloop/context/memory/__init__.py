"""Facts outside the conversation: kept per user, found for a request."""
