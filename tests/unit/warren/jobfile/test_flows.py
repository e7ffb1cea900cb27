"""Flows in a job file: what they mean, what is refused in which line, how they are written."""

from pathlib import Path
from textwrap import dedent

import pytest

from warren.errors import JobFileError
from warren.jobfile.export import job_file
from warren.jobfile.reader import read_job_file
from warren.scheduler.flows.graph import parse
from warren.scheduler.jobs.spec import JobSpec

NOW_MS = 1_790_000_000_000  # September 2026

NIGHTLY = """\
    jobs:
      - name: nightly
        app: warehouse
        schedule: {cron: "0 0 2 * * ?"}
        flow:
          extract: {job: extract}
          load:    {job: ops/load, after: extract, param_template: "{{ run_date }}", retries: 2}
          parts:   {job: part, after: load, each: "{{ load.result.files }}"}
          mend:
            job: mend
            after: {load: failure}
            retry: {delay: 10s, jitter: 0.5}
          report:  {job: report, after: [parts, mend], join: any, if: "{{ load.result.rows > 0 }}"}
"""
FLOW = {
    "extract": {"job": "extract"},
    "load": {
        "job": "ops/load",
        "after": "extract",
        "param_template": "{{ run_date }}",
        "retries": 2,
    },
    "parts": {"job": "part", "after": "load", "each": "{{ load.result.files }}"},
    "mend": {"job": "mend", "after": {"load": "failure"}, "retry": {"delay": 10, "jitter": 0.5}},
    "report": {
        "job": "report",
        "after": ["parts", "mend"],
        "join": "any",
        "if": "{{ load.result.rows > 0 }}",
    },
}


def read(folder: Path, content: str) -> JobSpec:
    file = folder / "jobs.yaml"
    file.write_text(dedent(content))
    [spec] = read_job_file(file, now_ms=NOW_MS).specs
    return spec


def problems(folder: Path, content: str) -> list[str]:
    with pytest.raises(JobFileError) as refused:
        read(folder, content)
    return [line.partition("jobs.yaml")[2] for line in refused.value.lines]


def test_a_flow_is_read_with_all_that_its_nodes_say(tmp_path: Path) -> None:
    spec = read(tmp_path, NIGHTLY)

    assert (spec.flow, spec.handler) == (parse(FLOW), "")


@pytest.mark.parametrize(
    "flow",
    [
        FLOW,
        {"on": {"job": "a b"}, "读取": {"job": "x", "after": {"on": "always"}, "param": ""}},
        {"a": {"job": "x", "param": "1\n${A}"}, "b": {"job": "x", "if": "true", "after": "a"}},
    ],
    ids=["the warehouse", "strange names", "strange texts"],
)
def test_a_flow_that_was_written_reads_back_as_it_was(
    tmp_path: Path, flow: dict[str, object]
) -> None:
    spec = JobSpec(name="nightly", app="warehouse", flow=parse(flow))

    lines = "".join(f"{line}\n" for line in job_file([], [spec]))

    assert read(tmp_path, lines) == spec


@pytest.mark.parametrize(
    ("right", "wrong", "line"),
    [
        ("{job: extract}", "{job: extract, after: report}", ":6: the nodes of the flow form a"),
        ("after: extract", "after: extrakt", ":7: node load runs after 'extrakt', which is no"),
        ("{load: failure}", "{load: fails}", ":11: unknown condition 'fails'"),
        ("delay: 10s", "delay: soon", ":12: expected retry_delay to be an integer"),
        ("load.result.rows > 0", "load.result.rows * 2", ":13: if of node report cannot be read"),
        ("job: mend\n", "jobs: mend\n", ":9: unknown option 'jobs', did you mean 'job'?"),
        ("after: load", "after: load, after: load", ":8: duplicate field 'after'"),
        ("flow:\n", "handler: x\n        flow:\n", ":6: expected either a flow, or a handler"),
        (
            "flow:\n",
            "limits: [db]\n        flow:\n",
            ":5: a flow cannot have limits; its nodes use",
        ),
        ("flow:\n", "scope: cluster\n        flow:\n", ":5: the block policy of a flow applies"),
        ("        flow:", "        flaw:", ":2: missing field 'handler', 'script' or 'flow'"),
    ],
)
def test_what_is_wrong_with_a_flow_is_said_with_its_line(
    tmp_path: Path, right: str, wrong: str, line: str
) -> None:
    assert right in NIGHTLY

    found = problems(tmp_path, NIGHTLY.replace(right, wrong, 1))

    assert found[0].startswith(line), found
