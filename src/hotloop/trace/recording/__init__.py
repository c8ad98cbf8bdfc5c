"""How runs that have ended are recorded: off their path, without what was said in them."""
