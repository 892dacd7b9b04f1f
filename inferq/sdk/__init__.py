"""The client of the API: `inferq.Client`, `inferq.AsyncClient`, and what they hand out and raise."""
