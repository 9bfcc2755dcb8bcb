"""The explorers of `tornproof check`, one room each.

They import the rooms before this one. Each room begins with the module that has its name, or the plainest one.
"""
