"""Explanations as data: one file a subject, gathered by `index.py`."""
