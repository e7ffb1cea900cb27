"""A job file that was exported says of every job and app exactly what is stored."""

from pathlib import Path
from typing import Any
from unicodedata import category

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warren.errors import JobFileError
from warren.jobfile.export import job_file, scalar, text_field
from warren.jobfile.reader import JobFile, read_job_file
from warren.jobfile.yaml_reader import text, tree_of
from warren.scheduler.alarms.events import AlarmTargets, RunWebhook
from warren.scheduler.expectations import NO_EXPECTATIONS, Expectations
from warren.scheduler.jobs import rules
from warren.scheduler.jobs.spec import (
    BACKOFFS,
    BLOCKS,
    DELIVERIES,
    MISFIRES,
    ROUTES,
    AppSpec,
    JobSpec,
)
from warren.scheduler.schedules.registry import WAITING_KINDS

NOW_MS = 1_790_000_000_000  # September 2026

#: Texts that YAML takes for something else, or changes, unless they are written with care.
EXOTIC = [
    "on",
    "1.0",
    "null",
    "~",
    "y",
    "0x1F",
    "2026-12-01",
    "- a",
    "a: b",
    "#!x",
    "&a",
    "{}",
    "'",
    '"',
    "\\n",
    " leading",
    "trailing  ",
    "\ttab",
    "a\tb",
    "a\r\nb\r\n",
    "a\rb",
    "\n",
    "\n\na",
    "a\n\n\n",
    "a\n  b\n c  \n",
    "  a\nb",
    "\ta\n\tb\n",
    "a\n   \nb",
    "a\n   ",
    "a\n---\n...\nb",
    "größer 例 🐇\n",
    "a\u0085b\nc",
    "a\u2028b\nc",
    "\ufeffa\nb",
    "\u0000\n",
    "a\u200bb",
    "%TAG",
    "@a",
    "key: |\n  - x\n",
]
TEXTS = st.one_of(
    st.sampled_from(EXOTIC),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    st.text(st.sampled_from(" \t\n\r-:#|>'\"ab\u0085\u2028\ufeff\\"), max_size=12),
)


def line_of(text: str) -> str:
    """Return a text without control characters and ends of lines."""
    return "".join(one for one in text if category(one) not in {"Cc", "Zl", "Zp"}).strip()


LINES = TEXTS.map(line_of)
SCRIPTS = st.fixed_dictionaries(
    {
        "script_language": st.sampled_from(rules.LANGUAGES),
        "script_source": TEXTS.filter(lambda one: one.strip() and "\0" not in one),
        "script_remark": LINES,
        "process": st.sampled_from(["", "job", "fresh"]),
    }
)
HANDLERS = st.fixed_dictionaries(
    {
        "handler": LINES.filter(bool),
        "process": st.sampled_from(["", "job", "handler", "fresh"]),
    }
)
SCHEDULES = st.sampled_from(
    [
        {},
        {"schedule_kind": "CRON", "schedule_value": "0 0 2 * * ?"},
        {"schedule_kind": "CRON", "schedule_value": "0/5 * * * * ?", "timezone": "Asia/Shanghai"},
        {"schedule_kind": "FIX_RATE", "schedule_value": "30"},
        {"schedule_kind": "FIX_DELAY", "schedule_value": "60"},
        {"schedule_kind": "AT", "schedule_value": "2026-12-01T08:00:00+08:00"},
    ]
)
EMAILS = st.lists(st.sampled_from(["a@example.com", "b.c@example.com"]), unique=True).map(tuple)
WEBHOOKS = st.sampled_from(["", "https://example.com/hook?a=b&c=%20d#e"])
HOOKS = st.sampled_from(
    [
        {},
        {"webhook_url": "https://example.com/ended"},
        {"webhook_url": "https://example.com/ended?a=b#c", "webhook_when": "success"},
    ]
)
ALARMS = st.builds(AlarmTargets, emails=EMAILS, webhook=WEBHOOKS)
FIELDS = st.fixed_dictionaries(
    {
        "name": LINES.map(lambda one: one.replace("/", "")).map(str.strip).filter(bool),
        "author": LINES,
        "tags": st.sampled_from([(), ("night",), ("b-1", "值班")]),
        "param": TEXTS.filter(lambda one: "\0" not in one),
        "route": st.sampled_from(ROUTES),
        "block": st.sampled_from([block.value for block in BLOCKS]),
        "misfire": st.sampled_from(MISFIRES),
        "delivery": st.sampled_from(DELIVERIES),
        "concurrency": st.integers(1, 1_000),
        "timeout": st.integers(0, 100),
        "retries": st.integers(0, 10),
        "retry_delay": st.integers(1, 10),
        "retry_backoff": st.sampled_from(BACKOFFS),
        "retry_most": st.sampled_from([0, 600]),
        "retry_jitter": st.sampled_from([0.0, 0.07, 0.2, 1.0]),
        "children": st.lists(
            LINES.map(lambda one: one.replace("/", "-")).filter(bool), unique=True, max_size=3
        ).map(tuple),
        "alarm_emails": EMAILS,
        "alarm_webhook": WEBHOOKS,
        "expect": st.sampled_from(
            [NO_EXPECTATIONS, Expectations(longest="3 x usual", success_every="8000h")]
        ),
        "enabled": st.sampled_from([None, True]),
    }
)


@st.composite
def specs(draw: st.DrawFn) -> JobSpec:
    parts: list[dict[str, Any]] = [
        draw(FIELDS),
        draw(SCHEDULES),
        draw(st.one_of(HANDLERS, SCRIPTS)),
        draw(HOOKS),
    ]
    values = {name: value for part in parts for name, value in part.items()}
    if values["misfire"] == "CATCH_UP" and values.get("schedule_kind") in WAITING_KINDS:
        values["misfire"] = "DO_NOTHING"
    return JobSpec(app="reports", **values)


def written(apps: list[AppSpec], jobs: list[JobSpec]) -> str:
    return "".join(f"{line}\n" for line in job_file(apps, jobs))


def read_back(folder: Path, content: str) -> JobFile:
    file = folder / "jobs.yaml"
    file.write_bytes(content.encode())
    return read_job_file(file, now_ms=NOW_MS)


anywhere = settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
)


@anywhere
@given(spec=specs(), title=st.one_of(st.none(), LINES.filter(bool)), alarm=ALARMS)
def test_what_was_exported_reads_back_as_it_was(
    tmp_path: Path, spec: JobSpec, title: str | None, alarm: AlarmTargets
) -> None:
    app = AppSpec(
        name="reports",
        title=title,
        addresses=("exec-1", "10.0.0.1:99"),
        alarm=alarm,
        webhook=RunWebhook(url="https://example.com/", when="failure"),
    )
    sound, left_out = rules.sound_specs([spec], now_ms=NOW_MS, added_routes=())
    assert left_out == []

    found = read_back(tmp_path, written([app], sound))

    assert found.apps == (app,)
    assert found.specs == (spec,)


@pytest.mark.parametrize("indent", [0, 4, 6])
def test_each_exotic_text_survives(tmp_path: Path, indent: int) -> None:
    found = {}
    for exotic in EXOTIC:
        file = tmp_path / "x.yaml"
        lines = ["a:"] * bool(indent) + list(text_field("x", exotic, indent))
        file.write_bytes("".join(f"{line}\n" for line in lines).encode())
        node: Any = tree_of(file.read_text(), "x.yaml")
        while isinstance(node, yaml.MappingNode):
            node = node.value[0][1]
        found[exotic] = text(node, "x")

    assert {exotic: got for exotic, got in found.items() if got != exotic} == {}


def test_sources_are_written_as_blocks_and_names_without_quotes() -> None:
    spec = JobSpec(
        name="pack-old",
        app="reports",
        script_language="shell",
        script_source="set -e\n\n\tgzip *.csv\n",
        script_remark="first",
        param="one: line",
        children=("a", "mails/b"),
        alarm_emails=("ops@example.com",),
        schedule_kind="CRON",
        schedule_value="0 0 2 * * ?",
        timezone="Asia/Shanghai",
        retries=2,
        enabled=True,
    )

    assert written([AppSpec(name="reports", title="All reports")], [spec]) == (
        "apps:\n"
        "  - name: reports\n"
        '    title: "All reports"\n'
        "jobs:\n"
        "  - name: pack-old\n"
        "    app: reports\n"
        '    schedule: {cron: "0 0 2 * * ?", timezone: Asia/Shanghai}\n'
        "    script:\n"
        "      language: shell\n"
        "      remark: first\n"
        "      source: |\n"
        "        set -e\n"
        "\n"
        "        \tgzip *.csv\n"
        '    param: "one: line"\n'
        "    retries: 2\n"
        "    children: [a, mails/b]\n"
        "    alarm: {emails: [ops@example.com]}\n"
        "    enabled: true\n"
    )


def test_what_is_as_by_default_is_left_out(tmp_path: Path) -> None:
    content = written([], [JobSpec(name="a", app="reports", handler="h")])

    assert content == "jobs:\n  - name: a\n    app: reports\n    handler: h\n"


def test_nothing_at_all_is_still_a_job_file(tmp_path: Path) -> None:
    assert read_back(tmp_path, written([], [])).specs == ()


def test_a_job_that_no_file_may_hold_is_left_out_and_named() -> None:
    over = JobSpec(
        name="over",
        app="reports",
        handler="h",
        schedule_kind="CRON",
        schedule_value="0 0 0 1 1 ? 2020",
    )
    sound = JobSpec(name="sound", app="reports", handler="h", children=("over", "mails/other"))

    assert rules.sound_specs([sound, over], now_ms=NOW_MS, added_routes=()) == (
        [sound],
        [
            "job 'reports/over' is left out: cron '0 0 0 1 1 ? 2020' never fires again",
            "job 'reports/sound' still names its child 'reports/over', which is left out",
        ],
    )


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("    handler: h", "   handler: h", ":6: not YAML: "),
        ("    handler: h", "    handler: [h]", ":6: expected handler to be text, got: a list"),
        ("    handler: h", "    handler h", ":7: not YAML: "),
        ("name: b", "name: a", ":7: duplicate job 'a' in app 'reports', first in line 4"),
        ("retries: 2", "retries: two", ":10: expected retries to be a whole number, got: 'two'"),
        ("retries: 2", "retires: 2", ":10: unknown field 'retires', did you mean 'retries'?"),
    ],
)
def test_an_export_edited_into_nonsense_is_refused_in_one_line(
    tmp_path: Path, before: str, after: str, line: str
) -> None:
    jobs = [JobSpec(name=name, app="reports", handler="h") for name in "ab"]
    content = written([AppSpec(name="reports")], jobs) + "    retries: 2\n"
    assert before in content

    with pytest.raises(JobFileError) as refused:
        read_back(tmp_path, content.replace(before, after, 1))

    [said] = refused.value.lines
    assert line in said


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_scalar_is_one_line_of_visible_characters(any_text: str) -> None:
    line = scalar(any_text)

    assert yaml.safe_load(line) == any_text
    assert line.isprintable() or " " in line
    assert len(line.splitlines()) == 1
