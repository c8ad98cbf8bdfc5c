"""What each part of an agent takes and costs, version by version, and whose it is."""
