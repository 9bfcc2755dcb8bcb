"""The systems under test: this implementation, protocols of other releases, broken toys, and their scenarios.

It imports the simulator and `common`. Begin with `table.py`.
"""
