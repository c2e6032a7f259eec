"""Sparse codes with given dictionaries."""
