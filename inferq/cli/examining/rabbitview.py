"""What RabbitMQ says of its nodes and of our queues, judged. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from inferq.cli.examining.finding import Finding, note, ok, wrong
from inferq.cli.examining.queueview import QueueCount, told, unconsumed
from inferq.plurals import counted

# What a policy may set that takes jobs away which were accepted.
_TAKING: Final = ("message-ttl", "expires", "max-length-bytes")
_MIB: Final = 1024 * 1024
NOT_MANAGED: Final = "no job needs it, but this sees neither alarms by name nor what is unacknowledged"
_MANAGE: Final = "run `rabbitmq-plugins enable rabbitmq_management`, or set INFERQ_BROKER_UI_URL"


def judge_queues(
    work: Sequence[QueueCount],
    dropped: QueueCount,
    managed: Sequence[Mapping[str, Any]],
    *,
    shards: int = 1,
) -> list[Finding]:
    """Return what is to be said of the queues of jobs, and of the one where the broker puts what it gave up."""
    found = unconsumed(work, shards=shards)
    by_name = {str(queue.get("name")): queue for queue in managed}
    for queue in (*work, dropped):
        found += _of_policy(queue.name, by_name.get(queue.name, {}))
        found += _of_state(queue.name, by_name.get(queue.name, {}))
    if dropped.ready:
        detail = f"RabbitMQ itself gave up {counted(dropped.ready, 'message')}, which lie in {dropped.name}"
        found.append(note("queues", detail, "an ingress fails their jobs within seconds; does one run?"))
    if found:
        return found
    unacked = [by_name.get(queue.name, {}).get("messages_unacknowledged") for queue in work]
    full = [replace(queue, held=held) for queue, held in zip(work, unacked, strict=True)]
    return [ok("queues", told(full, shards=shards))]


def judge_nodes(nodes: Sequence[Mapping[str, Any]], *, taken: bool) -> list[Finding]:
    """Return what is to be said of alarms; ``taken`` says whether a message was confirmed."""
    found = []
    for node in nodes:
        name = node.get("name", "RabbitMQ")
        if not node.get("running", True):
            found.append(wrong("alarms", f"{name} does not run", "start it, or take it out of the cluster"))
        if node.get("mem_alarm"):
            detail = (
                f"{name} takes no messages: it uses {_mib(node, 'mem_used')} of {_mib(node, 'mem_limit')} MiB"
            )
            cure = "find what fills it, give it memory, or raise vm_memory_high_watermark"
            found.append(wrong("alarms", f"{detail} of memory", cure))
        if node.get("disk_free_alarm"):
            free, least = _mib(node, "disk_free"), _mib(node, "disk_free_limit")
            detail = f"{name} takes no messages: {free} MiB of its disk are free, and it wants {least}"
            found.append(wrong("alarms", detail, "make room on its disk, or lower disk_free_limit"))
    if not taken and not found:
        detail = "RabbitMQ confirms no message: most likely it is out of memory or of disk"
        cure = "run `rabbitmq-diagnostics alarms` there, and give it what it lacks"
        found.append(wrong("alarms", detail, cure))
    if found:
        return found
    seen = "RabbitMQ confirms messages" + (", and no node has an alarm" if nodes else "")
    return [ok("alarms", seen)]


def judge_management(url: str, missing: str, version: str) -> Finding:
    """Return what is to be said of the management plugin."""
    if missing:
        return note("management", f"{url}: {missing}; {NOT_MANAGED}", _MANAGE)
    return ok("management", f"{url}: RabbitMQ {version}")


def _of_policy(name: str, queue: Mapping[str, Any]) -> list[Finding]:
    definition = queue.get("effective_policy_definition") or {}
    taking = [key for key in _TAKING if key in definition]
    if not taking:
        return []
    policy = queue.get("policy") or queue.get("operator_policy")
    detail = f"the policy {policy} sets {', '.join(taking)} on {name}, which takes accepted jobs away"
    return [wrong("queues", detail, f"run `rabbitmqctl clear_policy {policy}`, or let it spare our queues")]


def _of_state(name: str, queue: Mapping[str, Any]) -> list[Finding]:
    state = queue.get("state", "running")
    if state in {"running", "idle"}:
        return []
    cure = f"see `rabbitmq-queues quorum_status {name}` and RabbitMQ's log"
    return [wrong("queues", f"{name} is {state}", cure)]


def _mib(node: Mapping[str, Any], field: str) -> str:
    return f"{int(node.get(field, 0)) / _MIB:.0f}"
