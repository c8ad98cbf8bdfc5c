"""What is told when runs are not as they should be, and when they are again."""
