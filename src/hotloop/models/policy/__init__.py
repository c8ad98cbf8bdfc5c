"""How a service is treated: timeouts, retries, hedging, the circuit breaker, rate limits, the queue in front of it."""
