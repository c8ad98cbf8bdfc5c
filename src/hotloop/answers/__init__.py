"""Which answers are given again: questions that were answered before, as they were or in other words."""
