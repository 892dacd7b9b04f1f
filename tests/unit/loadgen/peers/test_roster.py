"""The table of peers."""

import importlib.util

from loadgen.peers.roster import PEERS


def test_each_peer_says_how_it_is_set_up_and_what_it_does_not_promise() -> None:
    """No peer is measured without both, nor without the versions of what is measured."""
    assert set(PEERS) == {"litserve", "mosec", "bentoml", "ray", "celery-rabbitmq", "celery-redis"}
    for name, peer in PEERS.items():
        assert peer.name == name
        assert peer.settings, name
        assert peer.lacks, name
        assert peer.distributions, name
        assert "front" in peer.programs, name


def test_each_program_is_a_module_that_is_there() -> None:
    """A peer's own modules are found by name; a mistyped one would show only where peers are installed."""
    for peer in PEERS.values():
        for arguments in peer.programs.values():
            modules = [one.partition(":")[0] for one in arguments if one.startswith("loadgen.peers.servers.")]
            assert modules, peer.name
            assert all(importlib.util.find_spec(one) for one in modules), peer.name


def test_celery_has_its_broker_and_a_place_for_results() -> None:
    """Both keep results in Valkey; one has messages in RabbitMQ, the other there as well."""
    assert PEERS["celery-rabbitmq"].servers == {"valkey", "rabbitmq"}
    assert PEERS["celery-redis"].servers == {"valkey"}
