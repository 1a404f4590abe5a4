"""The device: topology, time, components, op log."""
