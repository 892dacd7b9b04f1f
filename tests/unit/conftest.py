"""Properties are checked on the same examples in every run, and a slow machine fails none of them."""

from hypothesis import settings

settings.register_profile("unit", derandomize=True, deadline=None, max_examples=100, database=None)
settings.load_profile("unit")
