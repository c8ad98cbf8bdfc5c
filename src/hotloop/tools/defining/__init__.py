"""What a tool is, and how one is made: from a function, from a JSON Schema, from a server's list."""
