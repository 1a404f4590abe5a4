"""The engines of a PE."""
