"""What collective tracing leaves (flight recorder, NCCL RAS, stacks, error files), and which ranks it calls odd."""

from __future__ import annotations
