"""The explorers of `tornproof check`, one package each; begin with its `explorer.py`.

They import the packages before this one in `harness`; `barriers` also imports `power_cuts`, and `own_system` `kills`.
"""
