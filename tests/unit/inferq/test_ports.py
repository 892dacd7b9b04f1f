"""Finding and checking TCP ports."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from subprocess import PIPE

import pytest

from inferq import ports
from inferq.errors import OperatorError
from inferq.ports import (
    LOOPBACK,
    _candidates,
    claim_shared_port,
    ephemeral_range,
    free_port,
    free_ports,
    next_free_port,
    port_taken,
    require_port,
)


@pytest.fixture
def listening_port() -> Iterator[int]:
    """A port of loopback with a listener on it."""
    with socket.create_server((LOOPBACK, free_port())) as server:
        yield server.getsockname()[1]


def test_a_port_with_a_listener_is_taken(listening_port: int) -> None:
    """A listener on the same address takes the port."""
    assert port_taken(listening_port)


def test_a_listener_on_all_addresses_takes_the_port_of_each() -> None:
    """A server on 0.0.0.0 keeps ours from loopback, so the port counts as taken there."""
    with socket.create_server(("0.0.0.0", free_port())) as server:
        assert port_taken(server.getsockname()[1])


def test_a_free_port_is_not_taken_and_can_be_listened_on() -> None:
    """What is said to be free is free, also after it was asked about."""
    port = free_port()
    assert not port_taken(port)
    with socket.create_server((LOOPBACK, port)):
        assert port_taken(port)


def test_connections_of_a_dead_server_do_not_take_its_port() -> None:
    """A port whose last connections linger in TIME_WAIT can be listened on again."""
    port = free_port()
    with (
        socket.create_server((LOOPBACK, port)) as server,
        socket.create_connection((LOOPBACK, port)) as client,
    ):
        accepted, _ = server.accept()
        accepted.close()
        assert client.recv(1) == b""
    assert not port_taken(port)


def test_free_ports_differ_and_lie_outside_the_ephemeral_range() -> None:
    """No outgoing connection can be given the port of a server that is down for a moment."""
    first, last = ephemeral_range()
    ports = free_ports(20)
    assert len(set(ports)) == 20
    if len(_candidates((first, last))) < 65_536 - 15_000:
        assert not [port for port in ports if first <= port <= last]


def test_a_port_that_another_process_has_just_found_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that look at the same moment are not given the same, although nothing listens yet; later a server may."""
    look = "from inferq.ports import free_port; print(free_port(), flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", look], stdin=PIPE, stdout=PIPE, text=True) as other:
        assert other.stdout is not None
        found = int(other.stdout.readline())
        spare = free_port()
        monkeypatch.setattr(ports, "_candidates", lambda ephemeral: [found])
        with pytest.raises(OperatorError, match="no 1 free ports"):
            free_port()
        with socket.create_server((LOOPBACK, found)):
            assert port_taken(found)
        other.communicate("")
    assert free_port() == found
    assert spare != found


def test_what_is_held_is_bounded() -> None:
    """Of very many ports that were found the oldest can be found again."""
    first = free_port()
    assert not ports._hold(first)
    for _ in range(ports._MAX_HELD):
        free_port()
    assert len(ports._held) == ports._MAX_HELD
    assert ports._hold(first)


def test_without_a_way_to_hold_it_a_port_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another address than loopback's cannot be had here, as in a sandbox."""
    monkeypatch.setattr(ports, "LOOPBACK", "192.0.2.1")
    assert not port_taken(free_port(host="127.0.0.1"))


@pytest.mark.parametrize(
    ("ephemeral", "lowest", "highest"),
    [
        pytest.param((32_768, 60_999), 15_000, 32_767, id="linux-default-takes-those-below"),
        pytest.param((1_024, 40_000), 40_001, 65_535, id="low-range-takes-those-above"),
        pytest.param((1_024, 65_535), 15_000, 65_535, id="no-room-shares-the-range"),
    ],
)
def test_candidates_avoid_the_ephemeral_range(ephemeral: tuple[int, int], lowest: int, highest: int) -> None:
    """Candidates lie below the range, else above it, and inside it only where nothing else is left."""
    candidates = _candidates(ephemeral)
    assert (candidates[0], candidates[-1]) == (lowest, highest)


def test_next_free_port_steps_over_taken_and_skipped_ones(listening_port: int) -> None:
    """The search goes upwards and leaves out what is taken or promised to another."""
    found = next_free_port(listening_port)
    assert found > listening_port
    assert next_free_port(listening_port, skip={found}) > found


def test_next_free_port_gives_up_after_its_tries(listening_port: int) -> None:
    """A bounded search ends in one line with the range it tried."""
    with pytest.raises(
        OperatorError, match=f"^ports {listening_port} to {listening_port} on .* are all taken"
    ):
        next_free_port(listening_port, tries=1)


def test_a_taken_port_is_one_clear_line(listening_port: int) -> None:
    """The operator reads which port is taken, where, and the cure."""
    with pytest.raises(OperatorError) as refusal:
        require_port(listening_port, cure="choose another with --ingress-port")
    assert str(refusal.value) == (
        f"port {listening_port} on 127.0.0.1 is taken by another process; choose another with --ingress-port"
    )


def test_an_address_of_another_machine_is_one_clear_line() -> None:
    """A host that is not ours is named, not a traceback."""
    with pytest.raises(OperatorError, match=r"^cannot listen on 192\.0\.2\.1 port 8080: .*; check it$"):
        require_port(8080, "192.0.2.1", cure="check it")


def test_a_free_port_passes() -> None:
    """Nothing is said about a port that can be had."""
    require_port(free_port(), cure="unused")


def _sharing(port: int) -> socket.socket:
    """Listen as one of several that share a port."""
    return socket.create_server((LOOPBACK, port), reuse_port=True)


def test_a_claimed_port_is_for_those_that_share_it() -> None:
    """Those that share can come and go; to all others the port is taken, also while none of them is there."""
    port = free_port()
    with claim_shared_port(port, cure="unused"):
        assert port_taken(port)
        with _sharing(port), _sharing(port):
            assert port_taken(port)
        assert port_taken(port)
        with pytest.raises(OSError, match="in use"):
            socket.create_server((LOOPBACK, port))
    assert not port_taken(port)


def test_a_claim_takes_no_connections() -> None:
    """Every connection goes to those that listen, and none waits where nobody accepts it."""
    port = free_port()
    with claim_shared_port(port, cure="unused"):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((LOOPBACK, port))
        with _sharing(port) as server:
            for _ in range(20):
                with socket.create_connection((LOOPBACK, port)):
                    server.settimeout(5)
                    server.accept()[0].close()


def test_a_port_that_others_share_is_not_claimed() -> None:
    """Another deployment of the same user would let us in, and is told apart all the same, with the cure."""
    port = free_port()
    with _sharing(port), pytest.raises(OperatorError, match=f"^port {port} .* is taken .*; choose another$"):
        claim_shared_port(port, cure="choose another")
    with (
        claim_shared_port(port, cure="unused"),
        pytest.raises(OperatorError, match=f"^port {port} .* is taken .*; choose another$"),
    ):
        claim_shared_port(port, cure="choose another")


def test_connections_of_a_dead_server_do_not_keep_a_port_from_being_claimed() -> None:
    """A deployment with one ingress can be started again with several at once."""
    port = free_port()
    with (
        socket.create_server((LOOPBACK, port)) as server,
        socket.create_connection((LOOPBACK, port)) as client,
    ):
        accepted, _ = server.accept()
        accepted.close()
        assert client.recv(1) == b""
    with claim_shared_port(port, cure="unused"), _sharing(port):
        pass
