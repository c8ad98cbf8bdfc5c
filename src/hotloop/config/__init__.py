"""What was declared: an agent in a YAML or JSON file, and what is wrong with it, line by line."""
