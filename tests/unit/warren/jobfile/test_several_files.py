"""Job files that are read together: later ones win field by field, defaults come last."""

from collections.abc import Sequence
from typing import Any

import pytest

from warren.errors import JobFileError
from warren.jobfile.reader import JobFile, read_job_files
from warren.jobfile.sources import GivenValues, Source
from warren.scheduler.jobs.spec import JobSpec

NOW_MS = 1_795_183_200_000
BASE = """\
apps: [{name: reports, title: Reports, route: ROUND}]
defaults: {app: reports, timeout: 10m, retries: 2}
jobs:
  - name: nightly
    handler: report.daily
    schedule: {cron: "0 0 2 * * ?", timezone: Asia/Shanghai}
    alarm: {emails: [ops@example.com], webhook: "https://example.com/hook"}
  - {name: weekly, handler: report.weekly, timeout: 1h}
"""


def read(*texts: str, **given: Sequence[Any]) -> JobFile:
    sources = [Source(f"{number}.yaml", text) for number, text in enumerate(texts, 1)]
    return read_job_files(sources, GivenValues(**given), now_ms=NOW_MS)


def problems(*texts: str, **given: Sequence[Any]) -> tuple[str, ...]:
    with pytest.raises(JobFileError) as refused:
        read(*texts, **given)
    return refused.value.lines


def job(file: JobFile, name: str) -> JobSpec:
    return next(spec for spec in file.specs if spec.name == name)


def test_defaults_hold_for_the_jobs_of_a_file_unless_they_say_otherwise() -> None:
    file = read(BASE)

    assert [(spec.app, spec.timeout, spec.retries) for spec in file.specs] == [
        ("reports", 600, 2),
        ("reports", 3_600, 2),
    ]


def test_what_is_wrong_with_the_defaults_is_told_once() -> None:
    jobs = "jobs: [{name: a, handler: h}, {name: b, handler: h}, {name: c, handler: h}]\n"
    for default in ("app: bad name!", "app: 7", "app: [x]", "app: mails, retries: x"):
        with pytest.raises(JobFileError) as refused:
            read(f"{jobs}defaults: {{{default}}}\n")
        [line] = refused.value.lines
        assert line.startswith("1.yaml:2: expected "), line
        assert len(refused.value.problems) == 1

    with pytest.raises(JobFileError) as unknown:
        read(f"{jobs}defaults: {{app: nobody}}\n").check_apps([])
    assert unknown.value.lines == ("1.yaml:2: unknown app 'nobody'; name it under 'apps'",)


def test_a_later_file_replaces_single_fields_as_a_whole() -> None:
    prod = """\
apps: [{name: reports, title: In production}]
jobs:
  - {name: nightly, app: reports, retries: 5, alarm: {emails: [night@example.com]}, enabled: true}
"""
    file = read(BASE, prod)

    [app], nightly = file.apps, job(file, "nightly")
    assert (app.title, app.route) == ("In production", "ROUND")
    assert (nightly.handler, nightly.timezone) == ("report.daily", "Asia/Shanghai")
    assert (nightly.retries, nightly.timeout, nightly.enabled) == (5, 600, True)
    assert (nightly.alarm_emails, nightly.alarm_webhook) == (("night@example.com",), "")
    assert [spec.name for spec in file.specs] == ["nightly", "weekly"]


def test_defaults_of_a_later_file_do_not_replace_what_a_job_says() -> None:
    file = read(
        BASE,
        "defaults: {timeout: 20m, app: reports}\njobs: [{name: nightly}, {name: weekly}]\n",
    )

    assert [spec.timeout for spec in file.specs] == [1_200, 3_600]


@pytest.mark.parametrize(
    ("fields", "handler", "language"),
    [
        ("script: {language: shell, source: echo}", "", "shell"),
        ("handler: other", "other", ""),
    ],
)
def test_a_script_takes_the_place_of_a_handler(fields: str, handler: str, language: str) -> None:
    file = read(BASE, f"jobs: [{{name: nightly, app: reports, {fields}}}]\n")

    nightly = job(file, "nightly")
    assert (nightly.handler, nightly.script_language) == (handler, language)


def test_the_long_form_of_retries_takes_the_place_of_the_short_one() -> None:
    file = read(BASE, "jobs: [{name: nightly, app: reports, retry: {times: 4, delay: 5}}]\n")

    assert (job(file, "nightly").retries, job(file, "nightly").retry_delay) == (4, 5)


def test_mistakes_are_told_with_the_file_that_has_them() -> None:
    reported = problems(BASE.replace("1h", "-1"), "jobs: [\n")
    again = problems(
        BASE, "jobs:\n  - {name: a, app: reports, handler: h}\n  - {name: a, app: reports}\n"
    )

    assert [line.partition(": ")[0] for line in reported] == ["2.yaml:2"]
    assert again == ("2.yaml:3: duplicate job 'a' in app 'reports', first in line 2",)


def test_every_mistake_of_all_files_is_told_at_once() -> None:
    reported = problems(
        BASE.replace("1h", "-1"),
        "defaults: {name: x, hander: y}\njobs:\n  - {name: nightly, app: reports, route: NONE}\n",
    )

    assert [line.partition(" ")[0] for line in reported] == [
        "1.yaml:8:",
        "2.yaml:1:",
        "2.yaml:1:",
        "2.yaml:3:",
    ]


PLACES = """\
jobs:
  - name: load
    app: reports
    handler: load
    param: '{"bucket": "${BUCKET}"}'
    timeout: "${TIMEOUT}"
    tags: ["${TAG}"]
"""
VALUES = "BUCKET: b-1\nTIMEOUT: 90\nTAG: 7\n"


def test_values_are_texts_or_numbers_as_the_field_needs() -> None:
    file = read(PLACES, files=[Source("values.yaml", VALUES)])

    [spec] = file.specs
    assert (spec.param, spec.timeout, spec.tags) == ('{"bucket": "b-1"}', 90, ("7",))


def test_later_values_win_and_options_win_over_files() -> None:
    files = [Source("a.yaml", VALUES), Source("b.yaml", "TIMEOUT: 5m\nTAG: x\n")]

    [spec] = read(PLACES, files=files, texts=["TAG=a=b"]).specs

    assert (spec.timeout, spec.tags) == (300, ("a=b",))


def test_a_script_and_what_is_escaped_keep_their_dollars() -> None:
    text = """\
x-shell: &shell {language: shell, source: "echo ${HOME}", remark: "${WHO}"}
jobs:
  - {name: one, app: reports, script: *shell, param: "$${HOME} $HOME ${1:-x} $$$${WHO}"}
  - {name: two, app: reports, script: {<<: *shell, language: python}}
"""

    one, two = read(text, texts=["WHO=me"]).specs

    assert (one.script_source, one.script_remark) == ("echo ${HOME}", "me")
    assert (two.script_source, two.script_remark) == ("echo ${HOME}", "me")
    assert one.param == "${HOME} $HOME ${1:-x} $$${WHO}"


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        (
            {},
            [
                "1.yaml:5: no value for ${BUCKET}; give one by --values or --set BUCKET=…",
                "1.yaml:6: no value for ${TIMEOUT}; give one by --values or --set TIMEOUT=…",
                "1.yaml:7: no value for ${TAG}; give one by --values or --set TAG=…",
            ],
        ),
        (
            {"files": [Source("v.yaml", "\nBUKET: x\nTIMEOUT: 1\n")], "texts": ["TAG=1", "OLD=2"]},
            [
                "1.yaml:5: no value for ${BUCKET}, did you mean 'BUKET'?",
                "v.yaml:2: no job file has ${BUKET}, did you mean 'BUCKET'?",
                "--set OLD: no job file has ${OLD}",
            ],
        ),
        (
            {
                "files": [Source("v.yaml", VALUES + "A-B: 1\nC: [1]\nD:\n")],
                "texts": ["=", "x", "E=1", "E=2"],
            },
            [
                "v.yaml:4: expected a name of letters, digits and _, got: 'A-B'",
                "v.yaml:5: expected C to be text or a number, got: a list",
                "v.yaml:6: expected D to be text or a number, got: nothing",
                "--set : expected NAME=VALUE, got: '='",
                "--set x: expected NAME=VALUE, got: 'x'",
                "--set E: expected each name once, got: it twice",
                "--set E: no job file has ${E}",
            ],
        ),
        ({"files": [Source("v.yaml", "[1]")]}, ["v.yaml:1: expected a file of values to be a"]),
        ({"files": [Source("v.yaml", "a: [")]}, ["v.yaml:2: not YAML"]),
    ],
)
def test_values_that_are_missing_unknown_or_none_are_told_with_their_places(
    given: dict[str, Any], lines: list[str]
) -> None:
    reported = problems(PLACES, **given)

    assert len(reported) >= len(lines)
    for line in lines:
        assert any(said.startswith(line) for said in reported), (line, reported)


def test_a_value_that_is_missing_is_told_in_one_line() -> None:
    [reported] = problems(PLACES, texts=["BUCKET=a", "TAG=b"])

    assert reported == "1.yaml:6: no value for ${TIMEOUT}; give one by --values or --set TIMEOUT=…"


def test_a_value_that_does_not_fit_is_told_where_it_is_used() -> None:
    [reported] = problems(PLACES, files=[Source("v.yaml", VALUES.replace("90", "soon"))])

    assert reported.startswith("1.yaml:6: expected timeout to be whole seconds")


def test_values_cannot_fill_the_memory() -> None:
    [reported] = problems(
        "jobs: [" + "{name: x, param: '${A}'}," * 1_000 + "]", texts=[f"A={'x' * 10_000}"]
    )

    assert "expected values of up to 5000000 characters in total" in reported


def test_the_environment_is_no_source_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUCKET", "from the environment")

    assert any("no value for ${BUCKET}" in line for line in problems(PLACES))
