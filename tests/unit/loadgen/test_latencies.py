"""Latencies in a histogram."""

import base64
import math
import random
import zlib

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from inferq.errors import OperatorError
from loadgen.figures import percentile
from loadgen.latencies import LEAST_MS, LONGEST_ENCODED, MOST_MS, ROUNDING_MS, Latencies

IN_RANGE = st.lists(st.floats(LEAST_MS, MOST_MS), min_size=1, max_size=300)
SHARES = [0.0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0]


def recorded(values_ms: list[float]) -> Latencies:
    """Return a histogram of the values."""
    latencies = Latencies()
    for value_ms in values_ms:
        latencies.record_ms(value_ms)
    return latencies


def is_close(read_ms: float, exact_ms: float) -> bool:
    """Say whether what was read is the truth within the error that is promised."""
    slack_ms = ROUNDING_MS * 1.001
    return exact_ms - slack_ms <= read_ms <= exact_ms * 1.001 + slack_ms


@given(IN_RANGE, st.floats(0, 1))
def test_percentiles_are_the_exact_ones(values_ms: list[float], share: float) -> None:
    """Whatever is recorded, each percentile is the nearest rank's, within a thousandth."""
    latencies = recorded(values_ms)
    ordered = sorted(values_ms)
    assert latencies.count == len(values_ms)
    assert latencies.below == latencies.beyond == 0
    for asked in [share, *SHARES]:
        assert is_close(latencies.percentile_ms(asked), percentile(ordered, asked))
    assert is_close(latencies.max_ms, ordered[-1])


@given(IN_RANGE)
def test_the_mean_is_the_exact_one(values_ms: list[float]) -> None:
    """Of the mean, a thousandth is the error too."""
    mean_ms = math.fsum(values_ms) / len(values_ms)
    assert recorded(values_ms).mean_ms == pytest.approx(mean_ms, rel=0.001, abs=ROUNDING_MS)


def test_a_long_tail_is_seen() -> None:
    """Of many latencies like a server's, the far percentiles are right."""
    drawn = random.Random(1)
    values_ms = [drawn.lognormvariate(3, 1) for _ in range(20_000)]
    latencies = recorded(values_ms)
    values_ms.sort()
    for share in SHARES:
        assert is_close(latencies.percentile_ms(share), percentile(values_ms, share))


def test_the_rank_is_not_rounded_down() -> None:
    """Of 160 the 99th percentile is the 159th: 158 are not 99 %."""
    assert recorded([float(number) for number in range(1, 161)]).percentile_ms(0.99) == pytest.approx(
        159, 0.001
    )


def test_without_latencies_there_is_no_figure() -> None:
    """Nothing recorded is nan, not 0 ms, also after it was encoded."""
    empty = Latencies()
    for latencies in (empty, Latencies.decode(empty.encode())):
        assert latencies.count == 0
        assert math.isnan(latencies.percentile_ms(0.5))
        assert math.isnan(latencies.mean_ms)
        assert math.isnan(latencies.max_ms)


@given(IN_RANGE, IN_RANGE)
def test_histograms_add_up(ours_ms: list[float], theirs_ms: list[float]) -> None:
    """Two that are merged are what one would have become; the one that is added stays as it was."""
    ours, theirs, both = recorded(ours_ms), recorded(theirs_ms), recorded(ours_ms + theirs_ms)
    before = theirs.encode()
    ours.merge(theirs)
    assert ours.encode() == both.encode()
    assert ours.count == both.count
    assert theirs.encode() == before


@pytest.mark.parametrize("ours_ms", [[], [5.0]])
@pytest.mark.parametrize("theirs_ms", [[], [7.0]])
def test_an_empty_one_adds_nothing(ours_ms: list[float], theirs_ms: list[float]) -> None:
    """Empty histograms merge like others."""
    latencies = recorded(ours_ms)
    latencies.merge(recorded(theirs_ms))
    assert latencies.count == len(ours_ms + theirs_ms)
    assert latencies.encode() == recorded(ours_ms + theirs_ms).encode()


@given(st.lists(st.floats(allow_nan=False), max_size=100))
def test_what_is_out_of_range_is_counted(values_ms: list[float]) -> None:
    """Too short counts as 0, too long as above the limit; how many is known, also of one decoded and added up."""
    latencies = recorded(values_ms)
    again = Latencies()
    again.merge(Latencies.decode(latencies.encode()))
    for each in (latencies, again):
        assert each.count == len(values_ms)
        assert each.below == sum(value < LEAST_MS for value in values_ms)
        assert each.beyond == sum(value > MOST_MS for value in values_ms)
        if each.below:
            assert each.percentile_ms(0) == 0
        if each.beyond:
            assert each.max_ms > MOST_MS


def test_the_limits_are_in_range() -> None:
    """The shortest and the longest latency are not counted as out of range."""
    latencies = recorded([LEAST_MS, MOST_MS])
    assert (latencies.below, latencies.beyond) == (0, 0)
    assert latencies.percentile_ms(0) == LEAST_MS
    assert is_close(latencies.max_ms, MOST_MS)


def test_a_latency_is_a_number() -> None:
    """Not-a-number is the caller's mistake; nothing is counted."""
    latencies = Latencies()
    with pytest.raises(ValueError, match="must be a number"):
        latencies.record_ms(math.nan)
    assert latencies.count == 0


@given(IN_RANGE)
def test_nothing_is_lost_in_encoding(values_ms: list[float]) -> None:
    """One that was decoded has the same figures, goes on counting, and is encoded to the same text."""
    latencies = recorded(values_ms)
    encoded = latencies.encode()
    again = Latencies.decode(encoded)
    assert again.encode() == encoded
    assert again.count == latencies.count
    assert again.mean_ms == latencies.mean_ms
    assert [again.percentile_ms(share) for share in SHARES] == [
        latencies.percentile_ms(share) for share in SHARES
    ]
    again.record_ms(1.0)
    assert again.count == latencies.count + 1


def test_other_tools_read_the_encoding() -> None:
    """It is plain HdrHistogram, in microseconds."""
    read = HdrHistogram.decode(recorded([1.0, 2.0, 400.0]).encode())
    assert read.get_total_count() == 3
    assert read.get_value_at_percentile(50) == 2_000


def reframed(change: bytes) -> str:
    """Return an encoding whose compressed part begins with ``change`` instead."""
    whole = base64.b64decode(recorded([1.0]).encode())
    packed = zlib.compress(change + zlib.decompress(whole[8:])[len(change) :])
    return base64.b64encode(whole[:4] + len(packed).to_bytes(4) + packed).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "né",
        "AAAA",
        "HISTFAAAAAA=",
        base64.b64encode(bytes(64)).decode(),
        recorded([1.0]).encode()[:-4],
        reframed(b"other"),
    ],
)
def test_what_is_no_histogram_is_refused(text: str) -> None:
    """The error says what was expected, and does not repeat the text."""
    with pytest.raises(OperatorError, match=r"^encoded latencies are not an HdrHistogram$"):
        Latencies.decode(text)


@pytest.mark.parametrize(
    "other",
    [HdrHistogram(1, 3_600_000_000, 2), HdrHistogram(1, 1_000_000, 3), HdrHistogram(1_000, 3_600_000_000, 3)],
)
def test_a_histogram_of_another_shape_is_refused(other: HdrHistogram) -> None:
    """Its error would not be the one that is promised."""
    other.record_value(2_000)
    with pytest.raises(OperatorError, match="must be of 3 digits, from 1 us to 3600000 ms"):
        Latencies.decode(str(other.encode(), "ascii"))


def test_buckets_are_where_the_library_has_them() -> None:
    """One latency of every bucket reads as the library says: the percentile as its upper end, the mean near it."""
    library = HdrHistogram(1, int(MOST_MS) * 1000, 3)
    lowest_us = [library.get_value_from_index(place) for place in range(1, library.counts_len - 1)]
    in_range = [value_us for value_us in lowest_us if value_us <= MOST_MS * 1000]
    latencies = recorded([value_us / 1000 for value_us in in_range])
    for value_us in in_range:
        library.record_value(value_us)
    for number, value_us in enumerate(in_range, 1):
        if number % 97 == 0 or number < 3_000:
            read_ms = latencies.percentile_ms((number - 0.5) / len(in_range))
            assert read_ms == library.get_highest_equivalent_value(value_us) / 1000
    assert latencies.mean_ms == pytest.approx(library.get_mean_value() / 1000, rel=1e-6)


def test_an_encoding_is_bounded() -> None:
    """What is too long for any histogram is not looked at; one with every counter in use is not too long."""
    with pytest.raises(OperatorError, match="300,000 characters at most"):
        Latencies.decode("A" * (LONGEST_ENCODED + 1))
    drawn = random.Random(1)
    full = HdrHistogram(1, int(MOST_MS) * 1000, 3)
    for place in range(full.counts_len):
        full.record_value(full.get_value_from_index(place), drawn.getrandbits(40))
    encoded = str(full.encode(), "ascii")
    assert Latencies.decode(encoded).count == full.get_total_count()


def test_many_at_once_count_as_one_by_one() -> None:
    """Ordinary ones, those at the edges of buckets, and those out of range."""
    drawn = random.Random(1)
    values = [drawn.lognormvariate(1, 3) for _ in range(3_000)]
    values += [-5.0, 0.0, 0.0001, 0.001, 0.0015, 2.047, 2.048, MOST_MS, MOST_MS + 1, math.inf]
    one_by_one, at_once = Latencies(), Latencies()
    for value in values:
        one_by_one.record_ms(value)
    at_once.record_all_ms(np.array(values))
    at_once.record_all_ms(np.array([]))
    assert at_once.encode() == one_by_one.encode()
    assert (at_once.count, at_once.below, at_once.beyond) == (
        one_by_one.count,
        one_by_one.below,
        one_by_one.beyond,
    )
    with pytest.raises(ValueError, match="number"):
        at_once.record_all_ms(np.array([1.0, math.nan]))
