"""What gets done: tools from functions, and the executor that runs them."""
