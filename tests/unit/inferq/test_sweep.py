"""When each connection is looked at."""

from typing import Any

import pytest

from inferq.httpdeadlines import Sweep


class Connection:
    """Notes when it is looked at."""

    def __init__(self) -> None:
        self.looks: list[float] = []

    def look(self, now_s: float) -> None:
        """Take a look."""
        self.looks.append(now_s)


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 95])
def test_each_connection_once_in_a_round(count: int) -> None:
    """In ten ticks each is looked at once, and no tick has more than its share."""
    connections: set[Any] = {Connection() for _ in range(count)}
    sweep = Sweep(connections, ticks=10)
    for tick in range(20):
        sweep.tick(float(tick))
    looks = [tick for connection in connections for tick in connection.looks]
    assert all(len(connection.looks) == 2 for connection in connections)
    assert max((looks.count(tick) for tick in looks), default=0) <= -(-count // 10)


def test_a_connection_that_has_gone_is_let_be() -> None:
    """What ended within a round is not looked at any more; what came within it is, in the next one."""
    first, second, came = Connection(), Connection(), Connection()
    connections: set[Any] = {first, second}
    sweep = Sweep(connections, ticks=2)
    sweep.tick(0.0)
    seen, gone = (first, second) if first.looks else (second, first)
    connections.discard(gone)
    connections.add(came)
    sweep.tick(1.0)
    assert (seen.looks, gone.looks, came.looks) == ([0.0], [], [])
    sweep.tick(2.0)
    sweep.tick(3.0)
    assert (len(seen.looks), gone.looks, len(came.looks)) == (2, [], 1)
