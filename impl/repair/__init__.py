"""Offline recovery: the files are reduced to the committed version, and removed bytes are kept until forgotten.

It imports `verify` and the packages before it. Begin with `repair.py`.
"""
