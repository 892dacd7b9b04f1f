"""Reports: what was measured, on what, with which command, as Markdown, JSON and pictures."""
