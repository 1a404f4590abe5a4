"""Kernel source in, device program out."""
