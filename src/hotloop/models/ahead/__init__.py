"""Having a service read the beginning of a prompt before it is asked."""
