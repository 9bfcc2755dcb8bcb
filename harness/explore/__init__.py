"""Explorers, which drive a target through what may happen to it, and the checks that they share."""
