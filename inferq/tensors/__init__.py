"""Tensors as the Open Inference Protocol writes them: types, values, forms on the wire, and what a graph takes."""
