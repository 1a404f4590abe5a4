"""Summaries of runs."""
