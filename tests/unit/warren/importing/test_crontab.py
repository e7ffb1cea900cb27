"""A crontab becomes a job file whose jobs are due when cron would run its lines."""

import os
import pwd
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from warren.cli import root
from warren.errors import CommandError, JobFileError
from warren.importing.crontab import print_crontab, read_crontab
from warren.importing.foreign import ForeignJobs
from warren.jobfile.reader import read_job_file
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.problems import Problem
from warren.scheduler.schedules.options import ScheduleOptions

NOW_MS = 1_772_301_600_000


#: The environment that cron gives every command.
OF_CRON = 'export LOGNAME="$(id -un)" USER="$(id -un)"\nexport SHELL=/bin/sh\n'


def read(text: str, *, timezone: str = "") -> ForeignJobs:
    return read_crontab(f"{text}\n", app="nightly", timezone=timezone, now_ms=NOW_MS)


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
    assert first.script_source == f"{OF_CRON}cd ~\nfirst\n"
    assert second.timezone == "Asia/Shanghai"
    assert second.alarm_emails == ("ops@example.com", "dev@example.com")
    assert "export PATH=/opt/bin:/bin\n" in second.script_source
    assert "export MAILTO='ops@example.com, dev@example.com'\n" in second.script_source
    assert "export CRON_TZ=Asia/Shanghai\n" in second.script_source
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
        ("CRON_TZ=Mars/Base", "expected timezone to be an IANA name"),
        ("CRON_TZ=Europe/Berln", "did you mean 'Europe/Berlin'?"),
    ],
)
def test_line_that_cannot_be_a_job_is_named(line: str, words: str) -> None:
    crontab = read(f"0 1 * * * fine\n{line}")

    assert [one.name for one in crontab.specs] == ["fine"]
    [told] = crontab.remarks
    assert told.startswith("line 2 is left out: ")
    assert words in told


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("MAILTO=root", "alarms go to e-mail addresses, not to users of the machine: root"),
        ("SHELL=/usr/bin/python3", "the commands of later lines run in bash here"),
    ],
)
def test_setting_that_means_something_else_here_is_told_and_kept(line: str, words: str) -> None:
    crontab = read(f"{line}\n0 1 * * * x")

    assert crontab.remarks == [f"line 1: {words}"]
    assert f"export {line}\n" in crontab.specs[0].script_source


@pytest.mark.parametrize("shell", ["/bin/sh", "/usr/bin/bash", "dash"])
def test_shell_whose_commands_bash_runs_needs_no_remark(shell: str) -> None:
    assert f"export SHELL={shell}\n" in only(f"SHELL={shell}\n0 1 * * * x").script_source


@pytest.mark.parametrize("name", ["LOGNAME", "USER"])
def test_who_runs_a_command_is_no_setting(name: str) -> None:
    crontab = read(f"{name}=somebody\n0 1 * * * echo ${name}")

    [spec] = crontab.specs
    done = subprocess.run(
        ["sh", "-c", spec.script_source], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == pwd.getpwuid(os.getuid()).pw_name
    [told] = crontab.remarks
    assert told.startswith(f"line 1 is left out: cron sets {name} itself, to the user who runs ")


def test_a_random_delay_is_the_jitter_of_the_lines_below_it() -> None:
    crontab = read("RANDOM_DELAY=45\n0 3 * * * x\n*/5 * * * * y\nRANDOM_DELAY=0\n0 4 * * * z")

    jitters = [spec.schedule_options.jitter for spec in crontab.specs]
    assert jitters == [
        ScheduleOptions.of({"jitter": "45m"}).jitter,
        *[ScheduleOptions().jitter] * 2,
    ]
    assert crontab.remarks == [
        "line 3: RANDOM_DELAY of 45m is no less than the time between two runs: it has no jitter"
    ]


def test_a_dash_before_a_line_keeps_cron_from_logging_only() -> None:
    crontab = read("-*/15 * * * * x\n-@hourly y")

    assert [spec.schedule_value for spec in crontab.specs] == ["*/15 * * * *", "0 * * * *"]
    assert crontab.remarks == []


def test_a_last_line_without_a_line_feed_is_one_that_cron_leaves_out() -> None:
    text = "0 1 * * * x\n0 2 * * * y"

    crontab = read_crontab(text, app="nightly", timezone="", now_ms=NOW_MS)

    assert [spec.name for spec in crontab.specs] == ["x", "y"]
    assert crontab.remarks == ["line 2 has no line feed at its end: cron leaves such a line out"]
    assert read(f"{text}\n# the end").remarks == []


#: Lines that were not written for cron, and what is said of them.
FOREIGN = [
    (
        "0 0 2 * * * /app/x",
        "6 fields? cron has five: 0 2 * * * if the first is seconds, 0 0 2 * * if the last is a",
    ),
    ("*/10 * * * * * /app/x", "6 fields? cron has five: * * * * * if the first is seconds, "),
    ("0 30 2 * * 1-5 /app/x", "6 fields? cron has five: 30 2 * * 1-5 if the first is seconds"),
    ("0 30 2 * * MON-FRI /app/x", "6 fields? cron has five: 30 2 * * MON-FRI if"),
    ("0 0 2 * * * * /app/x", "7 fields? cron has five: 0 2 * * * if the first is seconds"),
    ("0 2 1 1 * 2026 /app/x", "a year? cron has none: write five fields, and give the job from"),
    ("0 15 10 ? * MON-FRI /app/x", 'Quartz? write a job with cron: "0 15 10 ? * MON-FRI"'),
    ("0 0 12 * * ? 2026 /app/x", 'Quartz? write a job with cron: "0 0 12 * * ? 2026"'),
    ("0 2 * * * */app/x", "cron refuses a command that begins with *"),
    ("0 3 L * * x", "expected day of month to be 1-31, got: 'L'"),
    ("1 5 cron.daily run-parts /etc/cron.daily", "anacron? write five fields, such as 5 3 * * *"),
    ("@monthly 45 cron.monthly run-parts /etc", "anacron? write five fields, such as 5 3 1 * *"),
    ("0 1 * * * -n /app/x", "its command begins with -n, a flag of the crons of OpenBSD"),
    ("0 1 * * * -qs /app/x", "its command begins with -qs, a flag of the crons of OpenBSD"),
    ("5/15 * * * * x", "cron refuses 5/15: write 5-59/15"),
    ("0 2/3,5 * * * x", "cron refuses 2/3,5: write 2-23/3"),
    ("H/15 * * * * x", "Jenkins? cron has no H/15: write a number"),
    ("0~30 * * * * x", "a random time? Write one of 0~30, or give the job a jitter"),
    ("@every 5m x", "cron has no @every: write */5 * * * *"),
    ("@every 2h x", "cron has no @every: write 0 */2 * * *"),
    ("@every 7h x", "cron has no @every: write a job with every: 7h"),
    ("@every 90s x", "cron has no @every: write a job with every: 90s"),
    ("@every 0m x", "cron has no @every: write a job with every: 0m"),
    ("@every_minute x", "cron has no @every_minute: write * * * * *"),
    ("@600 x", "cron has no @600: write five fields"),
    ("@Daily x", "cron refuses @Daily: write @daily"),
]


def test_a_line_that_was_not_written_for_cron_is_named_with_what_to_write() -> None:
    wrong = []
    for line, words in FOREIGN:
        crontab = read(f"0 1 * * * fine\n{line}")
        if [one.name for one in crontab.specs] != ["fine"] or not crontab.remarks[0].startswith(
            f"line 2 is left out: {words}"
        ):
            wrong.append((line, crontab.remarks))

    assert wrong == []


def test_commands_that_look_like_fields_are_commands() -> None:
    commands = ["w", "7z a b", "L", "h", "2to3 x", "mon x", "-x", "./x *"]

    crontab = read("\n".join(f"0 1 * * * {command}" for command in commands))

    assert [spec.script_source.splitlines()[-1] for spec in crontab.specs] == commands


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
    assert only("0 1 * * * echo a\x85b\r\n").script_source == f"{OF_CRON}cd ~\necho a\x85b\n"


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


def test_no_name_has_invisible_characters() -> None:
    [spec] = read("0 1 * * * echo a\u200bb\u202ec\n").specs

    assert spec.name == "echo abc"


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

    assert [spec.script_source.splitlines()[3:] for spec in crontab.specs] == [
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
    text = "5 4 * * * root run-parts /etc/cron.daily\n@daily www-data true\n1 2 * * * root\n"

    crontab = read_crontab(text, app="nightly", timezone="", now_ms=NOW_MS, is_system=True)

    assert [spec.script_source for spec in crontab.specs] == [
        f"{OF_CRON}cd ~\nrun-parts /etc/cron.daily\n",
        f"{OF_CRON}cd ~\ntrue\n",
    ]
    assert crontab.remarks == [
        "line 3 is left out: it has no command: 1 2 * * * root",
        "the executor's user runs them, not those of the crontab: root, www-data",
    ]


def test_line_of_a_system_crontab_without_a_user_is_named() -> None:
    text = "5 4 * * * /app/backup.sh all\n"

    [words] = read_crontab(text, app="nightly", timezone="", now_ms=NOW_MS, is_system=True).remarks

    assert words.startswith(
        "line 1 is left out: expected a user before the command, got: '/app/backup.sh'"
    )


def test_system_crontab_is_noticed() -> None:
    [words] = read("5 4 * * * root run-parts /etc/cron.daily").remarks

    assert words.startswith("line 1 is left out: its command begins with the user root: of a ")
    assert read("5 4 * * * root").remarks == []
