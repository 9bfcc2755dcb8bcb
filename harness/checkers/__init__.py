"""The checker of recorded histories, which knows neither the model nor the implementation.

It imports `common` alone. Begin with `snapshot_isolation.py`; `slices.py` is for histories that fit into no memory.
"""
