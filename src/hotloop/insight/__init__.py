"""What recorded runs mean: where their time went, what would make it less, what is wrong with them, what they cost."""
