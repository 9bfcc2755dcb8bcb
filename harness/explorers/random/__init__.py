"""Operations, schedules and crashes that are drawn together. Begin with `drawn.py`."""
