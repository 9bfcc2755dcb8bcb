"""Programs of a table's whole life beside the model, and stories of a user's own system. Begin with `stateful.py`."""
