"""A simulated service without a wire: what a request is answered, what is said of it, and what goes wrong."""
