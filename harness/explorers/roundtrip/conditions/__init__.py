"""What conditions say of rows and of row groups, worked out a second time.

It imports `impl` and what explorers have in common. Begin with `pruned_row_groups.py`.
"""
