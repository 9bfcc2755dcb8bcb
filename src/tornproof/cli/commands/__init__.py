"""One module for each command; functions here only talk, the work is done below."""
