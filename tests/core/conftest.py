"""Properties run over the same examples each time, as many as a fast suite can afford."""

from hypothesis import settings

settings.register_profile(
    "same-each-time", derandomize=True, deadline=None, database=None, max_examples=100
)
settings.load_profile("same-each-time")
