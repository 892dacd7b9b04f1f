"""Tail latency by load, from light to beyond saturation, and what a cache is worth."""
