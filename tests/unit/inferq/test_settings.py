"""The settings: where a value comes from, what is allowed, and what an operator reads when it is not."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferq.breaker import Limits
from inferq.errors import OperatorError
from inferq.options import BY_FIELD, OPTIONS, Option
from inferq.redaction import redact
from inferq.settings import (
    HASH_SHARDS,
    Settings,
    exposed,
    load,
    require_servers,
    to_environ,
    unknown,
    with_values,
)


class Case(NamedTuple):
    """Of one setting: two allowed texts with their values, texts that are refused, and what the refusal says."""

    first: tuple[str, Any]
    second: tuple[str, Any]
    bad: tuple[str, ...]
    allowed: str


def _text(first: str, second: str, *bad: str, allowed: str) -> Case:
    return Case((first, first), (second, second), bad, allowed)


def _number(low: int, high: int) -> Case:
    bad = ("", "x", "1.5", "1e3", " 1", "1\n", "+1", "0x10", "١", str(low - 1), str(high + 1), "9" * 30)
    return Case((str(low), low), (str(high), high), bad, f"a whole number from {low} to {high}")


_KEY = "S3CRET-S3CRET-S3CRET"
_URLS = (
    "http://h:1",
    "redis:/h",
    "redis//h",
    "redis://",
    "redis://h:0",
    "redis://h:x",
    "redis://[h",
    "redis",
)
CASES: dict[str, Case] = {
    "redis_url": _text("redis://h:6379/0", "rediss://u:p@h", *_URLS, "amqp://h", allowed="redis://host:port"),
    "broker_url": _text(
        "amqp://u:p@h/v", "rabbitmq", *_URLS, "rabbit", allowed="rabbitmq or amqp://host:port"
    ),
    "broker_ui_url": _text(
        "https://rabbit.example/ui/", "http://h:15672", "amqp://h", "h", allowed="http://host:port"
    ),
    "namespace": _text("", "t1:a.b_c-", "a b", "a/b", "ä", "a\n", "x" * 65, allowed="up to 64 letters"),
    "host": _text("::1", "localhost", "", "a b", "http://h", "x" * 256, allowed="a host name or address"),
    "ingress_port": _number(1, 65535),
    "notifier_port": _number(1, 65535),
    "batcher_port": _number(1, 65535),
    "probe_port": _number(0, 65535),
    "allow_open": Case(("1", True), ("0", False), ("", "yes", "true", "2", "01"), "0 or 1"),
    "public_notifier_url": _text("wss://push.example", "ws://h:1/a", "https://h", allowed="ws://host:port"),
    "api_keys": _text(
        f"a:{_KEY}:admin:rate=5",
        "@/etc/inferq/keys",
        _KEY,
        "a:short",
        f"a:{_KEY},",
        "@",
        "@\0",
        allowed="name:key[:admin][:rate=N][:jobs=N][:webhook=URL] entries with commas between them, or @",
    ),
    "key_rate": _number(0, 1_000_000),
    "key_jobs": _number(0, 10_000_000),
    "event_shards": _number(1, 256),
    "origins": _text(
        "*",
        "https://app.example,http://[::1]:3000",
        "null",
        "app.example",
        "https://app.example/",
        "https://a.example,",
        "*,https://a.example",
        "http://h:0",
        allowed="scheme://host[:port] entries with commas between them, or *",
    ),
    "webhook_hosts": _text(
        "a.example:8080,10.0.0.0/8",
        "[::1]:80, localhost",
        "http://a",
        "a,",
        "10.0.0.1/8",
        "a:0",
        "*.a.example",
        allowed="host names, addresses or networks with commas between them",
    ),
    "webhook_secret": _text(
        "whsec_" + "S3CRETuc" * 4,
        "whsec_" + "S3CRETuc" * 8,
        "S3CRETuc" * 4,
        "whsec_" + "S3CRETuc" * 3,
        "whsec_" + "S3CRETuc" * 11,
        "whsec_!S3CRET",
        allowed="empty, or whsec_ and base64 of 24 to 64 bytes",
    ),
    "webhook_retry_ms": _number(10, 3_600_000),
    "model": _text("simulated:1,2", "/models/m", "hub:", "hub:a/b/c", allowed="hub: takes <owner>/<name>"),
    "models": _text("/models", "models", allowed="anything"),
    "serves": _text("mlp", "", "a b", "a/b", "x" * 101, allowed="the name of a model"),
    "max_input_bytes": _number(1024, 4_194_304),
    "max_output_bytes": _number(1024, 131_072),
    "device": _text("cpu", "cuda", "", "gpu", "CPU", allowed="one of auto, cpu, cuda"),
    "precision": _text("int8", "fp16", "", "fp64", "INT8", allowed="one of fp32, int8, fp16"),
    "gpu_memory_percent": _number(1, 100),
    "batch_policy": _text("fixed", "greedy", "", "slo2", "Fixed", allowed="one of fixed, greedy, slo"),
    "max_batch_size": _number(1, 1024),
    "max_wait_ms": _number(0, 60_000),
    "slo_ms": _number(1, 600_000),
    "max_batch_tokens": _number(1, 1_000_000),
    "queue_limit": _number(1, 10_000_000),
    "max_attempts": _number(1, 20),
    "engine_timeout_ms": _number(10, 3_600_000),
    "hang_factor": _number(2, 1_000_000),
    "breaker_failures": _number(1, 1000),
    "breaker_open_ms": _number(10, 3_600_000),
    "breaker_successes": _number(1, 1000),
    "breaker_probes": _number(1, 1000),
    "stall_s": _number(0, 86_400),
    "result_ttl_s": _number(1, 31_536_000),
    "job_ttl_s": _number(1, 31_536_000),
    "batchers": _number(1, 64),
    "ingresses": _number(1, 64),
    "threads": _number(0, 1024),
    "sessions": Case(
        ("auto", 0),
        ("1024", 1024),
        ("", "Auto", "auto ", "1.5", "-1", "00", "1025"),
        "auto or a whole number from 1 to 1024",
    ),
    "cache": _text("off", "shared", "", "redis", "Local", allowed="one of off, local, shared"),
    "cache_size": _number(1, 10_000_000),
    "routing": _text("shared", "hash", "", "ring", "Hash", allowed="one of shared, hash"),
    "shards": Case(
        ("auto", 0),
        ("0", 0),
        ("", "Auto", "1.5", "-1", "00", "1025"),
        "auto or a whole number from 1 to 1024",
    ),
    "log_level": _text("debug", "error", "", "trace", allowed="one of debug, info, warning, error"),
    "log_format": _text("json", "console", "", "xml", allowed="one of auto, console, json"),
    "cache_dir": _text("/var/cache", "~/models", allowed="anything"),
}
REFUSED = [(BY_FIELD[field], bad) for field, case in CASES.items() for bad in case.bad]


def _settings(**flags: str) -> Settings:
    return load({}, flags)[0]


def _cell(value: object) -> str:
    return value.field if isinstance(value, Option) else repr(value)[:30]


def test_each_setting_is_one_field_one_row_and_one_case() -> None:
    """`Settings`, `OPTIONS` and the table of this test name the same settings; only a free text has no bad value."""
    names = [field.name for field in fields(Settings)]
    assert [option.field for option in OPTIONS] == names
    assert list(CASES) == names
    assert [field for field, case in CASES.items() if not case.bad] == ["models", "cache_dir"]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("INFERQ_REDIS_URL", ""),
        ("INFERQ_NAMESPACE", ""),
        ("INFERQ_HOST", "127.0.0.1"),
        ("INFERQ_INGRESS_PORT", 8080),
        ("INFERQ_NOTIFIER_PORT", 8081),
        ("INFERQ_BATCHER_PORT", 8082),
        ("INFERQ_MODEL", "builtin"),
        ("INFERQ_DEVICE", "auto"),
        ("INFERQ_PRECISION", "fp32"),
        ("INFERQ_BATCH_POLICY", "slo"),
        ("INFERQ_MAX_BATCH_SIZE", 16),
        ("INFERQ_MAX_WAIT_MS", 50),
        ("INFERQ_SLO_MS", 200),
        ("INFERQ_MAX_BATCH_TOKENS", 4096),
        ("INFERQ_QUEUE_LIMIT", 10_000),
        ("INFERQ_MAX_ATTEMPTS", 3),
        ("INFERQ_RESULT_TTL_S", 3600),
        ("INFERQ_JOB_TTL_S", 86_400),
        ("INFERQ_BATCHERS", 1),
        ("INFERQ_SESSIONS", 0),
        ("INFERQ_CACHE", "local"),
        ("INFERQ_CACHE_SIZE", 1000),
        ("INFERQ_ROUTING", "shared"),
        ("INFERQ_SHARDS", 0),
    ],
)
def test_defaults_are_the_contracts(variable: str, value: object) -> None:
    """With nothing set, each setting has the default that is documented, and says so."""
    settings, origins = load({})
    (option,) = [option for option in OPTIONS if option.variable == variable]
    assert getattr(settings, option.field) == value
    assert origins[option.field] == "default"


@pytest.mark.parametrize("option", OPTIONS, ids=_cell)
def test_a_flag_wins_over_the_variable_and_that_over_the_default(option: Option) -> None:
    """Each setting can come from all three places, and `origins` says from which it came."""
    (first, first_value), (second, second_value) = CASES[option.field][:2]
    others = {} if option.field == "allow_open" else {"INFERQ_ALLOW_OPEN": "1"}

    def read(environ: Mapping[str, str], flags: Mapping[str, str | None]) -> tuple[object, str]:
        settings, origins = load(others | dict(environ), flags)
        return getattr(settings, option.field), origins[option.field]

    assert read({option.variable: first}, {option.field: second}) == (second_value, "flag")
    assert read({option.variable: first}, {option.field: None}) == (first_value, "environment")
    assert read({option.variable: second}, {}) == (second_value, "environment")
    assert read({}, {})[1] == "default"


@pytest.mark.parametrize("option", OPTIONS, ids=_cell)
def test_variable_and_flag_are_one_name(option: Option) -> None:
    """INFERQ_MAX_WAIT_MS is --max-wait-ms; every row says what the setting does and its unit."""
    assert option.variable.startswith("INFERQ_")
    assert option.flag == "--" + option.variable.removeprefix("INFERQ_").lower().replace("_", "-")
    assert option.help
    assert option.unit
    assert option.parse(option.default) == getattr(load({})[0], option.field)


@pytest.mark.parametrize(("option", "bad"), REFUSED, ids=_cell)
def test_a_bad_value_is_one_line(option: Option, bad: str) -> None:
    """It names the variable, or the flag where that was given, the value, and what is allowed."""
    for environ, flags, name in (
        ({option.variable: bad}, {}, option.variable),
        ({}, {option.field: bad}, option.flag),
    ):
        with pytest.raises(OperatorError) as caught:
            load(environ, flags)
        line = str(caught.value)
        shown = option.shown(bad) if option.secret else bad
        assert line.startswith(f"{name}={shown!r} is not allowed: it must be ")
        assert CASES[option.field].allowed in line
        assert "\n" not in line


def test_a_word_may_stand_for_the_number_that_is_worked_out() -> None:
    """`auto` is 0, and 0 says the same; only what is neither the word nor in the range is refused."""
    for text in ("auto", "0"):
        assert _settings(sessions=text).sessions == 0
    assert _settings(sessions="1").sessions == 1


def test_an_empty_variable_counts_as_given() -> None:
    """Emptied by mistake, a number is refused instead of falling back to its default unseen."""
    with pytest.raises(OperatorError, match="INFERQ_MAX_BATCH_SIZE=''"):
        load({"INFERQ_MAX_BATCH_SIZE": ""})


def test_the_first_bad_value_in_the_order_of_the_table_is_named() -> None:
    """Two mistakes are reported one after the other, the same one first each time."""
    with pytest.raises(OperatorError, match="INFERQ_DEVICE"):
        load({"INFERQ_THREADS": "x", "INFERQ_DEVICE": "x"})


def test_every_setting_of_the_contract_is_there() -> None:
    """None is ignored in silence."""
    promised = """
        REDIS_URL BROKER_URL NAMESPACE HOST INGRESS_PORT NOTIFIER_PORT BATCHER_PORT ALLOW_OPEN PUBLIC_NOTIFIER_URL
        MODEL DEVICE PRECISION BATCH_POLICY MAX_BATCH_SIZE MAX_WAIT_MS SLO_MS MAX_BATCH_TOKENS QUEUE_LIMIT
        MAX_ATTEMPTS RESULT_TTL_S JOB_TTL_S BATCHERS INGRESSES THREADS SESSIONS CACHE CACHE_SIZE ROUTING SHARDS
        API_KEYS ORIGINS WEBHOOK_HOSTS
    """
    known = {option.variable for option in OPTIONS}
    assert {f"INFERQ_{name}" for name in promised.split()} - known == set()


def test_a_slip_of_the_pen_is_found() -> None:
    """Variables with our prefix that are no settings are named; known and foreign ones are not."""
    environ = {
        "INFERQ_MAX_WAIT": "5",
        "INFERQ_HOSTS": "x",
        "INFERQ_HOST": "::1",
        "INFERQ_ROUTING": "hash",
        "PATH": "/",
    }
    assert unknown(environ) == ["INFERQ_HOSTS", "INFERQ_MAX_WAIT"]


def test_a_secret_in_a_flag_is_warned_of() -> None:
    """Each by its flag and never its text; a file's name, a URL without a password and no secret at all are none."""
    secrets = {
        "webhook_secret": "whsec_" + "A" * 32,
        "api_keys": "alice:0123456789abcdef",
        "redis_url": "redis://:pw@127.0.0.1:1",
    }
    warnings = exposed({**secrets, "broker_url": "amqp://127.0.0.1", "host": "127.0.0.1"})
    assert sorted(warning.split(" ")[0] for warning in warnings) == [
        "--api-keys",
        "--redis-url",
        "--webhook-secret",
    ]
    assert warnings[-1].endswith(
        "can be read by everybody on this machine: set INFERQ_WEBHOOK_SECRET instead"
    )
    assert not any(text in warning for text in secrets.values() for warning in warnings)
    assert exposed({"webhook_secret": "", "api_keys": "@keys", "redis_url": "redis://127.0.0.1:1"}) == []


@pytest.mark.parametrize(
    ("flags", "shards"),
    [
        ({}, 1),
        ({"shards": "1"}, 1),
        ({"routing": "hash"}, HASH_SHARDS),
        ({"routing": "hash", "shards": "2"}, 2),
        ({"routing": "hash", "shards": "1024"}, 1024),
    ],
)
def test_how_many_shards(flags: dict[str, str], shards: int) -> None:
    """One where routing is shared, 64 where it is not said, and all names follow."""
    settings = _settings(**flags)
    assert settings.names.shards == settings.shard_count == shards
    assert len(settings.names.queues()) == 2 * shards


def test_shards_are_for_hash_routing() -> None:
    """Spread over several, jobs of shared routing would be nobody's; and one shard is one batcher's alone."""
    with pytest.raises(OperatorError, match="set INFERQ_ROUTING=hash"):
        _settings(shards="2")
    with pytest.raises(OperatorError, match="needs two shards at least"):
        _settings(routing="hash", shards="1")
    with pytest.raises(OperatorError, match="INFERQ_BATCHERS=3 is more than there are shards"):
        _settings(routing="hash", shards="2", batchers="3")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "inferq.example"])
def test_beyond_loopback_only_when_it_is_meant(host: str) -> None:
    """A service that anybody may reach has to be asked for; one that asks for keys is not open."""
    with pytest.raises(OperatorError, match="INFERQ_ALLOW_OPEN=1"):
        load({"INFERQ_HOST": host})
    with pytest.raises(OperatorError, match="set INFERQ_API_KEYS"):
        load({"INFERQ_HOST": host, "INFERQ_API_KEYS": ""})
    for permission in ({"INFERQ_ALLOW_OPEN": "1"}, {"INFERQ_API_KEYS": f"a:{_KEY}"}):
        assert load({"INFERQ_HOST": host} | permission)[0].host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_loopback_needs_no_permission(host: str) -> None:
    """Nobody else reaches it."""
    assert load({"INFERQ_HOST": host})[0].host == host


@pytest.mark.parametrize(
    ("one", "other"),
    [("ingress_port", "notifier_port"), ("ingress_port", "batcher_port"), ("notifier_port", "batcher_port")],
)
def test_two_servers_cannot_share_a_port(one: str, other: str) -> None:
    """Said at the start instead of by whichever server comes second."""
    with pytest.raises(OperatorError, match="must differ"):
        _settings(**{one: "9000", other: "9000"})


@pytest.mark.parametrize("other", ["ingress_port", "notifier_port", "batcher_port"])
def test_a_probe_port_is_no_other_servers(other: str) -> None:
    """An ingress is asked there by itself, so nobody else may answer."""
    with pytest.raises(OperatorError, match="INFERQ_PROBE_PORT must differ"):
        _settings(probe_port="9000", **{other: "9000"})


@pytest.mark.parametrize(
    ("flags", "begins"),
    [
        ({}, "ws://127.0.0.1:8081"),
        ({"host": "::1", "notifier_port": "9"}, "ws://[::1]:9"),
        ({"public_notifier_url": "wss://push.example/a/"}, "wss://push.example/a"),
    ],
)
def test_where_streams_are(flags: dict[str, str], begins: str) -> None:
    """Made from host and port, unless a public URL is given."""
    assert _settings(**flags).stream_url == begins


def test_what_follows_from_the_settings() -> None:
    """The prefetch is four batches; names carry the namespace, and the default queue is the model's."""
    settings = _settings(max_batch_size="5", namespace="t-", model="/models/tiny")
    assert settings.prefetch == 20
    assert settings.model_name == "tiny"
    assert settings.names.queue("tiny") == "t-inference.requests"


def test_a_single_process_needs_servers() -> None:
    """Only `inferq up` starts a Redis or a RabbitMQ; the broker is the Redis unless another is named."""
    with pytest.raises(OperatorError, match="INFERQ_REDIS_URL is not set"):
        require_servers(_settings())
    with pytest.raises(OperatorError, match="INFERQ_BROKER_URL=rabbitmq"):
        require_servers(_settings(redis_url="redis://h", broker_url="rabbitmq"))
    assert require_servers(_settings(redis_url="redis://h")).broker_url == "redis://h"
    assert require_servers(_settings(redis_url="redis://h", broker_url="amqp://b")).broker_url == "amqp://b"


def test_changing_a_copy() -> None:
    """The original stays; a name that is no setting is a mistake."""
    settings = _settings()
    changed = with_values(settings, threads=3)
    assert (settings.threads, changed.threads) == (0, 3)
    assert with_values(changed, threads=0) == settings
    with pytest.raises(TypeError, match="thread"):
        with_values(settings, thread=3)


@pytest.mark.parametrize("option", OPTIONS, ids=_cell)
def test_a_child_process_reads_the_same_settings(option: Option) -> None:
    """Spelled as an environment and read again, every value is what it was."""
    for text, _ in CASES[option.field][:2]:
        settings = load({}, {"allow_open": "1"} | {option.field: text})[0]
        assert load(to_environ(settings))[0] == settings


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("", ""),
        ("rabbitmq", "rabbitmq"),
        ("localhost:6379", "localhost:6379"),
        ("redis://h:6379/0", "redis://h:6379/0"),
        ("redis://:secret@h:6379/0", "redis://***@h:6379/0"),
        ("redis://user@h:6379/0", "redis://***@h:6379/0"),
        ("amqps://user:secret@h/v", "amqps://***@h/v"),
        ("amqp://user:se/cret@h/v", "amqp://***@h/v"),
        ("amqp://user:se@cret@h/v", "amqp://***@h/v"),
        ("amqp://user:se?cret@h/v", "***"),
        ("amqp://user:se#cret@h/v", "amqp://***@h/v"),
        ("redis://h/0?password=secret", "redis://h/0?***"),
        ("redis://h/0?password=sec@ret", "***"),
        ("redis://:secret@[h", "redis://***@[h"),
        ("user:secret@h:6379", "***"),
        ("user:secret://h@h", "***"),
    ],
)
def test_what_is_shown_of_a_url(url: str, shown: str) -> None:
    """Enough to recognise the server by, never who we are to it."""
    assert redact(url) == shown


@given(
    st.sampled_from(["redis://", "amqp://", "redis:/", "", "://", "r\N{NO-BREAK SPACE}s://"]),
    st.text(),
    st.text(),
    st.text(),
    st.sampled_from(["h:6379/0", "h", "", "[h", "h:x", "h/0?a=b"]),
)
def test_a_password_is_never_shown(scheme: str, user: str, before: str, after: str, place: str) -> None:
    """However wrong a URL is, the error that shows it hides the password, unquoted special characters and all."""
    url = f"{scheme}{user}:{before}S3CRET{after}@{place}"
    assert "S3CRET" not in redact(url)
    with pytest.raises(OperatorError) as caught:
        load({"INFERQ_REDIS_URL": url, "INFERQ_THREADS": "x"})
    assert "S3CRET" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_urls_with_passwords_and_keys_are_secret() -> None:
    """They are hidden wherever settings are shown."""
    assert {option.field for option in OPTIONS if option.secret} == {
        "redis_url",
        "broker_url",
        "api_keys",
        "webhook_secret",
    }


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""), ("@/etc/inferq/keys", "@/etc/inferq/keys"), (f"a:{_KEY}", "***"), (_KEY, "***"),
        (f"{_KEY}:a", "***"), (f"a:{_KEY},@b", "***"), ("a:S3CRET", "***"),
    ],
)  # fmt: skip  # texts side by side
def test_keys_are_never_shown(text: str, shown: str) -> None:
    """Neither where they are allowed nor in the error that says they are not, wherever in the text they stand."""
    option = BY_FIELD["api_keys"]
    assert option.shown(text) == shown
    assert BY_FIELD["device"].shown("cpu") == "cpu"
    # Where the text is allowed, it is the next setting that is wrong.
    with pytest.raises(
        OperatorError, match=r"^INFERQ_(API_KEYS='[*]{3}'|KEY_RATE='x') is not allowed"
    ) as caught:
        load({"INFERQ_API_KEYS": text, "INFERQ_KEY_RATE": "x"})
    assert "S3CRET" not in str(caught.value)


def test_settings_that_are_printed_hide_the_keys() -> None:
    """A debugger or a careless log line shows none."""
    assert "S3CRET" not in repr(_settings(api_keys=f"a:{_KEY}"))


def test_what_clients_read_is_no_slip_of_the_pen() -> None:
    """The key that the commands send is no setting of a deployment, and is not warned of."""
    assert unknown({"INFERQ_API_KEY": "x"}) == []


def test_the_cache_may_be_left_to_its_usual_place() -> None:
    """An empty folder is none, not the present one."""
    assert load({})[0].cache_path is None
    assert load({"INFERQ_CACHE_DIR": "/models"})[0].cache_path == Path("/models")


def test_the_limits_of_breakers_are_the_settings() -> None:
    """By default those that a breaker has by itself; otherwise each as it is set."""
    settings, _ = load({})
    assert settings.breaker_limits == Limits()
    names = ("BREAKER_FAILURES", "BREAKER_OPEN_MS", "BREAKER_SUCCESSES", "BREAKER_PROBES")
    settings, _ = load({f"INFERQ_{name}": str(20 + at) for at, name in enumerate(names)})
    assert settings.breaker_limits == Limits(failures=20, open_ms=21, successes=22, probes=23)
