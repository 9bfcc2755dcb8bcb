"""Programs of a table's whole life, the model beside the implementation. Begin with `explorer.py`."""
