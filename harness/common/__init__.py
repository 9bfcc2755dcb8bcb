"""What all rooms share: verdicts, recorded histories, replaced functions, efforts, and what a system under test is.

It imports nothing of the harness. Begin with `verdict.py`.
"""
