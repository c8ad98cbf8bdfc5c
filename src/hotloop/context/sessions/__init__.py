"""Conversations that last: what is kept of them, where, and who may write to one."""
