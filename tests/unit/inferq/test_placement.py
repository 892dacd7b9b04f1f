"""Where the services of a local pipeline are put."""

import socket
from pathlib import Path

import pytest

from inferq import placement
from inferq.placement import Place, places
from inferq.ports import LOOPBACK, free_port, next_free_port
from inferq.settings import load, to_environ

COUNTS = Path("/state/counts")


def _placed(*, ports_auto: bool = False, **flags: str) -> list[list[Place]]:
    return places(load({}, flags)[0], ports_auto=ports_auto, counts=COUNTS)


def test_one_of_each_is_asked_where_the_settings_say() -> None:
    """The groups are those of the start; a single ingress has no second port and keeps its metrics to itself."""
    placed = _placed(host="::1", ingress_port="9001", notifier_port="9002", batcher_port="9003")
    assert [[(place.name, place.module, place.host, place.port) for place in group] for group in placed] == [
        [("notifier", "notifier", "::1", 9002)],
        [("batcher-1", "batcher", "::1", 9003)],
        [("ingress", "ingress", "::1", 9001)],
    ]
    assert {place.settings.probe_port for group in placed for place in group} == {0}
    assert [dict(place.environ) for group in placed for place in group] == [{}, {}, {}]


@pytest.mark.parametrize("ports_auto", [False, True])
def test_of_many_none_meets_another(ports_auto: bool) -> None:
    """Every process has an address of its own beside the ports of the settings, and is told which."""
    notifier, batchers, ingresses = _placed(ports_auto=ports_auto, batchers="3", ingresses="64")
    assert [place.name for place in batchers] == ["batcher-1", "batcher-2", "batcher-3"]
    assert [place.name for place in ingresses] == [f"ingress-{number}" for number in range(1, 65)]
    asked = [place.port for place in (*notifier, *batchers, *ingresses)]
    assert len({*asked, 8080}) == 1 + 3 + 64 + 1
    assert [place.settings.batcher_port for place in batchers] == [place.port for place in batchers]
    assert [place.settings.probe_port for place in ingresses] == [place.port for place in ingresses]


def test_several_ingresses_share_the_port_and_the_folder() -> None:
    """They are probed on loopback wherever they listen, and they alone are told of the folder."""
    notifier, batchers, ingresses = _placed(host="0.0.0.0", allow_open="1", ingresses="2", batchers="2")
    assert {place.host for place in ingresses} == {LOOPBACK}
    assert {(place.settings.host, place.settings.ingress_port) for place in ingresses} == {("0.0.0.0", 8080)}
    assert [dict(place.environ) for place in ingresses] == [{"PROMETHEUS_MULTIPROC_DIR": str(COUNTS)}] * 2
    assert not any(place.environ for place in (*notifier, *batchers))


def test_a_given_probe_port_is_the_first_ingresss() -> None:
    """Further ones take the next free ports, as batchers do, past what is taken."""
    first = free_port()
    taken = next_free_port(first + 1)
    with socket.create_server((LOOPBACK, taken)):
        *_, ingresses = _placed(ingresses="3", probe_port=str(first), ingress_port=str(taken + 1))
    ports = [place.port for place in ingresses]
    assert ports[0] == first
    assert ports == sorted(ports)
    assert not {taken, taken + 1} & set(ports)


def test_a_batcher_is_told_the_keys() -> None:
    """It takes calls under them, as the others do; it is not told that it may listen anywhere without."""
    keys = "alice:alice-0123456789"
    notifier, batchers, ingresses = _placed(api_keys=keys, host="0.0.0.0", batchers="2", ingresses="2")
    for place in (*notifier, *batchers, *ingresses):
        told = to_environ(place.settings)
        assert told["INFERQ_API_KEYS"] == keys
        assert load(told)[0] == place.settings
        assert not place.settings.allow_open


def test_a_batcher_is_told_no_secret() -> None:
    """It signs nothing; the others are told it."""
    secret, keys = "whsec_" + "A" * 32, "a:0123456789abcdef"
    notifier, batchers, ingresses = _placed(webhook_secret=secret, api_keys=keys)
    for place in (*notifier, *ingresses):
        assert (place.settings.webhook_secret, place.settings.api_keys) == (secret, keys)
    for place in batchers:
        assert (place.settings.webhook_secret, place.settings.api_keys) == ("", keys)


def test_every_model_has_its_batchers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as the settings say, each told which model it serves, and its part of the cores of all of them."""
    monkeypatch.setattr(placement, "available_cpus", lambda: 25)
    settings = load({}, {"model": "simulated:1,1", "batchers": "2", "models": "/models"})[0]
    _, batchers, _ = places(settings, models=["simulated", "mlp", "conv"], ports_auto=True, counts=COUNTS)
    assert [place.name for place in batchers] == [f"batcher-{number}" for number in range(1, 7)]
    assert [place.settings.serves for place in batchers] == ["", "", "mlp", "mlp", "conv", "conv"]
    assert [place.settings.served for place in batchers] == ["simulated"] * 2 + ["mlp"] * 2 + ["conv"] * 2
    assert {place.settings.threads for place in batchers} == {4}
    assert {place.settings.batchers for place in batchers} == {2}
    assert len({place.port for place in batchers}) == 6


def test_threads_that_are_set_stay() -> None:
    """They are a batcher's own; with more batchers than cores each has one."""
    for threads, told in (("3", 3), ("0", 1)):
        settings = load({}, {"batchers": "64", "threads": threads})[0]
        _, batchers, _ = places(settings, models=["builtin", "mlp"], ports_auto=True, counts=COUNTS)
        assert [place.settings.threads for place in batchers] == [told] * 128


def test_batchers_of_many_models_share_no_shards() -> None:
    """Each model has shards of its own, so there may be more batchers in all than one model has shards."""
    settings = load({}, {"batchers": "2", "routing": "hash", "shards": "2"})[0]
    _, batchers, _ = places(settings, models=["builtin", "mlp"], ports_auto=True, counts=COUNTS)
    assert len(batchers) == 4
    assert all(load(to_environ(place.settings))[0] == place.settings for place in batchers)
