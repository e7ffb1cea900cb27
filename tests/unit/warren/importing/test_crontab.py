"""A crontab becomes a job file whose jobs are due when cron would run its lines."""

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from warren.cli import root
from warren.errors import CommandError, JobFileError
from warren.importing.crontab import Crontab, print_crontab, read_crontab
from warren.jobfile.reader import read_job_file
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.problems import Problem

NOW_MS = 1_772_301_600_000


def read(text: str, *, timezone: str = "") -> Crontab:
    return read_crontab(text, app="nightly", timezone=timezone, now_ms=NOW_MS)


def only(text: str) -> JobSpec:
    crontab = read(text)
    assert crontab.remarks == []
    [spec] = crontab.specs
    return spec


@pytest.mark.parametrize(
    ("when", "fields"),
    [
        ("*/2 7-19 */2 1-6 *", "*/2 7-19 */2 1-6 *"),
        ("0 0 1,15 jan-Mar *", "0 0 1,15 jan-Mar *"),
        ("5 4 * * 5-7", "5 4 * * 5-7"),
        ("5  4 *\t* sun", "5 4 * * sun"),
        ("@daily", "0 0 * * *"),
        ("@daily\t", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        # Day of the month or weekday: one job, as cron means it.
        ("0 0 13 * fri", "0 0 13 * fri"),
        ("0 0 */2 * 1", "0 0 */2 * 1"),
    ],
)
def test_a_line_is_one_job_with_its_five_fields(when: str, fields: str) -> None:
    spec = only(f"{when} /bin/true")

    assert (spec.schedule_kind, spec.schedule_value) == ("UNIX_CRON", fields)


def test_settings_hold_for_the_lines_below_them() -> None:
    crontab = read(
        '# nightly\n0 1 * * * first\n\nMAILTO="ops@example.com, dev@example.com"\n'
        "CRON_TZ = Asia/Shanghai\nGREETING=it's fine\nPATH=/opt/bin:/bin\n0 2 * * * second\n"
    )

    first, second = crontab.specs
    assert (first.timezone, first.alarm_emails) == ("", ())
    assert "export" not in first.script_source
    assert second.timezone == "Asia/Shanghai"
    assert second.alarm_emails == ("ops@example.com", "dev@example.com")
    assert "export PATH=/opt/bin:/bin\n" in second.script_source
    assert "export GREETING='it'\"'\"'s fine'\n" in second.script_source


def test_zone_of_the_machine_holds_where_the_crontab_names_none() -> None:
    assert read("0 1 * * * x", timezone="Europe/Berlin").specs[0].timezone == "Europe/Berlin"


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        (r"echo 100\%", "100%\n"),
        ("cat%one%two", "one\ntwo\n"),
        ("tr a-z A-Z | cat%hello", "HELLO\n"),
        ("false || cat%hello", "hello\n"),
        ("cat # 100% echo executed", " echo executed\n"),
        ("cat; read one; echo $one%END_OF_INPUT%echo executed", "END_OF_INPUT\necho executed\n\n"),
        ("echo $WHO", "olga\n"),
        ("echo a;  echo 'b # c'", "a\nb # c\n"),
    ],
)
def test_script_does_what_cron_does(command: str, printed: str, tmp_path: Path) -> None:
    spec = only(f"HOME={tmp_path}\nWHO=olga\n0 1 * * * {command}")

    done = subprocess.run(
        ["sh", "-c", spec.script_source], capture_output=True, text=True, check=True
    )

    assert done.stdout == printed


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("@reboot /bin/true", "@reboot: it runs when the machine boots"),
        ("@often /bin/true", "@often: unknown"),
        ("60 * * * * x", "expected minute to be 0-59, got: '60'"),
        ("* * * * mox x", "expected day of week to be 0-7 or SUN-SAT, got: 'MOX'"),
        ("* 5-2 * * * x", "expected hour to be 0-23, got: '5-2'"),
        ("*/0 * * * * x", "expected step of minute to be 1-59, got: '*/0'"),
        ("* * * * *", "it has no command"),
        ("nonsense", "expected five fields and a command"),
        ("0 0 30 2 * x", "never fires again"),
        ("MAILTO=root", "not an e-mail address: root"),
        ("CRON_TZ=Mars/Base", "expected timezone to be an IANA name"),
        ("SHELL=/usr/bin/python3", "the commands of later lines run in bash here"),
    ],
)
def test_line_that_cannot_be_a_job_is_named(line: str, words: str) -> None:
    crontab = read(f"0 1 * * * fine\n{line}")

    assert [one.name for one in crontab.specs] == ["fine"]
    [told] = crontab.remarks
    assert told.startswith("line 2 is left out: ")
    assert words in told


@pytest.mark.parametrize("shell", ["/bin/sh", "/usr/bin/bash", "dash"])
def test_shell_whose_commands_bash_runs_needs_no_remark(shell: str) -> None:
    assert "SHELL" not in only(f"SHELL={shell}\n0 1 * * * x").script_source


@pytest.mark.parametrize("wrong", ["Mars/Base", "", '""'])
def test_lines_after_an_unknown_zone_are_left_out_until_the_next_zone(wrong: str) -> None:
    zones = (
        f"CRON_TZ=Asia/Tokyo\n0 1 * * * a\nCRON_TZ={wrong}\n0 1 * * * b\nCRON_TZ=UTC\n0 1 * * * c"
    )

    crontab = read(zones)

    assert [(one.name, one.timezone) for one in crontab.specs] == [
        ("a", "Asia/Tokyo"),
        ("c", "UTC"),
    ]
    assert [told.partition(":")[0] for told in crontab.remarks] == [
        "line 3 is left out",
        "line 4 is left out",
    ]


def test_only_a_line_feed_ends_a_line() -> None:
    assert only("0 1 * * * echo a\x85b\r\n").script_source == "cd ~\necho a\x85b\n"


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    (tmp_path / "crontab").write_bytes(b"\xef\xbb\xbf0 1 * * * date\n")

    result = CliRunner().invoke(
        root, ["import", "crontab", str(tmp_path / "crontab"), "--app", "nightly"]
    )

    assert (result.stderr, "name: date" in result.stdout) == ("", True)


def test_what_is_no_utf_8_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "crontab").write_bytes(
        "0 1 * * * date\n0 2 * * * echo caf\u00e9\n".encode("latin-1")
    )

    with pytest.raises(CommandError, match=r"crontab:2: expected UTF-8, got the byte 0xe9$"):
        print_crontab(tmp_path / "crontab", app="nightly", timezone="")


def test_crontab_larger_than_a_job_file_may_be_is_refused() -> None:
    endless = Path("/dev/zero")

    with pytest.raises(JobFileError, match=r"^/dev/zero: expected a file of up to 5000000 bytes"):
        print_crontab(endless, app="nightly", timezone="")


def test_same_commands_get_names_of_their_own() -> None:
    names = [one.name for one in read("0 1 * * * x /y\n" * 3).specs]

    assert names == ["x y", "x y 2", "x y 3"]


def test_app_that_cannot_be_is_refused() -> None:
    with pytest.raises(Problem, match="app"):
        read_crontab("", app="No Such", timezone="", now_ms=NOW_MS)


def test_printed_job_file_is_one(tmp_path: Path) -> None:
    (tmp_path / "crontab").write_text("0 1 * * * cat%one%  two: x\n@reboot y\n*/5 * * * * date\n")

    result = CliRunner().invoke(
        root, ["import", "crontab", str(tmp_path / "crontab"), "--app", "nightly"]
    )

    assert "warning: line 2 is left out: @reboot" in result.stderr
    (tmp_path / "jobs.yaml").write_text(result.stdout)
    specs = list(read_job_file(tmp_path / "jobs.yaml", now_ms=NOW_MS).specs)
    assert specs == read((tmp_path / "crontab").read_text()).specs
    assert "one\n  two: x\n" in specs[0].script_source


def test_command_in_the_background_is_waited_for() -> None:
    crontab = read("5 4 * * * backup &\n5 4 * * * make && a & b\n5 4 * * * (a &); b && c 2>&1")

    assert [spec.script_source.splitlines()[1:] for spec in crontab.specs] == [
        ["backup &", "wait"],
        ["make && a & b"],
        ["(a &); b && c 2>&1"],
    ]
    ends = "it starts something with &, which ends with the run unless the command waits for it"
    assert crontab.remarks == [
        "line 1: its command ends in &, so its job waits for it: a run ends with all its processes",
        f"line 2: {ends}",
        f"line 3: {ends}",
    ]
    assert read("5 4 * * * curl 'http://a/?b=1&c=2' && d 2>&1").remarks == []


def test_system_crontab_has_users() -> None:
    text = "5 4 * * * root run-parts /etc/cron.daily\n@daily www-data true\n1 2 * * * root"

    crontab = read_crontab(text, app="nightly", timezone="", now_ms=NOW_MS, is_system=True)

    assert [spec.script_source for spec in crontab.specs] == [
        "cd ~\nrun-parts /etc/cron.daily\n",
        "cd ~\ntrue\n",
    ]
    assert crontab.remarks == [
        "line 3 is left out: it has no command: 1 2 * * * root",
        "the executor's user runs them, not those of the crontab: root, www-data",
    ]


def test_system_crontab_is_noticed() -> None:
    [words] = read("5 4 * * * root run-parts /etc/cron.daily").remarks

    assert words.startswith("line 1 is left out: its command begins with the user root: of a ")
    assert read("5 4 * * * root").remarks == []
