"""Placing policy hosts on the machines of a Ray cluster."""
