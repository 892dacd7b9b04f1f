"""Keys of results: equal for what has one answer, different for everything else."""

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from inferq.cachekey import cache_key, input_digest, job_digest, job_key, shard_of, tensor_key
from inferq.jobs import Job
from inferq.tensors.datatypes import Datatype
from inferq.tensors.tensor import Tensor

texts = st.text(st.characters(exclude_categories=["Cs"]))
# Few letters, and those that JSON itself is made of: the nearer two tuples lie, the sooner they would collide.
close = st.text('a",[]{}\\:1', max_size=6)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | close,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(close, inner, max_size=3),
    max_leaves=5,
)
parts = st.fixed_dictionaries(
    {
        "model_digest": close,
        "precision": close,
        "text": close,
        "options": st.dictionaries(close, values, max_size=3),
    }
)


@given(texts, texts, texts)
def test_a_key_is_a_sha256_in_hex(digest: str, precision: str, text: str) -> None:
    """Whatever goes in, 64 hexadecimal digits come out, the same each time."""
    key = cache_key(model_digest=digest, precision=precision, text=text)
    assert re.fullmatch("[0-9a-f]{64}", key)
    assert key == cache_key(model_digest=digest, precision=precision, text=text, options={})


@given(parts, parts)
def test_what_differs_has_different_keys(one: dict[str, Any], other: dict[str, Any]) -> None:
    """No part runs into its neighbour, and no value passes for one of another type."""
    assert (repr(_sorted(one)) == repr(_sorted(other))) == (cache_key(**one) == cache_key(**other))


@given(close, close, close)
def test_a_letter_that_moves_to_the_next_part_changes_the_key(one: str, two: str, three: str) -> None:
    """Concatenated they would be the same."""
    assert cache_key(model_digest=one + "a", precision=two, text=three) != cache_key(
        model_digest=one, precision="a" + two, text=three
    )
    assert cache_key(model_digest=one, precision=two + "a", text=three) != cache_key(
        model_digest=one, precision=two, text="a" + three
    )


def test_options_have_no_order() -> None:
    """Equal options give one key, at any depth; an option that is there with null is not one that is absent."""
    one = cache_key(model_digest="d", precision="p", text="t", options={"a": {"x": 1, "y": 2}, "b": 3})
    assert one == cache_key(
        model_digest="d", precision="p", text="t", options={"b": 3, "a": {"y": 2, "x": 1}}
    )
    plain = cache_key(model_digest="d", precision="p", text="t")
    assert plain != cache_key(model_digest="d", precision="p", text="t", options={"a": None})


def test_a_text_is_taken_as_it_is() -> None:
    """Case, white space and the way in which a letter is composed all count: a tokenizer may tell them apart."""
    spellings = ["é", "e\u0301", "É", "é ", " é", "é\n", "é\x00"]
    assert len({cache_key(model_digest="d", precision="p", text=text) for text in spellings}) == len(
        spellings
    )


def test_a_key_stays_the_same_from_release_to_release() -> None:
    """Batchers and ingresses of two releases share what is kept; a new form takes a new version in its first place."""
    key = cache_key(model_digest="d", precision="fp32", text="I loved it")
    assert key == "dd8a359902d50a0751a1a6eda758c017a4edba3863b0c5451983c43993ea2e86"


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(one) for one in value] if isinstance(value, list) else value


def test_tensors_have_keys_of_their_own() -> None:
    """Name, type, shape, order and bytes each make another key, and so does the model; a job's key is its input's."""
    one = Tensor(name="x", datatype=Datatype.INT8, shape=(2, 1), data=b"ab")
    others = [
        replace(one, name="y"), replace(one, datatype=Datatype.UINT8), replace(one, shape=(1, 2)),
        replace(one, data=b"ac"),
    ]  # fmt: skip  # a list
    given = [[one], *([other] for other in others), [one, others[0]], [others[0], one]]
    keys = [tensor_key(model_digest="d", precision="p", inputs=inputs) for inputs in given]
    keys.append(tensor_key(model_digest="e", precision="p", inputs=[one]))
    assert len(set(keys)) == len(keys)
    job = Job(job_id="a", model="m", created_ms=1, inputs=(one,))
    assert job_key(job, model_digest="d", precision="p") == keys[0]
    text = Job(job_id="a", model="m", created_ms=1, text="t")
    assert job_key(text, model_digest="d", precision="p") == cache_key(
        model_digest="d", precision="p", text="t"
    )


@given(texts, texts, st.integers(1, 1024))
def test_equal_inputs_have_one_digest_and_one_shard(one: str, other: str, shards: int) -> None:
    """The digest is of the input alone; its shard is one of those that there are."""
    assert (one == other) == (input_digest(one) == input_digest(other))
    assert 0 <= shard_of(input_digest(one), shards) < shards


def test_a_shard_is_the_same_in_every_version() -> None:
    """Messages wait in it from one start to the next."""
    assert [shard_of(input_digest(text), 64) for text in ("good", "bad", "")] == [53, 18, 12]


def test_tensors_have_digests_of_their_own() -> None:
    """Whatever makes another key makes another digest, but for the model; a text's is that of the text."""
    one = Tensor(name="x", datatype=Datatype.INT8, shape=(2, 1), data=b"ab")
    others = [
        replace(one, name="y"), replace(one, datatype=Datatype.UINT8), replace(one, shape=(1, 2)),
        replace(one, data=b"ac"),
    ]  # fmt: skip  # a list
    given = [(one,), *((other,) for other in others), (one, others[0]), (others[0], one)]
    digests = [job_digest(Job(job_id="a", model="m", created_ms=1, inputs=inputs)) for inputs in given]
    assert len(set(digests)) == len(digests)
    assert job_digest(Job(job_id="b", model="n", created_ms=2, inputs=(one,))) == digests[0]
    assert job_digest(Job(job_id="a", model="m", created_ms=1, text="t")) == input_digest("t")
    pair = Job(job_id="a", model="m", created_ms=1, text="t", text_pair="u")
    assert job_digest(pair) == input_digest("t", "u") not in {input_digest("t"), input_digest("u", "t")}
    # Messages wait in their shards from one start to the next.
    assert shard_of(digests[0], 64) == 59


def test_a_pair_has_a_key_of_its_own() -> None:
    """Another one than either text, than both run together, and than the pair the other way round."""
    given = [("a", ""), ("b", ""), ("ab", ""), ("a", "b"), ("b", "a"), ("a", "bb")]
    jobs = [Job(job_id="a", model="m", created_ms=1, text=text, text_pair=pair) for text, pair in given]
    assert len({job_key(job, model_digest="d", precision="p") for job in jobs}) == len(given)
