"""The embedded Valkey and the private RabbitMQ node, as real processes."""

import asyncio
import os
import signal
import socket
import stat
import sys
from pathlib import Path

import aio_pika
import psutil
import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

import inferq.rabbitnode as rabbitnode
from inferq.childprocess import ChildProcess
from inferq.errors import OperatorError
from inferq.ports import free_port
from inferq.rabbitnode import PrivateRabbit
from inferq.valkey import EmbeddedValkey
from tests.support import eventually

_STARTER = """
import asyncio, sys
from pathlib import Path
from inferq.valkey import EmbeddedValkey

async def main():
    server = EmbeddedValkey(Path(sys.argv[1]))
    await server.start()
    print(server.pid, server.port, flush=True)
    await server.wait()

asyncio.run(main())
"""


async def test_valkey_answers_on_loopback_alone(own_valkey: EmbeddedValkey) -> None:
    """A started server answers, is durable by its settings, and listens on loopback only."""
    async with Redis.from_url(own_valkey.url) as client:
        assert await client.ping()
        settings = await client.config_get("append*", "maxmemory-policy", "save", "protected-mode")
    assert settings["appendonly"] == "yes"
    assert settings["appendfsync"] == "always"
    assert settings["maxmemory-policy"] == "noeviction"
    assert settings["save"] == ""
    assert settings["protected-mode"] == "yes"
    assert _listening_on(own_valkey.pid) == {("127.0.0.1", own_valkey.port)}


async def test_valkey_stops_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """After a stop the process is gone, and the folder and the port can be used again at once."""
    server = EmbeddedValkey(tmp_path)
    await server.start()
    pid, port = server.pid, server.port
    await server.stop()
    assert await server.wait() == 0
    assert _living(tmp_path) == []
    again = EmbeddedValkey(tmp_path, port=port)
    await again.start()
    assert again.pid != pid
    await again.stop()
    await again.stop()


async def test_valkey_keeps_every_acknowledged_write_through_sigkill(own_valkey: EmbeddedValkey) -> None:
    """Killed amid writes and started again on its port, it has every write that it had answered."""
    url, pid = own_valkey.url, own_valkey.pid
    acknowledged: list[int] = []
    async with Redis.from_url(url, retry=None) as client:

        async def write() -> None:
            for number in range(100_000):
                await client.set(f"key:{number}", number)
                acknowledged.append(number)

        writing = asyncio.create_task(write())
        await eventually(lambda: len(acknowledged) >= 50, what="fifty writes")
        _kill(pid)
        with pytest.raises(RedisConnectionError):
            await writing
    assert await own_valkey.wait() == -signal.SIGKILL

    await own_valkey.start()

    assert own_valkey.url == url
    assert own_valkey.pid != pid
    async with Redis.from_url(url) as client:
        values = await client.mget([f"key:{number}" for number in acknowledged])
    assert [int(value or -1) for value in values] == acknowledged


async def test_valkey_cuts_off_a_half_written_tail(own_valkey: EmbeddedValkey, tmp_path: Path) -> None:
    """An append-only file that ends in half a command is loaded up to there."""
    async with Redis.from_url(own_valkey.url) as client:
        await client.set("whole", "kept")
    _kill(own_valkey.pid)
    await own_valkey.wait()
    (tail,) = (tmp_path / "valkey").glob("appendonlydir/*.incr.aof")
    with tail.open("ab") as file:
        file.write(b"*3\r\n$3\r\nSET\r\n$4\r\nhal")

    await own_valkey.start()

    async with Redis.from_url(own_valkey.url) as client:
        assert await client.get("whole") == b"kept"
        assert await client.dbsize() == 1


async def test_a_second_valkey_on_one_folder_is_refused(own_valkey: EmbeddedValkey, tmp_path: Path) -> None:
    """The refusal is one line with the folder and its holder, and the first server goes on."""
    with pytest.raises(OperatorError) as refusal:
        await EmbeddedValkey(tmp_path / "valkey").start()
    assert str(refusal.value) == (
        f"the folder {tmp_path / 'valkey'} is in use by process {os.getpid()}; "
        "stop it or choose another folder"
    )
    async with Redis.from_url(own_valkey.url) as client:
        assert await client.ping()


async def test_a_running_valkey_is_not_started_twice(own_valkey: EmbeddedValkey) -> None:
    """Starting a running server is a mistake in the code and does it no harm."""
    with pytest.raises(RuntimeError, match="runs already"):
        await own_valkey.start()
    async with Redis.from_url(own_valkey.url) as client:
        assert await client.ping()


async def test_a_taken_port_is_refused_and_the_folder_given_back(tmp_path: Path) -> None:
    """A port that another process holds is one clear line; the folder is free for the next try."""
    with socket.create_server(("127.0.0.1", free_port())) as other:
        port = other.getsockname()[1]
        server = EmbeddedValkey(tmp_path, port=port)
        with pytest.raises(OperatorError, match=f"^port {port} on 127.0.0.1 is taken by another "):
            await server.start()
    await server.start()
    await server.stop()


async def test_a_server_that_cannot_read_its_data_says_so(tmp_path: Path) -> None:
    """A server that ends at its start is reported at once, with its own last words."""
    (tmp_path / "appendonlydir").mkdir()
    (tmp_path / "appendonlydir" / "appendonly.aof.manifest").write_text("not a manifest\n")
    async with asyncio.timeout(5):
        with pytest.raises(OperatorError, match=r"^the embedded Valkey ended at its start: .*manifest"):
            await EmbeddedValkey(tmp_path).start()
    assert _living(tmp_path) == []


async def test_a_cancelled_start_leaves_nothing_behind(tmp_path: Path) -> None:
    """Cancelling a start ends the process and gives the folder back."""
    server = EmbeddedValkey(tmp_path)
    starting = asyncio.create_task(server.start())
    await eventually(lambda: server.pid is not None, every_s=0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert _living(tmp_path) == []
    await server.start()
    await server.stop()


async def test_a_server_dies_with_its_killed_starter(tmp_path: Path) -> None:
    """SIGKILL of the starter ends the server and frees folder and port: a restart needs no cleaning up."""
    starter = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _STARTER, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert starter.stdout is not None
    async with asyncio.timeout(15):
        pid, port = map(int, (await starter.stdout.readline()).split())
    assert psutil.pid_exists(pid)
    starter.kill()
    await starter.wait()
    server = EmbeddedValkey(tmp_path, port=port)
    await server.start()
    assert server.pid != pid
    assert _living(tmp_path) == [server.pid]
    await server.stop()


async def test_what_an_earlier_starter_left_running_is_ended(tmp_path: Path) -> None:
    """The record on disk names a survivor of an earlier starter; the next start ends it first."""
    folders = {"record": tmp_path / "sleep.pid", "output": tmp_path / "sleep.log"}
    earlier, later = ChildProcess(**folders), ChildProcess(**folders)
    await earlier.start(["/bin/sleep", "60"], env=os.environ, folder=tmp_path)
    await later.start(["/bin/sleep", "60"], env=os.environ, folder=tmp_path)
    assert await earlier.wait() == -signal.SIGKILL
    assert later.running
    await later.stop(1)
    assert await later.wait() == -signal.SIGTERM


async def test_a_record_of_another_process_harms_nobody(tmp_path: Path) -> None:
    """A process that merely has the recorded id, started at another time, is left alone."""
    bystander = ChildProcess(record=tmp_path / "bystander.pid", output=tmp_path / "log")
    await bystander.start(["/bin/sleep", "60"], env=os.environ, folder=tmp_path)
    (tmp_path / "stale.pid").write_text(f"{bystander.pid} 00000000-0000-0000-0000-000000000000 1\n")
    child = ChildProcess(record=tmp_path / "stale.pid", output=tmp_path / "log")
    await child.start(["/bin/sleep", "60"], env=os.environ, folder=tmp_path)
    assert bystander.running
    await child.stop(1)
    await bystander.stop(1)


async def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    """A stop ends in bounded time whatever the process does."""
    child = ChildProcess(record=tmp_path / "pid", output=tmp_path / "log")
    script = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
    await child.start(["/bin/sh", "-c", script], env=os.environ, folder=tmp_path)
    await eventually(lambda: child.last_line() == "ready")
    await child.stop(0.2)
    assert await child.wait() == -signal.SIGKILL


async def test_shared_servers_answer_under_a_namespace(valkey_url: str, namespace: str) -> None:
    """The server shared by all tests answers, and its namespace is fresh."""
    async with Redis.from_url(valkey_url) as client:
        assert await client.incr(f"{namespace}count") == 1


async def test_rabbitmq_is_private(rabbit_node: PrivateRabbit) -> None:
    """The node listens on loopback alone, keeps its secrets, and touches no folder but its own."""
    listeners = _listening_on(rabbit_node.pid)
    assert {address for address, _ in listeners} == {"127.0.0.1"}
    assert rabbit_node.port in {port for _, port in listeners}
    folder = Path(psutil.Process(rabbit_node.pid).cwd())
    for pid in _living(folder):
        assert {address for address, _ in _listening_on(pid)} <= {"127.0.0.1", "::1"}
    for name in (".erlang.cookie", "node.json", "rabbitmq.conf"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    opened = {Path(file.path) for file in psutil.Process(rabbit_node.pid).open_files()}
    assert {path for path in opened if not path.is_relative_to(folder)} == set()


@pytest.mark.usefixtures("rabbitmq_installed")
async def test_rabbitmq_keeps_a_quorum_queue_through_sigkill(tmp_path: Path) -> None:
    """Killed and started again, it has its URL, queue and confirmed message; stopped, it leaves nothing."""
    said: list[str] = []
    node = PrivateRabbit(tmp_path, on_progress=said.append)
    await node.start()
    try:
        url, pid = node.url, node.pid
        connection = await aio_pika.connect(url)
        async with connection:
            channel = await connection.channel(publisher_confirms=True)
            await channel.declare_queue("kept", durable=True, arguments={"x-queue-type": "quorum"})
            message = aio_pika.Message(b"kept", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            await channel.default_exchange.publish(message, routing_key="kept")
            await eventually(lambda: node.has_on_disk("kept"), what="the queue on disk")
            assert not node.has_on_disk("kep")  # A name that a longer one begins with.
            _kill(pid)
            assert await node.wait() == -signal.SIGKILL

        await node.start()

        assert node.url == url
        assert node.pid != pid
        async with await aio_pika.connect(url) as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue("kept", durable=True, passive=True)
            received = await eventually(lambda: _get(queue), what="the message")
            assert received == b"kept"
        with pytest.raises(OperatorError, match=f"the folder {tmp_path} is in use by process {os.getpid()}"):
            await PrivateRabbit(tmp_path).start()
    finally:
        await node.stop()
    await eventually(lambda: not _living(tmp_path), what="the end of every process of the node")
    assert said[0].startswith("starting a private RabbitMQ")
    assert said[1].startswith("the private RabbitMQ is up after")


@pytest.mark.usefixtures("rabbitmq_installed")
async def test_rabbitmq_refuses_a_taken_port(tmp_path: Path) -> None:
    """A taken port, AMQP or management, is one clear line before anything is started."""
    with socket.create_server(("127.0.0.1", free_port())) as other:
        port = other.getsockname()[1]
        for node in (PrivateRabbit(tmp_path, port=port), PrivateRabbit(tmp_path, management_port=port)):
            with pytest.raises(OperatorError, match=f"^port {port} on 127.0.0.1 is taken by another "):
                await node.start()
    assert _living(tmp_path) == []


async def test_a_missing_rabbitmq_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the program the operator reads what to install."""
    monkeypatch.setattr(rabbitnode, "_SCRIPTS", ())
    monkeypatch.setattr(rabbitnode, "_EXTRA_FOLDERS", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OperatorError, match=r"^rabbitmq-server is not installed; install it \(apt-get "):
        await PrivateRabbit(tmp_path).start()


async def _get(queue: aio_pika.abc.AbstractQueue) -> bytes | None:
    message = await queue.get(fail=False)
    if message is None:
        return None
    await message.ack()
    return message.body


def _kill(pid: int | None) -> None:
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def _listening_on(pid: int | None) -> set[tuple[str, int]]:
    connections = psutil.Process(pid).net_connections(kind="inet")
    return {(each.laddr.ip, each.laddr.port) for each in connections if each.status == psutil.CONN_LISTEN}


def _living(folder: Path) -> list[int]:
    """Return the processes that run in a data folder or have it as their home."""
    found: list[int] = []
    for process in psutil.process_iter():
        try:
            at_home = process.environ().get("HOME") == str(folder)
            if process.status() != psutil.STATUS_ZOMBIE and (at_home or process.cwd() == str(folder)):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found
