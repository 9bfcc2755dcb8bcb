"""Shared by the other packages: verdicts, recorded histories, replaced functions, efforts, and the system under test.

It imports nothing of the harness. Begin with `verdict.py`.
"""
