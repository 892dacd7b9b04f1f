"""Servers that ours is measured beside, each a process of its own that answers `POST /v1/infer` with a 202."""
