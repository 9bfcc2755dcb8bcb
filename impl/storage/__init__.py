"""How files are reached: the calls that an implementation makes, the operating system behind them, and checksums.

It imports `errors` and `layout`. Begin with `interface.py`, which the simulator implements too.
"""
