"""What the model sees: the conversation, and which tools it is offered."""
