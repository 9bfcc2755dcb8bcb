"""Every disk that a power cut may leave, judged by readers and recoveries. Begin with `explorer.py`."""
