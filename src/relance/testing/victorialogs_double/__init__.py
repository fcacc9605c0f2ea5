"""A double of VictoriaLogs: a server in a process of its own that answers as the real one was recorded to.

`python -m relance.testing.victorialogs_double` starts it on loopback and prints its port.
"""
