"""`_pm`: decoding, resolving a token, checking, and encoding. Pure functions of bytes."""
