"""Limits in a job file: what they mean, and each way in which they can be wrong, with its line."""

from pathlib import Path
from textwrap import dedent

import pytest

from warren.errors import JobFileError
from warren.jobfile.export import job_file
from warren.jobfile.reader import JobFile, read_job_file
from warren.scheduler.limits import LimitSpec

NOW_MS = 1_790_000_000_000
WAREHOUSE = LimitSpec(name="warehouse", at_once=3)
PARTNER = LimitSpec(name="partner-api", rate=60, per=60)


def read(folder: Path, text: str) -> JobFile:
    file = folder / "jobs.yaml"
    file.write_text(dedent(text))
    return read_job_file(file, now_ms=NOW_MS)


def test_limits_and_what_jobs_take_of_them_are_read_and_written_alike(tmp_path: Path) -> None:
    file = read(
        tmp_path,
        """\
        limits:
          - {name: warehouse, at_once: 3}
          - {name: partner-api, per: 1m, rate: 60}
        jobs:
          - name: load
            app: reports
            handler: load
            scope: cluster
            limits: [warehouse, {partner-api: 2}]
            priority: high
            max_waiting: 20
        """,
    )
    [job] = file.specs

    again = read(tmp_path, "\n".join(job_file(file.apps, file.specs, file.limits)))

    assert file.limits == (WAREHOUSE, PARTNER)
    assert (job.scope, job.priority, job.max_waiting) == ("cluster", "high", 20)
    assert job.limits == ("warehouse", "partner-api:2")
    assert (again.limits, again.specs) == (file.limits, file.specs)


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("{at_once: 3}", "2: missing field 'name'"),
        ("{name: warehouse}", "2: expected limit 'warehouse' to have at_once, or rate and per"),
        ("{name: x, rate: 3}", "2: expected limit 'x' to have both rate and per"),
        ("{name: x, per: 1m}", "2: expected limit 'x' to have both rate and per"),
        ("{name: x, at_once: 0}", "2: expected at_once to be an integer from 1 to 10000, got: 0"),
        ("{name: x, at_once: many}", "2: expected at_once to be a whole number, got: 'many'"),
        ("{name: x, rate: 1, per: 2d}", "2: expected per to be an integer from 1 to 86400"),
        ("{name: X, at_once: 1}", "2: expected name of a limit to be like"),
        ("{name: x, most: 1}", "2: unknown field 'most'"),
    ],
)
def test_a_limit_that_is_none_is_named_with_its_line(
    tmp_path: Path, limit: str, words: str
) -> None:
    with pytest.raises(JobFileError) as refused:
        read(tmp_path, f"limits:\n  - {limit}\n")

    [line] = refused.value.lines
    assert line.removeprefix(f"{tmp_path / 'jobs.yaml'}:").startswith(words)


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("limits: [Warehouse]", "5: expected limits to be names, NAME or NAME:WEIGHT"),
        ("limits: [{warehouse: 0}]", "5: expected limits to be names, NAME or NAME:WEIGHT"),
        ("limits: [{warehouse: much}]", "5: expected the weight of warehouse to be a whole number"),
        ("limits: [warehouse, warehouse]", "5: duplicate limit 'warehouse'"),
        ("scope: world", "5: unknown scope 'world'; expected executor or cluster"),
        ("priority: urgent", "5: unknown priority 'urgent'; expected high, normal or low"),
        ("max_waiting: -1", "5: expected max_waiting to be an integer from 0 to 100000, got: -1"),
    ],
)
def test_what_a_job_cannot_take_is_named_with_its_line(
    tmp_path: Path, field: str, words: str
) -> None:
    with pytest.raises(JobFileError) as refused:
        read(tmp_path, f"jobs:\n  - name: load\n    app: reports\n    handler: load\n    {field}\n")

    [line] = refused.value.lines
    assert line.removeprefix(f"{tmp_path / 'jobs.yaml'}:").startswith(words)


def test_a_broadcast_has_no_scope_but_its_executors(tmp_path: Path) -> None:
    text = """\
    jobs:
      - {name: each, app: reports, handler: x, route: SHARDING_BROADCAST, scope: cluster}
    """

    with pytest.raises(JobFileError, match="expected scope executor for a job with route"):
        read(tmp_path, text)
