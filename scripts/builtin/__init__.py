"""The steps that make the built-in sentiment model."""
