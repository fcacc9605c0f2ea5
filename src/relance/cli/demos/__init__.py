"""The demonstration: real training runs on a simulated cluster, broken in six ways, and what becomes of them."""
