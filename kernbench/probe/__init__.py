"""Traffic patterns on a topology, simulated and by closed form (ADR-0049)."""
