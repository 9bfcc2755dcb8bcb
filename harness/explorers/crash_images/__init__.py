"""What a process kill or a power cut leaves, judged. Begin with `crash.py` for kills and `power.py` for power cuts."""
