"""The figures that a report holds: lines in blocks of code, cells of tables, values of JSON."""

from loadgen.reports.sources import figures_of, values_of

REPORT = """# Figures

a line outside of code: 7 ms

```
make bench ONLY=batching
streams, p99: 13.3 ms (goal at most 20 ms) holds
rabbitmq, p99: 1,234 jobs/s
rabbitmq, memory: 600 MB (goal at most 500 MB) falls short
nothing: none
```

## At 60 jobs/s

| what | p50 | p99 |
|---|---|---|
| slo | **9.61** | 17.3 (16 to 18) |
| 1:0 | 10 | 20 |

## At 150 jobs/s

| what | p50 | p99 |
|---|---|---|
| slo | 15.4 | 25.9 |
| 1:0 | 10 | 40 |
"""


def test_lines_are_known_by_their_names_with_their_goals() -> None:
    """As they are shown; a goal is empty where there is none."""
    found = figures_of(REPORT)
    assert found["streams, p99"] == "13.3 ms"
    assert found["streams, p99 (goal)"] == "at most 20 ms"
    assert found["rabbitmq, p99"] == "1,234 jobs/s"
    assert found["rabbitmq, p99 (goal)"] == ""
    assert found["rabbitmq, memory"] == "600 MB"
    assert not any(key.startswith(("a line", "nothing", "make")) for key in found)


def test_cells_are_known_by_row_and_column() -> None:
    """With their section where several sections differ, and without where they agree."""
    found = figures_of(REPORT)
    assert found["At 60 jobs/s: slo | p99"] == "17.3 (16 to 18)"
    assert found["At 150 jobs/s: slo | p99"] == "25.9"
    assert found["At 60 jobs/s: slo | p50"] == "9.61"
    assert "slo | p99" not in found
    assert found["1:0 | p50"] == "10"


def test_values_of_json_are_known_by_their_paths() -> None:
    """Numbers alone; lists and words are left out."""
    tree = {
        "medians": {"60": {"slo": {"p99": 17.25, "valid": True}}},
        "runs": [1, 2],
        "title": "words",
        "count": 3,
    }
    assert values_of(tree) == {"medians / 60 / slo / p99": "17.25", "count": "3"}
