"""What a service sends: from bytes to events, calls, a reply, or a typed error."""
