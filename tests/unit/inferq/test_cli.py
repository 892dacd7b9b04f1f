"""What the commands do without any service."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from inferq import runfile
from inferq.cli.app import app, main
from inferq.cli.demo import without_keys
from inferq.cli.deployment import endpoint, find, find_servers
from inferq.cli.plain import printable
from inferq.errors import OperatorError
from inferq.options import OPTIONS
from inferq.settings import load as load_settings
from inferq.settings import to_environ, with_values

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command with these settings, by variable, and no others."""
    for name in list(os.environ):
        if name.startswith("INFERQ_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def invoke(*argv: str, **environ: str) -> Result:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        return CliRunner().invoke(app, argv)

    return invoke


def running(state_dir: Path, **changes: object) -> None:
    """Write down, as a pipeline of this process, what `inferq up` does."""
    state_dir.mkdir(exist_ok=True)
    settings = with_values(
        load_settings({})[0], **{"redis_url": "redis://127.0.0.1:7000/0", "ingress_port": 7001, **changes}
    )
    services = [runfile.RunningService(name="ingress", host="127.0.0.1", port=7001)]
    runfile.write(state_dir, environ=to_environ(settings), services=services)


def test_config_shows_every_setting_with_its_origin(run: Run) -> None:
    """Flag before environment before default, each with unit and help, as text and as JSON."""
    ended = run("config", "--max-wait-ms", "7", "--json", INFERQ_MAX_BATCH_SIZE="8", INFERQ_MAX_WAIT_MS="9")
    assert ended.exit_code == 0
    found = {entry["variable"]: entry for entry in json.loads(ended.stdout)}
    assert list(found) == [option.variable for option in OPTIONS]
    shown = {name: (found[name]["value"], found[name]["origin"]) for name in found}
    assert shown["INFERQ_MAX_WAIT_MS"] == ("7", "flag")
    assert shown["INFERQ_MAX_BATCH_SIZE"] == ("8", "environment")
    assert shown["INFERQ_QUEUE_LIMIT"] == ("10000", "default")
    assert all(entry["unit"] and entry["help"] for entry in found.values())
    text = run("config").stdout
    assert all(option.variable in text for option in OPTIONS)


def test_config_hides_passwords_and_warns_of_strangers(run: Run) -> None:
    """URLs come without user and password; a variable that is no setting is named on standard error."""
    for argv in (["config"], ["config", "--json"]):
        ended = run(*argv, INFERQ_REDIS_URL="redis://:hunter2@127.0.0.1:1", INFERQ_MAX_BATCHSIZE="8")
        assert ended.exit_code == 0
        assert "hunter2" not in ended.output
        assert "redis://***@127.0.0.1:1" in ended.stdout
    assert "INFERQ_MAX_BATCHSIZE is no setting" in run("config").stderr


def test_every_setting_is_a_flag_of_up_and_demo(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The help of both names each flag and its variable."""
    monkeypatch.setenv("COLUMNS", "300")
    for command in ("up", "demo"):
        shown = run(command, "--help").stdout
        for option in OPTIONS:
            assert option.flag in shown
            assert option.variable in shown


def test_an_operators_mistake_is_one_line_and_exit_2(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line names variable, value and what is allowed; there is no traceback."""
    monkeypatch.setattr("sys.argv", ["inferq", "config"])
    monkeypatch.setenv("INFERQ_MAX_BATCH_SIZE", "many")
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "inferq: INFERQ_MAX_BATCH_SIZE='many' is not allowed: it must be a whole number from 1 to 1024\n"
    )


@pytest.mark.parametrize("argv", [["dead", "replay"], ["dead", "drop", "--all", "x"]])
def test_which_letters_is_said_clearly(run: Run, argv: list[str]) -> None:
    """Neither nothing nor both of ids and --all."""
    ended = run(*argv)
    assert isinstance(ended.exception, OperatorError)
    assert str(ended.exception) == "give the ids of jobs, or --all"


def test_a_job_id_is_no_path(run: Run) -> None:
    """What cannot be an id is refused before it becomes part of a URL."""
    ended = run("job", "../stats", "--url", "http://127.0.0.1:1")
    assert ended.exit_code == 1
    assert ended.stderr == "inferq: '../stats' is no job id\n"


def test_commands_find_the_pipeline_that_runs_here(tmp_path: Path) -> None:
    """Servers, ports and API come from what `inferq up` wrote down, as long as its process lives."""
    assert find(tmp_path, {}).running is None
    running(tmp_path)
    found = find(tmp_path, {"INFERQ_MAX_BATCH_SIZE": "8"})
    assert found.running is not None
    assert found.running.pid == os.getpid()
    assert found.settings.redis_url == "redis://127.0.0.1:7000/0"
    assert endpoint(None, tmp_path, environ={}).url == "http://127.0.0.1:7001"
    runfile.remove(tmp_path)
    assert find(tmp_path, {}).running is None
    assert endpoint(None, tmp_path, environ={}).url == "http://127.0.0.1:8080"


def test_what_a_dead_pipeline_wrote_counts_for_nothing(tmp_path: Path) -> None:
    """Neither the file of a process that is gone nor that of another one with its id is believed."""
    running(tmp_path)
    file = tmp_path / "run.json"
    record = json.loads(file.read_bytes())
    file.write_text(json.dumps(record | {"identity": "another boot 1"}))
    assert runfile.read(tmp_path) is None
    file.write_text(json.dumps(record | {"identity": "", "pid": 2**22 + 1}))
    assert runfile.read(tmp_path) is None
    file.write_text("{")
    assert runfile.read(tmp_path) is None


def test_the_environment_comes_before_the_pipeline_that_runs_here(tmp_path: Path) -> None:
    """Who names servers, a port or a URL means those."""
    running(tmp_path)
    named = {"INFERQ_REDIS_URL": "redis://127.0.0.1:9000/0"}
    assert find(tmp_path, named).settings.redis_url == named["INFERQ_REDIS_URL"]
    assert endpoint(None, tmp_path, environ={"INFERQ_INGRESS_PORT": "9001"}).url == "http://127.0.0.1:9001"
    assert endpoint("http://host:1/", tmp_path, environ={}).url == "http://host:1"
    with pytest.raises(OperatorError, match="must be a URL like"):
        endpoint("host:1", tmp_path, environ={})


PLAIN, ADMINS = "plain-key-of-a-caller", "plain-key-of-an-admin"


@pytest.mark.parametrize(
    ("api_keys", "key"),
    [
        ("", None),
        (f"a:{PLAIN}", PLAIN),
        (f"a:{PLAIN},b:{ADMINS}:admin", ADMINS),
        ("a:sha256=" + "0" * 64, None),
    ],
)
def test_commands_use_a_key_of_the_pipeline_that_runs_here(
    tmp_path: Path, api_keys: str, key: str | None
) -> None:
    """Whoever may read the keys may use them; one that is given comes first, and no given URL gets them."""
    running(tmp_path, api_keys=api_keys)
    assert endpoint(None, tmp_path, environ={}).key == key
    given = {"INFERQ_API_KEY": "given-key"}
    assert endpoint(None, tmp_path, environ=given).key == "given-key"
    assert endpoint("http://host:1", tmp_path, environ={}).key is None
    assert endpoint("http://host:1", tmp_path, environ=given).key == "given-key"
    assert PLAIN not in repr(endpoint(None, tmp_path, environ={}))


def test_commands_read_the_file_of_the_keys_where_they_may(tmp_path: Path) -> None:
    """The file may be another user's: then a key has to be given."""
    file = tmp_path / "keys"
    running(tmp_path, api_keys=f"@{file}")
    assert endpoint(None, tmp_path, environ={}).key is None
    file.write_bytes(b"\xff")
    assert endpoint(None, tmp_path, environ={}).key is None
    file.write_text(f"# ours\n\na:{PLAIN}\n")
    assert endpoint(None, tmp_path, environ={}).key == PLAIN


def test_a_key_in_a_file_comes_before_the_environment(tmp_path: Path) -> None:
    """What stands around it does not count; what is no key is refused without being shown."""
    file = tmp_path / "key"
    file.write_text(f"\n{PLAIN}\n")
    environ = {"INFERQ_API_KEY": "given-key"}
    assert endpoint(None, tmp_path, file, environ).key == PLAIN
    for content in ("", "S3CRET S3CRET", "S3CRET\nS3CRET", "S3CRETä", "S" * 256):
        file.write_text(content)
        with pytest.raises(OperatorError, match=f"--key-file {file} holds no API key") as caught:
            endpoint(None, tmp_path, file, environ)
        assert "S3CRET" not in str(caught.value)
    with pytest.raises(OperatorError, match=r"cannot be read \(No such file"):
        endpoint(None, tmp_path, tmp_path / "none", environ)
    with pytest.raises(OperatorError, match=r"^INFERQ_API_KEY holds no API key"):
        endpoint(None, tmp_path, environ={"INFERQ_API_KEY": "a b"})


def test_the_demo_has_no_keys_and_listens_here(tmp_path: Path) -> None:
    """Keys that let the service listen beyond loopback are dropped, and that with them."""
    keys = {"INFERQ_API_KEYS": f"a:{PLAIN}"}

    def demo(environ: dict[str, str]) -> tuple[str, str]:
        settings = without_keys(load_settings(environ)[0])
        return settings.api_keys, settings.host

    assert demo(keys | {"INFERQ_HOST": "0.0.0.0"}) == ("", "127.0.0.1")
    assert demo(keys | {"INFERQ_HOST": "0.0.0.0", "INFERQ_ALLOW_OPEN": "1"}) == ("", "0.0.0.0")
    assert demo({"INFERQ_HOST": "::1"}) == ("", "::1")


def test_an_api_on_every_address_is_reached_by_loopback(tmp_path: Path) -> None:
    """0.0.0.0 is where to listen, not where to connect."""
    running(tmp_path, host="0.0.0.0", allow_open=True)
    assert endpoint(None, tmp_path, environ={}).url == "http://127.0.0.1:7001"


def test_without_servers_the_cure_is_said(run: Run, tmp_path: Path) -> None:
    """Neither an environment nor a pipeline: one line with what to do."""
    with pytest.raises(
        OperatorError, match=r"no `inferq up` runs with the state folder .+ INFERQ_REDIS_URL is not set"
    ):
        find_servers(tmp_path)


def test_texts_are_shown_on_one_line_without_control_characters() -> None:
    """What a caller sent can neither move the cursor nor colour the terminal."""
    assert printable("a\x1b[31mb\r\nc\u202e") == "a [31mb  c"
    assert printable("abcdef", 4) == "abc…"
    assert printable("abcd", 4) == "abcd"
