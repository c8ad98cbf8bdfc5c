"""What a service can do and how fast it is, found out by asking it."""
