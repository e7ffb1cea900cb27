"""The job file: what it means, and each way in which it can be wrong, with its line."""

from pathlib import Path
from textwrap import dedent

import pytest

from warren.errors import JobFileError
from warren.jobfile.reader import JobFile, read_job_file, read_job_files
from warren.jobfile.sources import Source
from warren.scheduler.jobs.spec import AppSpec, JobSpec

NOW_MS = 1_790_000_000_000  # September 2026

FULL = """\
    apps:
      - {name: reports, title: Reports}
      - name: mails
    jobs:
      - name: nightly-report
        app: reports
        author: ops
        schedule: {cron: "0 0 2 * * ?", timezone: Asia/Shanghai}
        handler: report.daily
        param: "a: b"
        route: CONSISTENT_HASH
        block: COVER_EARLY
        misfire: FIRE_ONCE_NOW
        delivery: AT_LEAST_ONCE
        concurrency: 3
        timeout: 30
        retries: 2
        retry_delay: 10
        process: fresh
        children: [small, mails/small]
        alarm: {emails: [ops@example.com, dev@example.com], webhook: "https://example.com/x?a=b"}
        enabled: false
      - {name: small, app: mails, handler: send}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "jobs.yaml"


def read(file: Path, content: str) -> JobFile:
    file.write_text(dedent(content))
    return read_job_file(file, now_ms=NOW_MS)


def problems(file: Path, content: str | bytes) -> list[str]:
    file.write_bytes(content if isinstance(content, bytes) else dedent(content).encode())
    with pytest.raises(JobFileError) as refused:
        read_job_file(file, now_ms=NOW_MS)
    return [line.removeprefix(f"{file}:") for line in refused.value.lines]


def with_field(text: str) -> str:
    """A file whose one job is right but for the field in line 6."""
    return f"""\
    apps: [{{name: reports}}]
    jobs:
      - name: nightly
        app: reports
        handler: report
        {text}
    """


def test_every_field_reaches_the_job(file: Path) -> None:
    found = read(file, FULL)

    assert found.apps == (AppSpec(name="reports", title="Reports"), AppSpec(name="mails"))
    assert found.specs[0] == JobSpec(
        name="nightly-report",
        app="reports",
        author="ops",
        schedule_kind="CRON",
        schedule_value="0 0 2 * * ?",
        timezone="Asia/Shanghai",
        handler="report.daily",
        param="a: b",
        route="CONSISTENT_HASH",
        block="COVER_EARLY",
        misfire="FIRE_ONCE_NOW",
        delivery="AT_LEAST_ONCE",
        concurrency=3,
        timeout=30,
        retries=2,
        retry_delay=10,
        process="fresh",
        children=("small", "mails/small"),
        alarm_emails=("ops@example.com", "dev@example.com"),
        alarm_webhook="https://example.com/x?a=b",
        enabled=False,
    )


def test_what_is_left_out_has_its_default(file: Path) -> None:
    found = read(file, FULL)

    assert found.specs[1] == JobSpec(name="small", app="mails", handler="send")
    assert found.specs[1].enabled is None


@pytest.mark.parametrize(
    ("written", "kind", "conf"),
    [
        ('{cron: "0/5 * * * * ?"}', "CRON", "0/5 * * * * ?"),
        ("{every: 30}", "FIX_RATE", "30"),
        ('{at: "2026-12-01T08:00:00+08:00"}', "AT", "2026-12-01T08:00:00+08:00"),
        ("{at: 2026-12-01T08:00:00+08:00}", "AT", "2026-12-01T08:00:00+08:00"),
        ("none", "NONE", ""),
        ("", "NONE", ""),
    ],
)
def test_each_way_to_say_when(file: Path, written: str, kind: str, conf: str) -> None:
    [spec] = read(file, with_field(f"schedule: {written}")).specs

    assert (spec.schedule_kind, spec.schedule_value) == (kind, conf)


def test_instant_that_has_passed_is_no_mistake(file: Path) -> None:
    [spec] = read(file, with_field('schedule: {at: "2020-01-01T00:00:00Z"}')).specs

    assert spec.schedule_kind == "AT"


def test_anchors_save_repetition(file: Path) -> None:
    found = read(
        file,
        """\
        jobs:
          - {name: one, app: reports, handler: x, schedule: &often {every: 5}}
          - {name: two, app: reports, handler: x, schedule: *often}
        """,
    )

    assert [spec.schedule_value for spec in found.specs] == ["5", "5"]


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("hanlder: x", "unknown field 'hanlder', did you mean 'handler'?"),
        ("xyz: x", "unknown field 'xyz'"),
        ("handler: again", "duplicate field 'handler'"),
        ("<<: {a: b}", "unknown field 'a'"),
        ("[a]: x", "expected a field's name, got: a list"),
        ("author: 7", "expected author to be text, got: '7'; put it in quotes"),
        ("author: [ops]", "expected author to be text, got: a list"),
        ("author:", "expected author to be text, got: nothing"),
        ("param: {a: b}", "expected param to be text, got: a mapping"),
        ("param: 2026-12-01", "expected param to be text, got: '2026-12-01'; put it in quotes"),
        ("param: no", "expected param to be text, got: 'no'; put it in quotes"),
        ("route: SOMEHOW", "unknown route 'SOMEHOW'; expected FIRST, LAST, ROUND, RANDOM"),
        ("route: RUOND", "unknown route 'RUOND', did you mean 'ROUND'?"),
        ("block: SERIAL", "unknown block 'SERIAL'"),
        ("misfire: FIRE_ONCE", "unknown misfire 'FIRE_ONCE', did you mean 'FIRE_ONCE_NOW'?"),
        ("late_limit: 0", "expected late_limit to be an integer from 5 to 86400, got: 0"),
        ("late_limit: 4", "expected late_limit to be an integer from 5 to 86400, got: 4"),
        ("late_limit: 90000", "expected late_limit to be an integer from 5 to 86400, got: 90000"),
        ('late_limit: "x"', "expected late_limit to be whole seconds, or a duration"),
        ("expect: 5m", "expected expect to be a mapping, got: '5m'"),
        ("expect: {finish: x}", "unknown field 'finish', did you mean 'finish_by'?"),
        ("expect: {finish_by: 25:00}", "expected finish_by to be a time of day like '07:00'"),
        ("expect: {start_within: -5m}", "expected start_within to be a duration such as 90s, 5m"),
        ("expect: {longest: [a]}", "expected longest to be text, got: a list"),
        ("expect: {finish_by: 07:00}", "expected a schedule, because finish_by is set"),
        ("delivery: EXACTLY_ONCE", "unknown delivery 'EXACTLY_ONCE', did you mean"),
        ("concurrency: 0", "expected concurrency to be an integer from 1 to 1000, got: 0"),
        ("concurrency: two", "expected concurrency to be a whole number, got: 'two'"),
        ("timeout: -1", "expected timeout to be an integer from 0 to 9999999, got: -1"),
        ("timeout: 1.5", "expected timeout to be whole seconds, or a duration"),
        ("timeout: 1:30", "expected timeout to be whole seconds, or a duration"),
        ("timeout: 0x10", "expected timeout to be whole seconds, or a duration"),
        ("timeout: '30'", "expected timeout to be whole seconds, or a duration"),
        (f"timeout: {'9' * 40}", "expected timeout to be whole seconds, or a duration"),
        ("retries: 1001", "expected retries to be an integer from 0 to 1000, got: 1001"),
        ("retry_delay: -5", "expected retry_delay to be an integer from 0 to 9999999, got: -5"),
        ("retry: 3", "expected retry to be a mapping, got: '3'"),
        ("misfire: {catch-up: {}}", "unknown field 'catch-up', did you mean 'catch_up'?"),
        ("misfire: {catch_up: {with: 1d}}", "unknown field 'with', did you mean 'within'?"),
        ("misfire: {catch_up: {most: 0}}", "expected catch_up_most to be an integer from 1 to"),
        ("misfire: {catch_up: {within: 32d}}", "expected catch_up_within to be an integer from 60"),
        ("catch_up: {most: 5}", "expected misfire CATCH_UP beside catch_up, got: DO_NOTHING"),
        ("retry: {times: 1001}", "expected retries to be an integer from 0 to 1000, got: 1001"),
        ("retry: {time: 3}", "unknown field 'time', did you mean 'times'?"),
        ("retry: {backoff: doubling}", "unknown retry_backoff 'doubling'; expected fixed or expo"),
        ("retry: {most: soon}", "expected most to be whole seconds, or a duration"),
        (
            "retry: {delay: 1m, most: 59}",
            "expected retry_most to be at least the delay of 60 s, got: 59",
        ),
        (
            "retry: {times: 3, backoff: exponential}",
            "expected a delay before retries, because their backoff is exponential",
        ),
        ("retry: {jitter: much}", "expected jitter to be a number from 0 to 1, got: 'much'"),
        (
            "retry: {jitter: 1.5}",
            "expected retry_jitter to be a number from 0 to 1 with up to two decimals, got: 1.5",
        ),
        ("retry: {jitter: 0.125}", "with up to two decimals, got: 0.125"),
        ("process: thread", "unknown process 'thread'; expected job, handler or fresh"),
        ("process: handlers", "unknown process 'handlers', did you mean 'handler'?"),
        ("process: true", "expected process to be text, got: 'true'; put it in quotes"),
        ("fresh_process: 1", "expected fresh_process to be true or false, got: '1'"),
        ("enabled: !!bool maybe", "expected enabled to be true or false, got: 'maybe'"),
        ("enabled: maybe", "expected enabled to be true or false, got: 'maybe'"),
        ("schedule: 5", "unknown schedule '5'; expected one of {cron: …}"),
        ("schedule: [a]", "expected schedule to be a mapping, got: a list"),
        ("schedule: {}", "expected schedule to be one of {cron: …}"),
        ("schedule: {crno: x}", "unknown field 'crno', did you mean 'cron'?"),
        ('schedule: {cron: "* * * * * ?", every: 5}', "got: 'cron' and 'every'"),
        ("schedule: {timezone: UTC}", "expected schedule to be one of"),
        ("schedule: {every: 0}", "got: '0'"),
        ("schedule: {every: soon}", "expected every to be whole seconds, or a duration"),
        ('schedule: {cron: "61 * * * * ?"}', "61"),
        ('schedule: {cron: "* * *"}', "* * *"),
        ('schedule: {cron: "0 0 0 30 2 ?"}', "never fires"),
        ('schedule: {cron: "0 0 0 1 1 ? 2020"}', "never fires again"),
        ('schedule: {at: "tomorrow"}', "ISO 8601"),
        ('schedule: {at: "2026-12-01T08:00:00"}', "with its offset"),
        ('schedule: {cron: "* * * * * ?", timezone: Mars/X}', "Mars/X"),
        (f'schedule: {{cron: "{"0," * 70}0 * * * * ?"}}', "up to 128 characters"),
        ("schedule: {delay: 0}", "got: '0'"),
        ("children: other", "expected children to be a list, got: 'other'"),
        ("children: [a, a]", "duplicate child 'a'"),
        ("script: {language: shell, source: x}", "expected either handler or script, got: both"),
        ("route: SHARDED_BROADCAST", "did you mean 'SHARDING_BROADCAST'?"),
        ("route: STICKY", "unknown route 'STICKY'; expected FIRST, LAST, ROUND"),
        ("alarm: x", "expected alarm to be a mapping, got: 'x'"),
        ("alarm: {email: [a@b]}", "unknown field 'email', did you mean 'emails'?"),
        ("alarm: {emails: a@b}", "expected emails to be a list, got: 'a@b'"),
        ("alarm: {emails: [nobody]}", "expected emails to be addresses, got: 'nobody'"),
        ('alarm: {emails: ["a@b,c@d"]}', "expected emails to be addresses"),
        ("alarm: {webhook: 'ftp://x'}", "expected webhook to be an http(s) URL, got: 'ftp://x'"),
        ("alarm: {webhook: 'http://[x'}", "expected webhook to be an http(s) URL"),
        ("alarm: {webhook: 'http://169.254.169.254/x'}", "not to point to a link-local address"),
        ("alarm: {webhook: 'http://0xa9fea9fe/x'}", "not to point to a link-local address"),
        ("alarm: {webhook: 'http://x', style: slck}", "unknown style 'slck', did you mean 'slack'"),
        ("alarm: {style: slack}", "expected a webhook, because style is set"),
        (f"param: {'é' * 32769}", "expected param to be up to 65536 bytes, got: 65538 bytes"),
        (f"author: {'x' * 65}", "expected author to be a line of up to 64 characters"),
    ],
)
def test_wrong_field_is_one_line_that_names_it(file: Path, field: str, words: str) -> None:
    [line] = problems(file, with_field(field))

    assert line.startswith("6: ")
    assert words in line


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ("{name: x, app: reports}", "missing field 'handler', 'script' or 'flow'"),
        ("{name: x, handler: y}", "missing field 'app'"),
        ("{app: reports, handler: y}", "missing field 'name'"),
        ("{name: '', app: reports, handler: y}", "expected name to be a non-empty text, got: ''"),
        ("{name: x, app: '', handler: y}", "expected app to be a name"),
        ("{name: x, app: Reports, handler: y}", "got: 'Reports'"),
        ("{name: x, app: ab, handler: y}", "got: 'ab'"),
        (
            "{name: x, app: reports, handler: ''}",
            "expected handler to be a non-empty text, got: ''",
        ),
        ("{name: a/b, app: reports, handler: y}", "expected name to contain no '/', got: 'a/b'"),
        ('{name: "a\\nb", app: reports, handler: y}', "expected name to be a line"),
        ("{name: ' x', app: reports, handler: y}", "expected name to be a line"),
        ("{name: 12, app: reports, handler: y}", "expected name to be text, got: '12'"),
        ("just text", "expected a job to be a mapping, got: 'just text'"),
        ("[x]", "expected a job to be a mapping, got: a list"),
    ],
)
def test_wrong_job_is_one_line_that_names_it(file: Path, job: str, words: str) -> None:
    [line] = problems(file, f"apps: [{{name: reports}}]\njobs:\n  - {job}\n")

    assert line.startswith("3: ")
    assert words in line


@pytest.mark.parametrize(
    ("fields", "process"),
    [
        ("fresh_process: true", "fresh"),
        ("fresh_process: false", "job"),
        ("process: fresh, fresh_process: true", "fresh"),
        ("process: '', fresh_process: false", "job"),
        ("process: handler", "handler"),
        ("author: ops", ""),
    ],
)
def test_process_may_have_its_older_name(file: Path, fields: str, process: str) -> None:
    job = f"{{name: x, app: reports, handler: y, {fields}}}"

    [spec] = read(file, f"apps: [{{name: reports}}]\njobs: [{job}]\n").specs

    assert spec.process == process


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            "process: handler, fresh_process: true",
            "process 'handler' contradicts fresh_process true, which means process 'fresh'",
        ),
        (
            "fresh_process: false, process: fresh",
            "process 'fresh' contradicts fresh_process false, which means process 'job'",
        ),
        (
            "process: thread, fresh_process: true",
            "unknown process 'thread'; expected job, handler or fresh",
        ),
    ],
)
def test_process_that_contradicts_its_older_name_is_one_line(
    file: Path, fields: str, words: str
) -> None:
    job = f"{{name: x, app: reports, handler: y, {fields}}}"

    assert problems(file, f"apps: [{{name: reports}}]\njobs: [{job}]\n") == [f"2: {words}"]


def scripted(script: str) -> str:
    """A file whose one job has a script in line 2."""
    return f"apps: [{{name: reports}}]\njobs: [{{name: x, app: reports, script: {script}}}]\n"


def test_script_takes_the_place_of_a_handler(file: Path) -> None:
    content = """\
        apps: [{name: reports}]
        jobs:
          - name: pack
            app: reports
            script:
              language: shell
              remark: "packs: old files"
              source: |-
                echo "$1"
                exit 3
        """

    [spec] = read(file, content).specs

    assert (spec.handler, spec.script_language) == ("", "shell")
    assert (spec.script_source, spec.script_remark) == ('echo "$1"\nexit 3', "packs: old files")


@pytest.mark.parametrize("language", ["shell", "python", "nodejs", "php", "powershell", "groovy"])
def test_script_may_be_in_any_of_six_languages(file: Path, language: str) -> None:
    [spec] = read(file, scripted(f"{{language: {language}, source: x}}")).specs

    assert spec.script_language == language


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("{language: shel, source: x}", "unknown language 'shel', did you mean 'shell'?"),
        ("{language: Python, source: x}", "unknown language 'Python', did you mean 'python'?"),
        ("{language: cobol, source: x}", "unknown language 'cobol'; expected shell, python"),
        ("{language: '', source: x}", "missing field 'language' of script"),
        ("{source: x}", "missing field 'language' of script"),
        ("{language: shell}", "missing field 'source' of script"),
        ("{language: shell, source: ''}", "missing field 'source' of script"),
        ("{language: shell, source: '  '}", "expected source to be a script, got: nothing"),
        ("{language: shell, source: 5}", "expected source to be text, got: '5'"),
        ('{language: shell, source: "a\\0b"}', "expected source to be text, got: a NUL"),
        (f"{{language: shell, source: {'x' * 524_289}}}", "up to 524288 bytes, got: 524289 bytes"),
        ('{language: shell, source: x}, param: "\\0"', "param of a script to contain no NUL"),
        ("{language: shell, source: x}, process: handler", "a script has no handler to share"),
        ("{language: shell, source: x, remarks: y}", "did you mean 'remark'?"),
        (f"{{language: shell, source: x, remark: {'y' * 129}}}", "up to 128 characters"),
        ('{language: shell, source: x, remark: "a\\nb"}', "expected remark to be a line"),
        ("shell", "expected script to be a mapping, got: 'shell'"),
        ("", "expected script to be a mapping, got: nothing"),
    ],
)
def test_wrong_script_is_one_line_that_names_it(file: Path, script: str, words: str) -> None:
    [line] = problems(file, scripted(script))

    assert line.startswith("2: ")
    assert words in line


@pytest.mark.parametrize(
    ("app", "words"),
    [
        ("{title: x}", "missing field 'name'"),
        ("{name: X}", "expected app to be a name"),
        ("{name: reports, title: [x]}", "expected title to be text, got: a list"),
        (f"{{name: reports, title: {'x' * 65}}}", "expected title to be up to 64 characters"),
        ("{name: reports, addresses: a}", "expected addresses to be a list, got: 'a'"),
        ("{name: reports, addresses: [a, b, a]}", "duplicate address 'a'"),
        ("{name: reports, addresses: ['a b']}", "expected addresses to be names like"),
        ("{name: reports, addresses: [[a]]}", "expected each of addresses to be text"),
        ("{name: reports, tilte: x}", "unknown field 'tilte', did you mean 'title'?"),
        ("{name: reports, alarm: {emails: [nobody]}}", "expected emails to be addresses"),
        (
            "{name: reports, alarm: {webhook: 'http://[fe80::1]/'}}",
            "not to point to a link-local address",
        ),
        ("{name: reports, alarm: [x]}", "expected alarm to be a mapping, got: a list"),
        ("reports", "expected an app to be a mapping, got: 'reports'"),
    ],
)
def test_wrong_app_is_one_line_that_names_it(file: Path, app: str, words: str) -> None:
    [line] = problems(file, f"apps:\n  - {app}\n")

    assert line.startswith("2: ")
    assert words in line


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "1: the file is empty"),
        ("# only a remark\n", "1: the file is empty"),
        ("just text", "1: expected the file to be a mapping, got: 'just text'"),
        ("- a\n- b\n", "1: expected the file to be a mapping, got: a list"),
        ("{}", "1: expected 'apps' or 'jobs', got neither"),
        ("jops: []\n", "1: unknown field 'jops', did you mean 'jobs'?"),
        ("jobs: {a: b}\n", "1: expected jobs to be a list, got: a mapping"),
        ("jobs: []\njobs: []\n", "2: duplicate field 'jobs'"),
        ("jobs:\n  - name: [unclosed\n", "3: not YAML: "),
        ("jobs:\n\t- x\n", "2: not YAML: "),
        ("jobs: []\n---\njobs: []\n", "2: not YAML: "),
        ("jobs: *nobody\n", "1: not YAML: "),
        (b"jobs:\n  - name: '\xff\xfe'\n", "2: expected UTF-8, got the byte 0xff"),
        (b"jobs:\n  - name: 'a\x00b'\n", "2: not YAML: "),
        (b"\x7fELF\x02\x01\x01", "1: not YAML: "),
        (
            "jobs: !!python/object/apply:os.system [id]\n",
            "1: expected jobs to be a list, got: a list tagged",
        ),
    ],
)
def test_file_of_another_kind_is_one_line(file: Path, content: str | bytes, words: str) -> None:
    [line] = problems(file, content)

    assert words in line


def test_byte_order_mark_is_no_mistake(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbfapps: [{name: reports}]\n")

    assert read_job_file(file, now_ms=NOW_MS).apps == (AppSpec(name="reports"),)


def test_every_problem_is_said_in_the_order_of_the_file(file: Path) -> None:
    lines = problems(
        file,
        """\
        apps:
          - {name: X}
        jobs:
          - name: one
            app: reports
            hanlder: x
            timeout: -1
          - {name: two, app: reports, handler: y, route: NIX}
        """,
    )

    assert [line.partition(":")[0] for line in lines] == ["2", "4", "6", "7", "8"]


def test_name_may_stand_in_two_apps_but_not_twice_in_one(file: Path) -> None:
    lines = problems(
        file,
        """\
        jobs:
          - {name: x, app: reports, handler: y}
          - {name: x, app: mails, handler: y}
          - {name: x, app: reports, handler: y}
        """,
    )

    assert lines == ["4: duplicate job 'x' in app 'reports', first in line 2"]


def test_double_on_one_line_is_seen(file: Path) -> None:
    job = "{name: x, app: reports, handler: y}"

    lines = problems(file, f"jobs: [{job}, {job}]\n")

    assert lines == ["1: duplicate job 'x' in app 'reports', first in line 1"]


def test_app_may_have_a_list_of_addresses(file: Path) -> None:
    found = read(
        file,
        """
        apps:
          - {name: one, addresses: [b-host, "a:1"]}
          - {name: two, addresses: []}
          - {name: three, addresses: }
        """,
    )

    assert [app.addresses for app in found.apps] == [("b-host", "a:1"), (), ()]


def test_app_named_twice_is_refused(file: Path) -> None:
    assert problems(file, "apps: [{name: reports}, {name: reports}]\n") == [
        "1: duplicate app 'reports'"
    ]


class TestUnknownApps:
    def test_app_of_the_file_or_of_the_database_is_known(self, file: Path) -> None:
        found = read(file, FULL)

        found.check_apps([])
        read(file, "jobs: [{name: x, app: others, handler: y}]").check_apps(["others"])

    def test_app_that_is_nowhere_is_named_with_its_line(self, file: Path) -> None:
        found = read(file, "jobs:\n  - {name: x, app: reprots, handler: y}\n")

        with pytest.raises(JobFileError, match=r":2: unknown app 'reprots', did you mean 'reports"):
            found.check_apps(["reports"])


class TestHostileFiles:
    def test_huge_file_is_refused_unread(self, file: Path) -> None:
        with file.open("wb") as out:
            out.truncate(50_000_000_000)

        with pytest.raises(JobFileError, match=r"a file of up to 5000000 bytes"):
            read_job_file(file, now_ms=NOW_MS)

    @pytest.mark.parametrize("step", ["[", "- ", "{a: ", "? "])
    def test_deep_nesting_ends_no_interpreter(self, file: Path, step: str) -> None:
        [line] = problems(file, step * 400_000)

        assert "20 levels of nesting" in line

    def test_aliases_of_aliases_are_refused_by_what_they_stand_for(self, file: Path) -> None:
        bomb = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
        bomb += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]

        lines = problems(file, "\n".join([*bomb, "jobs: *a11"]))

        assert lines == ["5: expected up to 100000 values behind aliases, got more"]

    def test_many_aliases_are_refused_before_a_tree_is_built(
        self, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delattr("warren.jobfile.yaml_reader.yaml.compose")
        text = "jobs:\n  - &job {name: x}\n" + "  - *job\n" * 200_000

        assert problems(file, text) == ["10003: expected up to 10000 aliases, got more"]

    def test_aliases_of_a_long_list_are_refused_by_its_length(self, file: Path) -> None:
        names = ", ".join(f"child{number}" for number in range(1_000))
        job = "  - {name: x, app: reports, handler: x, children: *all}\n"

        lines = problems(file, f"all: &all [{names}]\njobs:\n{job * 200}")

        assert lines == ["102: expected up to 100000 values behind aliases, got more"]

    def test_a_thousand_jobs_may_share_their_alarm_by_aliases(self, file: Path) -> None:
        alarm = "alarm: &alarm {emails: [ops@example.com]}"
        first = f"  - {{name: x, app: reports, handler: x, {alarm}}}\n"
        others = "".join(
            f"  - {{name: x{number}, app: reports, handler: x, alarm: *alarm}}\n"
            for number in range(1_000)
        )

        found = read(file, f"jobs:\n{first}{others}")

        assert {spec.alarm.emails for spec in found.specs} == {("ops@example.com",)}

    def test_list_that_holds_itself_ends(self, file: Path) -> None:
        assert problems(file, "jobs: &a [*a]\n") == [
            "1: expected a job to be a mapping, got: a list"
        ]

    def test_file_full_of_mistakes_is_not_said_in_full(self, file: Path) -> None:
        lines = problems(file, "jobs:\n" + "  - x\n" * 10_000)

        assert len(lines) == 51
        assert lines[-1].endswith("and 9950 more problems")
        assert problems(file, "jobs:\n" + "  - x\n" * 51)[-1].endswith("and 1 more problem")

    def test_device_is_read_no_further_than_the_cap(self) -> None:
        with pytest.raises(JobFileError, match="a file of up to"):
            read_job_file(Path("/dev/zero"), now_ms=NOW_MS)


@pytest.mark.parametrize("name", ["nowhere.yaml", "."])
def test_file_that_cannot_be_opened_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(JobFileError) as refused:
        read_job_file(Path(name), now_ms=NOW_MS)

    [line] = refused.value.lines
    assert line.startswith(f"cannot read {name}: ")


@pytest.mark.parametrize(
    ("written", "seconds"), [("90", 90), ("90s", 90), ('"5 m"', 300), ("2h", 7_200), ("1d", 86_400)]
)
def test_seconds_may_have_a_unit(file: Path, written: str, seconds: int) -> None:
    fields = f"{{timeout: {written}, retry_delay: {written}, schedule: {{every: {written}}}}}"
    text = with_field(fields[1:-1].replace(", ", "\n        "))

    [spec] = read(file, text).specs

    assert (spec.timeout, spec.retry_delay, spec.schedule_value) == (seconds, seconds, str(seconds))


@pytest.mark.parametrize("written", ["5 weeks", "1.5h", "soon", "-5m", "[1]"])
def test_what_is_no_duration_is_told_what_is(file: Path, written: str) -> None:
    [told] = problems(file, with_field(f"timeout: {written}"))

    assert told.startswith("6: expected timeout to be whole seconds, or a duration such as 90s")


def test_json_as_param_is_told_to_be_quoted(file: Path) -> None:
    [told] = problems(file, with_field("param: {day: 1}"))

    assert told == (
        "6: expected param to be text, got: a mapping; write JSON as text in quotes, such as "
        "'{\"day\": 1}'"
    )


MERGED = """\
x-base: &base {app: reports, handler: report, timeout: 30}
x-late: &late {retries: 2, timeout: 40}
apps: [{name: reports}]
jobs:
  - {<<: *base, name: one}
  - {name: two, timeout: 5, <<: [*base, *late]}
"""


def test_fields_of_other_mappings_are_merged(file: Path) -> None:
    one, two = read(file, MERGED).specs

    assert (one.app, one.handler, one.timeout, one.retries) == ("reports", "report", 30, 0)
    assert (two.app, two.handler, two.timeout, two.retries) == ("reports", "report", 5, 2)


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ("{<<: 5, name: one}", "expected what a job merges to be a mapping, got: '5'"),
        ("&job {<<: *job, name: one}", "a job merges a mapping that merges another one"),
        ("{<<: {hander: x}, <<: *base, name: one}", "unknown field 'hander', did you mean"),
    ],
)
def test_what_cannot_be_merged_is_named(file: Path, job: str, words: str) -> None:
    text = MERGED.partition("  - {<<")[0] + f"  - {job}\n"

    assert any(words in line for line in problems(file, text))


def test_fields_with_x_are_free_only_at_the_top(file: Path) -> None:
    [told] = problems(file, with_field("x-note: here"))

    assert told == "6: unknown field 'x-note'"


@pytest.mark.parametrize(
    ("written", "meant"), [("@daily", "0 0 0 * * ?"), ("15 2 * * *", "0 15 2 * * ?")]
)
def test_expression_of_cron_is_answered_with_what_is_meant(
    file: Path, written: str, meant: str
) -> None:
    [told] = problems(file, with_field(f'schedule: {{cron: "{written}"}}'))

    assert told.endswith(f"got: {written!r}, did you mean {meant!r}?")


@pytest.mark.parametrize(
    ("zone", "hint"), [("Europe/Berln", ", did you mean 'Europe/Berlin'?"), ("Nowhere at all", "")]
)
def test_time_zone_that_is_unknown_is_answered_with_the_nearest(
    file: Path, zone: str, hint: str
) -> None:
    text = with_field(f'schedule: {{cron: "0 0 2 * * ?", timezone: {zone}}}')

    assert problems(file, text) == [f"6: expected timezone to be an IANA name, got: {zone!r}{hint}"]


LONG = "retry: {times: 5, delay: 10, backoff: exponential, most: 10m, jitter: 0.2}"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (LONG, (5, 10, "exponential", 600, 0.2)),
        ("retry: {times: 2}", (2, 0, "fixed", 0, 0.0)),
        ("retries: 2", (2, 0, "fixed", 0, 0.0)),
        ("retries: 2, retry: {delay: 5s, jitter: 1}", (2, 5, "fixed", 0, 1.0)),
        ("retries: 2, retry: {times: 2}", (2, 0, "fixed", 0, 0.0)),
        ("retry:", (0, 0, "fixed", 0, 0.0)),
    ],
)
def test_retries_have_a_short_and_a_long_form(
    file: Path, written: str, meant: tuple[object, ...]
) -> None:
    [spec] = read(file, with_field(written.replace(", retry", "\n        retry"))).specs

    assert (
        *(spec.retries, spec.retry_delay),
        *(spec.retry_backoff, spec.retry_most, spec.retry_jitter),
    ) == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("misfire: CATCH_UP", ("CATCH_UP", 86_400, 100)),
        ("misfire: {catch_up: {}}", ("CATCH_UP", 86_400, 100)),
        ("misfire: {catch_up: {within: 6h, most: 5}}", ("CATCH_UP", 21_600, 5)),
        ("misfire: CATCH_UP, catch_up: {most: 5}", ("CATCH_UP", 86_400, 5)),
        ("misfire: DO_NOTHING", ("DO_NOTHING", 86_400, 100)),
    ],
)
def test_what_is_caught_up_stands_within_the_policy_or_beside_it(
    file: Path, written: str, meant: tuple[object, ...]
) -> None:
    [spec] = read(file, with_field(written.replace(", catch_up", "\n        catch_up"))).specs

    assert (spec.misfire, spec.catch_up_within, spec.catch_up_most) == meant


def test_two_forms_that_contradict_each_other_are_refused(file: Path) -> None:
    text = with_field("retries: 2\n        retry: {times: 3}")

    with pytest.raises(JobFileError) as refused:
        read(file, text)

    [line] = refused.value.lines
    assert line.endswith("'retries' 2 contradicts 'times' 3 of 'retry'")


#: What a schedule says without the quotes that it needs, and with them.
UNQUOTED = [
    ("schedule: {unix_cron: */5 * * * *}", 'schedule: {unix_cron: "*/5 * * * *"}'),
    (
        "schedule: {unix_cron: */5 * * * *, timezone: UTC} # often",
        'schedule: {unix_cron: "*/5 * * * *", timezone: UTC} # often',
    ),
    ("schedule: {cron: */5 * * * *}", 'schedule: {cron: "0 0-55/5 * * * ?"}'),
    ("schedule: {cron: * * * * * ?}", 'schedule: {cron: "* * * * * ?"}'),
    ("schedule: {unix_cron: @hourly}", 'schedule: {unix_cron: "0 * * * *"}'),
    ("schedule:\n      unix_cron: @daily", 'unix_cron: "0 0 * * *"'),
    ("schedule:\n      unix_cron: *every 2 * * *", 'unix_cron: "*every 2 * * *"'),
    ("schedule: @hourly", 'schedule: {unix_cron: "0 * * * *"}'),
    ("schedule: */5 * * * *", 'schedule: {unix_cron: "*/5 * * * *"}'),
    ("param: @file", 'param: "@file"'),
    ("schedule: {unix_cron: 1,3 2 * * *}", 'unix_cron: "1,3 2 * * *"'),
    ("schedule: {unix_cron: 0 2 * * 1,3,5}", 'unix_cron: "0 2 * * 1,3,5"'),
    ("schedule: {unix_cron: 0 2 * * MON,WED, timezone: UTC}", 'unix_cron: "0 2 * * MON,WED"'),
    ("schedule: {timezone: UTC, cron: 0 0 2 ? * MON,WED}", 'cron: "0 0 2 ? * MON,WED"'),
]


def test_a_text_that_lacks_its_quotes_is_shown_with_them() -> None:
    wrong = []
    for said, quoted in UNQUOTED:
        text = f"apps: [{{name: mails}}]\njobs:\n  - name: a\n    app: mails\n    {said}\n"
        with pytest.raises(JobFileError) as refused:
            read_job_files([Source("x.yaml", text)], now_ms=NOW_MS)
        told = refused.value.lines
        if not any(line.endswith(f"put it in quotes: {quoted}") for line in told):
            wrong.append((said, told))

    assert wrong == []


@pytest.mark.parametrize("said", ['"@hourly"', "'@hourly'"])
def test_a_shortcut_of_crontabs_is_told_its_five_fields(said: str) -> None:
    text = f"jobs:\n  - {{name: a, app: m, handler: h, schedule: {{unix_cron: {said}}}}}\n"

    with pytest.raises(JobFileError, match="did you mean '0 \\* \\* \\* \\*'"):
        read_job_files([Source("x.yaml", text)], now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("field", "told"),
    [
        ("tags: [1, a, true]", ["each of tags to be text, got: '1'", "got: 'true'"]),
        ("limits: [{a: x}, 5]", ["the weight of a to be a whole number", "each of limits to be"]),
        ("expect: {start: 5m, longest: [1]}", ["unknown field 'start'", "longest to be text"]),
        ("retry: {times: x, delay: 99999999}", ["times to be a whole", "retry_delay to be an"]),
        ("retry: {jitter: 7, backof: fixed}", ["unknown field 'backof'", "retry_jitter to be"]),
        (
            'schedule: {cron: 5, window: x, gap: "y"}',
            ["cron to be text", "unknown gap", "window to be two times"],
        ),
        (
            'schedule: {cron: "0 0 25 * * ?", window: x, from: y, until: z}',
            ["from to be a date", "until to be a date", "window to be two", "hour to be 0-23"],
        ),
    ],
)
def test_all_that_is_wrong_in_one_field_is_told_at_once(
    file: Path, field: str, told: list[str]
) -> None:
    found = problems(file, with_field(field))

    assert len(found) == len(told), found
    assert all(any(words in line for line in found) for words in told), found


def test_a_schedule_that_cannot_be_read_is_not_refused_for_its_window_too(file: Path) -> None:
    [told] = problems(file, with_field("schedule: {cron: 5, window: 08:00-20:00}"))

    assert "cron to be text" in told


def test_all_that_is_wrong_with_a_flow_is_told_at_once_with_its_lines(file: Path) -> None:
    found = problems(
        file,
        """\
        apps: [{name: reports}]
        jobs:
          - name: all
            app: reports
            flow:
              a: {jb: load}
              b: {job: load, after: c, join: al}
        """,
    )

    assert [line.partition(": ")[0] for line in found] == ["6", "6", "7", "7"]


def test_all_that_is_wrong_with_a_calendar_is_told_at_once(file: Path) -> None:
    unreadable = problems(
        file, "calendars: [{name: cn, weekend: [1, SAT], days: {2026-13-01: off, x: work}}]\n"
    )
    broken = problems(
        file,
        "calendars: [{name: Cn, weekend: [SUT], days: {2036-12-01: of, 2036-12-02: wrk}}]\n",
    )

    assert len(unreadable) == 3, unreadable
    assert len(broken) == 4, broken
