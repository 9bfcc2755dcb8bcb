"""`_pm` as pure functions of bytes: decoding, resolving a token, checking, and encoding.

It imports `parquet` and the packages before it. Begin with `chain.py`.
"""
