"""Every disk that a power cut may leave, checked by readers and recoveries. Begin with `explorer.py`."""
