"""Capacity: what a job costs each component, the highest rate that is accepted, and what follows for larger loads."""
