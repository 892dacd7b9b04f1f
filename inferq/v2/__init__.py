"""Synchronous calls: the Open Inference Protocol V2, `POST /infer` and embeddings, for ingress and batcher alike."""
