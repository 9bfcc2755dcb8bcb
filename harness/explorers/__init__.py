"""The explorers of `tornproof check`, one room each, which begins with its `explorer.py`.

They import the rooms before this one, and `barriers` imports `power_cuts`, `own_system` imports `kills`.
"""
