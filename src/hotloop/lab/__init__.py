"""What could happen: simulated services and measurements."""
