"""The ports that a local pipeline is to listen on: checked, or drawn anew."""

from inferq.options import BY_FIELD
from inferq.ports import free_ports, require_port
from inferq.settings import Settings, with_values


def checked_ports(settings: Settings) -> Settings:
    """Refuse a taken port before anything is started; raises `OperatorError`."""
    for name in ("ingress_port", "notifier_port", "batcher_port"):
        require_port(getattr(settings, name), settings.host, cure=port_cure(name))
    if settings.probe_port:
        require_port(settings.probe_port, cure=port_cure("probe_port"))
    return settings


def port_cure(name: str) -> str:
    """Return what to do about the port of a setting that is taken."""
    return f"set {BY_FIELD[name].variable} to another one, or start with --ports auto"


def with_free_ports(settings: Settings) -> Settings:
    """Return settings whose three ports are free ones; raises `OperatorError` where there are not enough."""
    ingress, notifier, batcher = free_ports(3, settings.host)
    return with_values(settings, ingress_port=ingress, notifier_port=notifier, batcher_port=batcher)
