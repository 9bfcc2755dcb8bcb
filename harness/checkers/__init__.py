"""Judges of histories, which know neither the model nor the implementation."""
