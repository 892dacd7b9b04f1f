"""How many connections a process may hold."""

import resource

import pytest

from inferq.httplimits import MOST_CONNECTIONS, RESERVED_FILES, HttpLimits, connections_within


@pytest.mark.parametrize(
    ("files", "connections"),
    [
        (1024, 1024 - RESERVED_FILES),
        (MOST_CONNECTIONS + RESERVED_FILES + 1, MOST_CONNECTIONS),
        (1_000_000, MOST_CONNECTIONS),
        (resource.RLIM_INFINITY, MOST_CONNECTIONS),
        (RESERVED_FILES, 1),
        (0, 1),
    ],
)
def test_files_bound_connections(files: int, connections: int) -> None:
    """A process keeps a reserve of files, holds ten thousand at most, and one at least."""
    assert connections_within(files) == connections


def test_the_crowd_fits_into_the_reserve() -> None:
    """Connections beyond the limit leave most of the reserve to what the process needs itself."""
    assert HttpLimits().crowd_connections <= RESERVED_FILES // 4
