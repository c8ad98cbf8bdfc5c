"""What real services do to a stream that they should not, each as a function of the stream."""
