"""What is tested: our implementation, protocols of other releases, broken toys, and the scenarios that they run in.

It imports the simulator and `common`. Begin with `table.py`.
"""
