"""What a GPU does, bare and under the pipeline, from a machine that has only Python, its wheels and this tree."""
