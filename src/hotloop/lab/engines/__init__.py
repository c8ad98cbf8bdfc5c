"""When a simulated service writes which token: models without a clock, and the driver that runs them on one."""
