"""`_pm` as pure functions of bytes: decoding, resolving a token, checking, and encoding."""
