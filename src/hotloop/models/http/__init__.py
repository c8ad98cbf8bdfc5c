"""HTTP/1.1 to a service: where it listens, connections that are kept, proxies."""
