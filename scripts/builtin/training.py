"""Fine-tunes the first three layers of MiniLM-L6-H384 as a DistilBERT classifier.

DistilBERT has no token-type embeddings; row 0 of MiniLM's, the only one that a single text uses, is added to every
position instead, so that the mapped layers compute exactly what they did in MiniLM.
"""

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from safetensors.torch import load
from tokenizers import Tokenizer
from transformers import DistilBertConfig, DistilBertForSequenceClassification

from scripts.builtin.corpus import Snippet

LAYERS = 3
WIDTH = 384

_PARTS = {
    "attention.self.query": "attention.q_lin",
    "attention.self.key": "attention.k_lin",
    "attention.self.value": "attention.v_lin",
    "attention.output.dense": "attention.out_lin",
    "attention.output.LayerNorm": "sa_layer_norm",
    "intermediate.dense": "ffn.lin1",
    "output.dense": "ffn.lin2",
    "output.LayerNorm": "output_layer_norm",
}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What decides the outcome, apart from the data."""

    seed: int
    epochs: int
    batch_size: int = 32
    max_tokens: int = 64
    learning_rate: float = 1e-4
    warm_up: float = 0.06
    threads: int = 2


def initial_model(weights: bytes, original_ids: Sequence[int]) -> DistilBertForSequenceClassification:
    """Map MiniLM's weights, with the embeddings of `original_ids` alone, onto a three-layer DistilBERT."""
    old = load(weights)
    config = DistilBertConfig(
        vocab_size=len(original_ids),
        max_position_embeddings=512,
        dim=WIDTH,
        hidden_dim=4 * WIDTH,
        n_layers=LAYERS,
        n_heads=12,
        activation="gelu",
        pad_token_id=0,
        num_labels=2,
        id2label={0: "NEGATIVE", 1: "POSITIVE"},
        label2id={"NEGATIVE": 0, "POSITIVE": 1},
        attn_implementation="eager",
    )
    model = DistilBertForSequenceClassification(config)
    new = {
        "embeddings.word_embeddings.weight": old["embeddings.word_embeddings.weight"][list(original_ids)],
        "embeddings.position_embeddings.weight": old["embeddings.position_embeddings.weight"]
        + old["embeddings.token_type_embeddings.weight"][0],
        "embeddings.LayerNorm.weight": old["embeddings.LayerNorm.weight"],
        "embeddings.LayerNorm.bias": old["embeddings.LayerNorm.bias"],
    }
    for layer in range(LAYERS):
        for theirs, ours in _PARTS.items():
            for kind in ("weight", "bias"):
                new[f"transformer.layer.{layer}.{ours}.{kind}"] = old[
                    f"encoder.layer.{layer}.{theirs}.{kind}"
                ]
    model.distilbert.load_state_dict(new)
    return model


def fine_tune(
    weights: bytes,
    original_ids: Sequence[int],
    tokenizer: Tokenizer,
    snippets: Sequence[Snippet],
    recipe: Recipe,
) -> DistilBertForSequenceClassification:
    """Train deterministically (on one kind of CPU and one version of torch) and return the model in eval mode."""
    torch.manual_seed(recipe.seed)
    torch.set_num_threads(recipe.threads)
    torch.use_deterministic_algorithms(True)
    model = initial_model(weights, original_ids).train()
    tokenizer.enable_truncation(recipe.max_tokens)
    ids = [encoding.ids for encoding in tokenizer.encode_batch([snippet.text for snippet in snippets])]
    labels = [snippet.label for snippet in snippets]
    steps = recipe.epochs * -(-len(ids) // recipe.batch_size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate, weight_decay=0.01)
    warm_up_steps = max(1, int(steps * recipe.warm_up))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min((step + 1) / warm_up_steps, (steps - step) / max(1, steps - warm_up_steps)),
    )
    order = random.Random(recipe.seed)
    started, step = time.monotonic(), 0
    for epoch in range(recipe.epochs):
        total = 0.0
        for batch in _batches(ids, recipe.batch_size, order):
            input_ids, mask = _padded([ids[index] for index in batch])
            target = torch.tensor([labels[index] for index in batch])
            loss = model(input_ids=input_ids, attention_mask=mask, labels=target).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            total += loss.item() * len(batch)
            step += 1
            if step % 50 == 0:
                print(f"step {step}/{steps}, {time.monotonic() - started:.0f} s", flush=True)
        print(f"epoch {epoch + 1}: mean loss {total / len(ids):.4f}", flush=True)
    return model.eval()


def _batches(ids: Sequence[Sequence[int]], size: int, order: random.Random) -> Iterator[list[int]]:
    """Shuffle, then sort within windows of 16 batches, so that little of a batch is padding."""
    shuffled = order.sample(range(len(ids)), len(ids))
    batches: list[list[int]] = []
    for start in range(0, len(shuffled), 16 * size):
        window = sorted(shuffled[start : start + 16 * size], key=lambda index: len(ids[index]))
        batches += [window[offset : offset + size] for offset in range(0, len(window), size)]
    order.shuffle(batches)
    yield from batches


def _padded(rows: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(len(row) for row in rows)
    input_ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    return input_ids, mask
