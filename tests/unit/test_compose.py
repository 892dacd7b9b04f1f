"""compose.yaml and the files beside it keep what they promise, seen without an engine."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferq.apikeys import parse_file
from inferq.loading import read_line
from inferq.options import OPTIONS
from inferq.settings import load, require_servers

ROOT = Path(__file__).resolve().parents[2]
OURS = ("ingress", "batcher", "notifier")
ALL = ("rabbitmq", "redis", *OURS)
# The longest that a stopping service takes by itself; a batcher finishes a batch (INFERQ_ENGINE_TIMEOUT_MS).
DRAIN_S = {"ingress": 12, "notifier": 12, "batcher": 30 + 12}
PORTS = {"ingress": 8080, "notifier": 8081, "batcher": 8082}
_VARIABLE = re.compile(r"\$\{([A-Z_]+)(?::-([^}]*))?\}")


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _compose() -> dict[str, Any]:
    """Return the file with its variables at their defaults."""
    text = _VARIABLE.sub(lambda found: found[2] or "", _text("compose.yaml"))
    parsed = yaml.safe_load(text)
    assert isinstance(parsed, dict)
    return parsed


SERVICES: dict[str, dict[str, Any]] = _compose()["services"]


def _seconds(text: str) -> int:
    found = re.fullmatch(r"(\d+)s", text)
    assert found is not None, text
    return int(found[1])


def test_the_services_are_the_pipeline_and_those_that_are_asked_for() -> None:
    """Without a profile there are the five; the others come with `gpu`, `models` and `tools`."""
    assert {name for name, one in SERVICES.items() if "profiles" not in one} == set(ALL)
    assert {name: one["profiles"] for name, one in SERVICES.items() if "profiles" in one} == {
        "batcher-gpu": ["gpu"],
        "batcher-model": ["models"],
        "loadgen": ["tools"],
    }


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_shut_in(name: str) -> None:
    """No root, nothing to write but what is named, no rights, bounded memory, processes and logs."""
    service = SERVICES[name]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", service["user"])
    assert service["read_only"] is True
    assert all("size=" in one for one in service["tmpfs"])
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert re.fullmatch(r"[1-9]\d*[mg]", service["mem_limit"])
    assert service["pids_limit"] > 0
    assert service["logging"]["options"].keys() == {"max-size", "max-file"}
    for key in ("privileged", "cap_add", "network_mode", "pid", "ipc", "devices"):
        assert key not in service
    for volume in service.get("volumes", []):
        assert volume.endswith(":ro") or volume.split(":")[0] in _compose()["volumes"]


def test_ports_are_published_on_loopback_alone() -> None:
    """Nobody beside this machine reaches anything, and neither AMQP, Redis nor a batcher is published."""
    published = {name: one["ports"] for name, one in SERVICES.items() if "ports" in one}
    assert published == {
        "rabbitmq": ["127.0.0.1:15672:15672"],
        "ingress": ["127.0.0.1:8080:8080"],
        "notifier": ["127.0.0.1:8081:8081"],
    }


@pytest.mark.parametrize("name", ALL)
def test_a_service_says_whether_it_is_well(name: str) -> None:
    """Each has a check with bounds; ours ask their own `/readyz`."""
    check = SERVICES[name]["healthcheck"]
    assert {"test", "interval", "timeout", "retries", "start_period"} <= check.keys()
    if name in OURS:
        assert f":{PORTS[name]}/readyz" in check["test"][-1]


@pytest.mark.parametrize("name", OURS)
def test_ours_start_when_both_servers_are_well_and_have_time_to_stop(name: str) -> None:
    """The start waits for health, and a stop for more than the service takes by itself."""
    service = SERVICES[name]
    assert service["depends_on"] == {one: {"condition": "service_healthy"} for one in ("rabbitmq", "redis")}
    assert _seconds(service["stop_grace_period"]) > DRAIN_S[name]
    assert service["command"] == [name]
    # As process 1 it would not hear a SIGTERM that comes before it has its handler.
    assert service["init"] is True


def test_there_may_be_several_batchers() -> None:
    """No port, name or host name of a batcher stands in the way of a second one."""
    batcher = SERVICES["batcher"]
    assert not {"ports", "container_name", "hostname"} & batcher.keys()
    assert batcher["deploy"] == {"replicas": 1}


def test_a_further_model_has_batchers_of_its_own() -> None:
    """Its folder is where ingress and batchers look for it; beside its name its batchers differ in nothing."""
    further, batcher = SERVICES["batcher-model"], SERVICES["batcher"]
    differ = {key for key in further if further[key] != batcher.get(key)}
    assert differ == {"profiles", "environment"}
    assert further["environment"] == {**batcher["environment"], "INFERQ_SERVES": ""}
    assert SERVICES["ingress"]["volumes"] == batcher["volumes"] == ["./deploy/models:/models:ro"]
    serves = re.findall(r"INFERQ_(?:MODELS|SERVES): (.+)", _text("compose.yaml"))
    assert serves == ['"${MODELS:-}"', '"${SERVES:-}"']


def test_each_image_is_built_by_one_service() -> None:
    """Two builds of one name are two images, and what has the first is made anew by the next `up`."""
    built = {name: one["image"] for name, one in SERVICES.items() if "build" in one}
    assert built == {"ingress": "inferq:local", "batcher-gpu": "inferq:local-gpu"}
    assert {SERVICES[name]["image"] for name in (*OURS, "loadgen")} == {"inferq:local"}
    assert [SERVICES[name]["build"]["target"] for name in built] == ["cpu", "gpu"]


def test_the_load_generator_follows_what_it_can_reach() -> None:
    """The notifier's address is the one for outside, so jobs are followed by their records; a GPU alone will do."""
    service = SERVICES["loadgen"]
    follow = service["command"].index("--follow")
    assert service["command"][follow + 1] == "records"
    assert set(service["depends_on"]) == {"ingress"}


def test_images_are_arguments_with_a_version() -> None:
    """What is not ours is named once, with a version, and can be pinned by digest from outside."""
    text = _text("compose.yaml")
    for variable in ("PYTHON_IMAGE", "CUDA_IMAGE", "RABBITMQ_IMAGE", "REDIS_IMAGE"):
        found = re.findall(r"\$\{" + variable + r":-([^}]+)\}", text)
        assert len(found) == 1
        assert re.search(r":\d", found[0]), f"{found[0]} has no version"
        assert "latest" not in found[0]
        assert f"#{variable}={found[0]}\n" in _text(".env.example")
    dockerfile = _text("deploy/Dockerfile")
    arguments = dict(re.findall(r"^ARG ([A-Z_]+_IMAGE)=(\S+)$", dockerfile, re.MULTILINE))
    assert all(f":-{image}}}" in text for image in arguments.values())
    stages = {"scratch", *re.findall(r" AS (\S+)$", dockerfile, re.MULTILINE)}
    for base in re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE):
        assert base in stages or base in {f"${{{name}}}" for name in arguments}


def test_each_image_has_the_runtime_of_its_lock() -> None:
    """The one for GPUs has what its lock's runtime is built for: CUDA 13 from 1.28 on; never both runtimes."""
    dockerfile = _text("deploy/Dockerfile")
    installed = re.findall(r"--requirement /wheels/(\S+)", dockerfile)
    assert installed == ["requirements.lock", "requirements-gpu.lock"]
    assert dockerfile.count("pip install") == len(installed)
    runtimes = [set(re.findall(r"^onnxruntime\S*(?===)", _text(name), re.MULTILINE)) for name in installed]
    assert runtimes == [{"onnxruntime"}, {"onnxruntime-gpu"}]
    found = re.search(r"^onnxruntime-gpu==1\.(\d+)", _text("requirements-gpu.lock"), re.MULTILINE)
    assert found is not None
    assert int(found[1]) >= 28
    assert re.search(r"^ARG CUDA_IMAGE=nvidia/cuda:13\.\S+-cudnn-runtime-", dockerfile, re.MULTILINE)


def test_an_image_runs_its_service_itself_and_not_as_root() -> None:
    """An entry point in a shell's form would keep SIGTERM from the service."""
    dockerfile = _text("deploy/Dockerfile")
    assert re.findall(r"^USER (\S+)$", dockerfile, re.MULTILINE) == ["10001:10001"] * 2
    assert re.findall(r"^ENTRYPOINT (.+)$", dockerfile, re.MULTILINE) == ['["python", "-m"]'] * 2


def test_the_example_shows_each_variable_with_its_default() -> None:
    """Nothing can be set that `.env.example` does not show, and it shows nothing that is not so."""
    defaults = dict(_VARIABLE.findall(_text("compose.yaml")))
    example = dict(re.findall(r"^#([A-Z_]+)=(.*)$", _text(".env.example"), re.MULTILINE))
    assert example == defaults
    assert [line for line in _text(".env.example").splitlines() if line and not line.startswith("#")] == []


def test_no_secret_is_in_the_file_or_in_an_environment() -> None:
    """What is secret comes as a file."""
    compose = _compose()
    for name in OURS:
        environment = SERVICES[name]["environment"]
        for option in OPTIONS:
            if option.secret:
                assert environment[option.variable].startswith("@/run/secrets/")
                assert (
                    environment[option.variable].removeprefix("@/run/secrets/") in SERVICES[name]["secrets"]
                )
    for one in compose["secrets"].values():
        assert one["file"].startswith("./deploy/secrets/")
    assert "/deploy/secrets/" in _text(".gitignore")
    assert not re.search(r"://[^/ ]*@|[0-9a-f]{24}|whsec_", _text("compose.yaml") + _text(".env.example"))


def test_only_what_images_are_made_of_goes_to_the_builder() -> None:
    """Neither secrets nor `.env` nor the history are in the context."""
    lines = [line for line in _text(".dockerignore").splitlines() if not line.startswith("#")]
    assert lines[0] == "*"
    copied = set(re.findall(r"^COPY (?!--)(.+) \S+$", _text("deploy/Dockerfile"), re.MULTILINE))
    wanted = {word.replace("[s]", "s") for line in copied for word in line.split()}
    assert {line[1:] for line in lines if line.startswith("!")} == wanted


@pytest.fixture(name="secrets")
def _secrets(tmp_path: Path) -> Path:
    folder = tmp_path / "secrets"
    _make_secrets(folder)
    return folder


def _make_secrets(folder: Path) -> None:
    subprocess.run(
        ["sh", ROOT / "deploy" / "secrets.sh", folder], check=True, capture_output=True, timeout=30
    )


def test_the_secrets_are_what_the_services_take(secrets: Path) -> None:
    """Each file that compose.yaml mounts is made, and with the environment given there the settings are good."""
    assert {one.name for one in secrets.iterdir()} == set(_compose()["secrets"])
    for name in OURS:
        environ = {variable: str(value) for variable, value in SERVICES[name]["environment"].items()}
        settings, _ = load(environ, read=lambda file: read_line(str(secrets / Path(file).name)))
        assert require_servers(settings).broker_url.startswith("amqp://inferq:")
        assert settings.redis_url.endswith("@redis:6379/0")
    entries = parse_file((secrets / "api_keys").read_text())
    assert [(one.name, one.admin) for one in entries] == [("owner", True)]


def test_the_secrets_of_servers_and_clients_agree(secrets: Path) -> None:
    """RabbitMQ's, Redis's and the owner's are each written twice, alike."""
    pairs = {
        "broker_url": ("rabbitmq_conf", r"//inferq:(\w+)@", r"default_pass = (\w+)"),
        "redis_url": ("redis_conf", r"//:(\w+)@", r"requirepass (\w+)"),
        "client_key": ("api_keys", r"(\w+)", r"owner:(\w+):admin"),
    }
    for client, (server, theirs, ours) in pairs.items():
        one = re.search(theirs, (secrets / client).read_text())
        other = re.search(ours, (secrets / server).read_text())
        assert one is not None
        assert other is not None
        assert one[1] == other[1]
        assert len(one[1]) >= 48


def test_secrets_are_made_once_and_closed_to_others(secrets: Path) -> None:
    """A second run changes nothing; a lost half of a pair makes the pair anew; others cannot enter the folder."""
    before = {one.name: one.read_bytes() for one in secrets.iterdir()}
    assert stat.S_IMODE(os.stat(secrets).st_mode) == 0o700
    _make_secrets(secrets)
    assert {one.name: one.read_bytes() for one in secrets.iterdir()} == before
    (secrets / "redis_url").unlink()
    _make_secrets(secrets)
    after = {one.name: one.read_bytes() for one in secrets.iterdir()}
    assert {name for name in before if before[name] != after[name]} == {"redis_url", "redis_conf"}


def test_on_the_hosts_network_everything_stays_on_loopback(tmp_path: Path) -> None:
    """Where containers share the network of the host, each server of theirs is told to listen on 127.0.0.1 alone."""
    script = ROOT / "deploy" / "host_network.py"
    done = subprocess.run(
        [sys.executable, script, tmp_path],
        input=_text("compose.yaml"),
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
    )
    services = yaml.safe_load(done.stdout)["services"]
    assert services.keys() == SERVICES.keys()
    for name, service in services.items():
        assert service["network_mode"] == "host"
        assert "ports" not in service
        if name in OURS:
            assert service["environment"]["INFERQ_HOST"] == "127.0.0.1"
    assert services["redis"]["command"][-2:] == ["--bind", "127.0.0.1"]
    config = (tmp_path / "rabbitmq.conf").read_text(encoding="utf-8")
    assert "listeners.tcp.default = 127.0.0.1:5672\n" in config
    for plugin in ("management", "prometheus"):
        assert f"{plugin}.tcp.ip = 127.0.0.1\n" in config
    assert any(volume.startswith(str(tmp_path)) for volume in services["rabbitmq"]["volumes"])
