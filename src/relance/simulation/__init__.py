"""A small cluster of real processes on this machine, and the faults that befall it."""
