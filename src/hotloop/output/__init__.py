"""Answers of a type: how they are asked for, read, told while they are written, and what is done with wrong ones."""
