"""Ours beside other servers: the same model, texts, batch limit and threads, one harness, interleaved rounds."""
