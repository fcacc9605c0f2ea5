"""The demonstration: real training runs on a simulated cluster, broken in five ways, and what becomes of them."""
