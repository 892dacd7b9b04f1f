"""The batcher's own results: the first stands, the least recently used goes, and every lookup is counted."""

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from batcher.cache import ResultCache
from inferq.jobs import Result


def _result(number: int = 0) -> Result:
    return Result(label=f"L{number}", score=0.5, scores={f"L{number}": 0.5}, truncated=False)


def test_what_was_put_is_found() -> None:
    """A result comes back as it was; a key that nobody put has none."""
    cache = ResultCache(2)
    assert cache.get("a") is None
    cache.put("a", _result(1))
    assert cache.get("a") == _result(1)
    assert cache.get("b") is None
    assert (cache.hits, cache.misses, cache.evictions, len(cache)) == (1, 2, 0, 1)


def test_the_first_result_stands() -> None:
    """A second answer to the same question changes nothing, so that clients never read two."""
    cache = ResultCache(2)
    cache.put("a", _result(1))
    cache.put("a", _result(2))
    assert cache.get("a") == _result(1)
    assert len(cache) == 1


def test_the_least_recently_used_goes() -> None:
    """Finding a result makes it recent, and so does putting it again."""
    cache = ResultCache(2)
    cache.put("a", _result(1))
    cache.put("b", _result(2))
    cache.get("a")
    cache.put("c", _result(3))
    assert cache.get("b") is None
    cache.put("a", _result(9))
    cache.put("d", _result(4))
    assert cache.get("c") is None
    assert cache.get("a") == _result(1)
    assert (cache.evictions, len(cache)) == (2, 2)


def test_a_size_of_none_is_off() -> None:
    """It keeps, finds and counts nothing."""
    cache = ResultCache(0)
    cache.put("a", _result())
    assert cache.get("a") is None
    assert (cache.hits, cache.misses, cache.evictions, len(cache)) == (0, 0, 0, 0)


@given(st.integers(1, 4), st.lists(st.tuples(st.booleans(), st.sampled_from("abcdef"))))
def test_it_is_a_plain_list_by_recency(size: int, calls: list[tuple[bool, str]]) -> None:
    """Whatever is put and asked for in whatever order, a simple model answers and counts the same."""
    cache = ResultCache(size)
    model: OrderedDict[str, Result] = OrderedDict()
    hits = misses = evictions = 0
    for number, (put, key) in enumerate(calls):
        known = model.pop(key, None)
        if put:
            cache.put(key, _result(number))
            model[key] = known or _result(number)
            if len(model) > size:
                model.popitem(last=False)
                evictions += 1
        else:
            assert cache.get(key) == known
            hits, misses = hits + (known is not None), misses + (known is None)
            if known is not None:
                model[key] = known
        assert len(cache) == len(model) <= size
    assert (cache.hits, cache.misses, cache.evictions) == (hits, misses, evictions)
