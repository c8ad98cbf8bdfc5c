"""Results that are too long: cut where their structure allows, and read on from there."""
