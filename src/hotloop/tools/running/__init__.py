"""How the calls of a reply run: in which order, within which bounds, and what the model reads of them."""
