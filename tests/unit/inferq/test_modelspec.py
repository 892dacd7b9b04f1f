"""What INFERQ_MODEL may say."""

import pytest

from inferq.modelspec import ModelKind, ModelSpec, parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("builtin", ModelSpec(text="builtin", kind=ModelKind.BUILTIN, name="builtin")),
        (" builtin ", ModelSpec(text="builtin", kind=ModelKind.BUILTIN, name="builtin")),
        ("./builtin", ModelSpec(text="./builtin", kind=ModelKind.FOLDER, name="builtin", path="./builtin")),
        (
            "/m/random-distilbert/",
            ModelSpec(
                text="/m/random-distilbert/",
                kind=ModelKind.FOLDER,
                name="random-distilbert",
                path="/m/random-distilbert/",
            ),
        ),
        ("/a:b/c", ModelSpec(text="/a:b/c", kind=ModelKind.FOLDER, name="c", path="/a:b/c")),
        ("hub:gpt2", ModelSpec(text="hub:gpt2", kind=ModelKind.HUB, name="gpt2", repo="gpt2")),
        (
            "hub:own.er/model_1@refs/pr/1",
            ModelSpec(
                text="hub:own.er/model_1@refs/pr/1",
                kind=ModelKind.HUB,
                name="model_1",
                repo="own.er/model_1",
                revision="refs/pr/1",
            ),
        ),
        (
            "simulated:8,0.5",
            ModelSpec(
                text="simulated:8,0.5", kind=ModelKind.SIMULATED, name="simulated", tau0_ms=8.0, alpha_ms=0.5
            ),
        ),
        (
            "simulated:0,1,faults",
            ModelSpec(
                text="simulated:0,1,faults",
                kind=ModelKind.SIMULATED,
                name="simulated",
                tau0_ms=0.0,
                alpha_ms=1.0,
                faults=True,
            ),
        ),
        (
            "simulated:0,1,faults=/tmp/a,b=c",
            ModelSpec(
                text="simulated:0,1,faults=/tmp/a,b=c",
                kind=ModelKind.SIMULATED,
                name="simulated",
                alpha_ms=1.0,
                faults=True,
                faults_file="/tmp/a,b=c",
            ),
        ),
    ],
)
def test_what_is_allowed(text: str, expected: ModelSpec) -> None:
    """Each form gives its parts and the name that records show, and parses again from its own text."""
    assert parse(text) == expected
    assert parse(expected.text) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "allowed: builtin"),
        ("a\0b", "allowed: builtin"),
        ("hubs:owner/model", "allowed: builtin"),
        ("/", "names the model"),
        (".", "names the model"),
        ("models/..", "names the model"),
        ("models/my model", "names the model"),
        ("models/" + "x" * 101, "names the model"),
        ("hub:", "owner"),
        ("hub:a/b/c", "owner"),
        ("hub:../secrets", "owner"),
        ("hub:a/b..c", "owner"),
        ("hub:a/b--c", "owner"),
        ("hub:a/b@", "revision"),
        ("hub:a/b@../x", "revision"),
        ("hub:a/b@a..b", "revision"),
        ("simulated:", "tau0_ms"),
        ("simulated:1", "tau0_ms"),
        ("simulated:1,2,fault", "tau0_ms"),
        ("simulated:1,2,faults,3", "tau0_ms"),
        ("simulated:1,2,faults=", "tau0_ms"),
        ("simulated:1,2,fault=/f", "tau0_ms"),
        ("simulated:a,1", "milliseconds"),
        ("simulated:1,-1", "milliseconds"),
        ("simulated:nan,1", "milliseconds"),
        ("simulated:inf,1", "milliseconds"),
    ],
)
def test_what_is_refused(text: str, says: str) -> None:
    """A specification that cannot be meant says what is allowed, in one line."""
    with pytest.raises(ValueError, match=says) as caught:
        parse(text)
    assert "\n" not in str(caught.value)
