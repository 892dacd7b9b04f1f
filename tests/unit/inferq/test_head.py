"""What a text model's files say of its answers."""

from typing import Any

import pytest

from inferq.head import Choice, Head, Kind, Module, Pooling, head_of, read_choice, read_modules
from inferq.pairs import takes_pairs

TOKENS = {"last_hidden_state": 3}
LOGITS = {"logits": 2}
POOLED = {"token_embeddings": 3, "sentence_embedding": 2}
PLAIN = [Module("Transformer", ""), Module("Pooling", "1_Pooling")]
MEAN = {"word_embedding_dimension": 384, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}


@pytest.mark.parametrize(
    ("config", "labels", "kind"),
    [
        ({}, 2, Kind.SINGLE),
        ({}, 0, Kind.SINGLE),
        ({"problem_type": None}, 3, Kind.SINGLE),
        ({"problem_type": "single_label_classification"}, 1, Kind.SINGLE),
        ({"problem_type": "multi_label_classification"}, 3, Kind.MULTI),
        ({"problem_type": "regression"}, 1, Kind.VALUES),
        ({"problem_type": "regression"}, 3, Kind.VALUES),
        ({}, 1, Kind.MULTI),
        ({"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"}, 1, Kind.VALUES),
        ({"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}}, 1, Kind.VALUES),
        ({"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid"}}, 1, Kind.MULTI),
        ({"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"}, 3, Kind.SINGLE),
        ({"sentence_transformers": "odd"}, 1, Kind.MULTI),
    ],
)
def test_a_classifier_is_what_its_config_says(config: dict[str, Any], labels: int, kind: Kind) -> None:
    """As transformers has it; one label alone is a sigmoid, or with sentence-transformers' word for it a value."""
    assert head_of(config, labels=labels, outputs=LOGITS) == Head(kind=kind)


@pytest.mark.parametrize(
    ("modules", "pooling", "outputs", "head"),
    [
        (PLAIN, MEAN, TOKENS, Head(kind=Kind.EMBEDDING, pooling=Pooling.MEAN)),
        (PLAIN, MEAN, {}, Head(kind=Kind.EMBEDDING, pooling=Pooling.MEAN)),
        (
            [*PLAIN, Module("Normalize", "2_Normalize")],
            {"pooling_mode_cls_token": True},
            TOKENS,
            Head(kind=Kind.EMBEDDING, pooling=Pooling.CLS, normalize=True),
        ),
        (PLAIN, {"pooling_mode_max_tokens": True}, TOKENS, Head(kind=Kind.EMBEDDING, pooling=Pooling.MAX)),
        (PLAIN, {"pooling_mode": "mean"}, TOKENS, Head(kind=Kind.EMBEDDING, pooling=Pooling.MEAN)),
        (PLAIN, {"pooling_mode": ["cls"]}, TOKENS, Head(kind=Kind.EMBEDDING, pooling=Pooling.CLS)),
        ([], None, POOLED, Head(kind=Kind.EMBEDDING)),
        ([*PLAIN, Module("Dense", "2_Dense")], MEAN, POOLED, Head(kind=Kind.EMBEDDING)),
        ([Module("Transformer", "")], None, LOGITS, Head()),
    ],
)
def test_an_embedding_is_what_its_modules_say(
    modules: list[Module], pooling: dict[str, Any] | None, outputs: dict[str, int | None], head: Head
) -> None:
    """A graph that pools by itself is believed, whatever else the modules do."""
    assert head_of({}, labels=0, outputs=outputs, modules=modules, pooling=pooling) == head


@pytest.mark.parametrize(
    ("modules", "pooling", "says"),
    [
        ([*PLAIN, Module("Dense", "2_Dense")], MEAN, "lists Dense, which is not built: export a graph with"),
        ([*PLAIN, PLAIN[1]], MEAN, "lists several poolings"),
        (PLAIN, {}, "its pooling is nothing, and mean, cls, max are built"),
        (PLAIN, {"pooling_mode_lasttoken": True}, "its pooling is lasttoken"),
        (PLAIN, {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}, "is mean and max"),
        ([], None, "answers with something for each token: say in inferq.json"),
    ],
)
def test_what_would_give_other_numbers_is_refused(
    modules: list[Module], pooling: dict[str, Any] | None, says: str
) -> None:
    """With the cure."""
    with pytest.raises(ValueError, match=says):
        head_of({}, labels=0, outputs=TOKENS, modules=modules, pooling=pooling)


@pytest.mark.parametrize("outputs", [{"out": 3}, {"last_hidden_state": None, "pooler_output": 2}])
def test_a_plain_encoder_says_nothing_of_its_pooling(outputs: dict[str, int | None]) -> None:
    """Known by its outputs' names or axes; where nothing is known of them, the engine finds out."""
    with pytest.raises(ValueError, match=r"inferq\.json"):
        head_of({}, labels=2, outputs=outputs)
    for known in ({}, {"out": 2}, {"out": None}):
        assert head_of({}, labels=2, outputs=known) == Head()


def test_our_own_file_decides() -> None:
    """Over modules and config; of an encoder it must say which pooling."""
    cls = read_choice(b'{"task":"embedding","pooling":"cls","normalize":true}')
    wanted = Head(kind=Kind.EMBEDDING, pooling=Pooling.CLS, normalize=True)
    assert head_of({}, labels=2, outputs=TOKENS, choice=cls, modules=PLAIN, pooling=MEAN) == wanted
    with pytest.raises(ValueError, match='say which "pooling"'):
        head_of({}, labels=2, outputs=TOKENS, choice=Choice(task="embedding"))
    assert head_of({}, labels=2, outputs=POOLED, choice=Choice(task="embedding")) == Head(kind=Kind.EMBEDDING)
    strict = read_choice(b'{"task":"classification","threshold":0.9}')
    multi = {"problem_type": "multi_label_classification"}
    assert head_of(multi, labels=2, outputs=LOGITS, choice=strict, modules=PLAIN) == Head(
        kind=Kind.MULTI, threshold=0.9
    )


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "inferq.json is not understood"),
        (b"\xff", "inferq.json is not understood"),
        (b"[" * 100_000, "inferq.json is not understood"),
        (b"{}", "`task`"),
        (b'{"task":"tensor"}', r"`\$\.task`"),
        (b'{"task":"embedding","pooling":"median"}', r"`\$\.pooling`"),
        (b'{"task":"embedding","pool":"mean"}', "`pool`"),
        (b'{"task":"classification","threshold":1}', r"`\$\.threshold`"),
        (b'{"task":"classification","pooling":"mean"}', "for the task embedding"),
    ],
)
def test_our_own_file_is_read_strictly(data: bytes, says: str) -> None:
    """A word that is not understood might have been meant to change every number."""
    with pytest.raises(ValueError, match=says) as caught:
        read_choice(data)
    assert ": " in str(caught.value)


def test_modules_are_named_by_their_class() -> None:
    """Whatever package it is in; their folders stay within the model's."""
    listed = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.sparse.Pooling"},
    ]
    assert read_modules(listed) == PLAIN
    for odd in (5, [5], [{"type": "a"}], {"path": "a"}):
        with pytest.raises(ValueError, match="no list of modules"):
            read_modules(odd)
    for path in ("/etc", "../other", "a/../../b"):
        with pytest.raises(ValueError, match="outside"):
            read_modules([{"type": "a.Pooling", "path": path}])


def test_an_unknown_problem_is_refused() -> None:
    """With the words that are known."""
    with pytest.raises(ValueError, match="problem_type 'ranking' is not known: it is single_label"):
        head_of({"problem_type": "ranking"}, labels=2, outputs=LOGITS)


@pytest.mark.parametrize(
    ("head", "names", "wanted"),
    [
        (Head(), ["hidden", "logits"], "logits"),
        (Head(), ["scores", "hidden"], "scores"),
        (Head(kind=Kind.EMBEDDING), ["token_embeddings", "sentence_embedding"], "sentence_embedding"),
        (Head(kind=Kind.EMBEDDING), ["vector"], "vector"),
        (Head(kind=Kind.EMBEDDING, pooling=Pooling.MAX), ["pooler_output", "last_hidden_state"], "last_hidden_state"),
        (Head(kind=Kind.EMBEDDING, pooling=Pooling.CLS), ["pooler_output", "token_embeddings"], "token_embeddings"),
        (Head(kind=Kind.EMBEDDING, pooling=Pooling.MAX), ["hidden"], "hidden"),
    ],
)  # fmt: skip  # a table
def test_which_output_is_the_answer(head: Head, names: list[str], wanted: str) -> None:
    """The one of the name that exporters give it, else the first."""
    assert head.output(names) == wanted


def test_heads_in_words() -> None:
    """As `inferq model check` says them."""
    assert [
        head.text
        for head in (
            Head(),
            Head(kind=Kind.MULTI, threshold=0.25),
            Head(kind=Kind.VALUES),
            Head(kind=Kind.EMBEDDING),
            Head(kind=Kind.EMBEDDING, pooling=Pooling.MEAN, normalize=True),
        )
    ] == [
        "one of its labels",
        "the labels with a score of 0.25 or more",
        "a value for each label",
        "embedding, pooled by the graph",
        "embedding, mean pooling, normalised",
    ]


CLS, A, B = {"SpecialToken": {"id": "[CLS]"}}, {"Sequence": {"id": "A"}}, {"Sequence": {"id": "B"}}
TEMPLATE = {"type": "TemplateProcessing", "single": [CLS, A, CLS], "pair": [CLS, A, CLS, B, CLS]}


@pytest.mark.parametrize(
    ("post_processor", "pairs"),
    [
        (None, False),
        ({"type": "ByteLevel"}, False),
        ({"type": "BertProcessing"}, True),
        ({"type": "RobertaProcessing"}, True),
        (TEMPLATE, True),
        (TEMPLATE | {"pair": [A, B]}, False),
        (TEMPLATE | {"pair": None}, False),
        ({"type": "Sequence", "processors": [{"type": "ByteLevel"}, TEMPLATE]}, True),
        ({"type": "Sequence", "processors": [{"type": "ByteLevel"}]}, False),
    ],
)
def test_a_tokenizer_for_pairs_sets_something_between_them(post_processor: Any, pairs: bool) -> None:
    """Others would only put one text behind the other."""
    assert takes_pairs(post_processor) is pairs
