"""Settings come from flags, variables and warren.toml, and say all that is wrong at once."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import SESSION_MARK
from warren.errors import CommandError, SettingsError
from warren.settings.setting_rules import check_console_url
from warren.settings.settings import (
    Reader,
    Settings,
    boolean,
    folder,
    needed_secret,
    needed_services,
    number,
    one_of,
    read_settings,
    secret_names,
    some_text,
    text,
    variables,
    whole,
    whole_or_auto,
)
from warren.sql.dialects.database_url import parse_all

SECRET = "x" * 32
AMQP = "amqp://guest:hush@127.0.0.1:5672/"
MYSQL = "mysql+pymysql://warren:hush@127.0.0.1:3306/warren"
#: Two servers of one database.
LISTED = ("mysql+pymysql://u:hush@localhost:1/d", "mysql+pymysql://u:hush@localhost:2/d")


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in variables():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def problems() -> tuple[str, ...]:
    with pytest.raises(SettingsError) as refused:
        read_settings()
    return refused.value.lines


def test_everything_has_a_default_but_places_and_secret() -> None:
    settings = read_settings()

    assert settings.database_url is settings.broker_url is settings.secret is None
    assert (settings.grace_seconds, settings.drain_seconds) == (5, 10)
    assert (settings.cpu_limit, settings.memory_limit) == (90, 90)
    assert settings.log_dir == Path(".warren/logs")
    assert settings.state_dir == Path(".warren/state")
    assert settings.slots >= 4


def test_flag_beats_variable_and_variable_beats_file(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (empty_folder / "warren.toml").write_text("slots = 1\ngrace_seconds = 1\ndrain_seconds = 1\n")
    monkeypatch.setenv("WARREN_SLOTS", "2")
    monkeypatch.setenv("WARREN_GRACE_SECONDS", "2")

    settings = read_settings({"slots": "3", "grace_seconds": None})

    assert (settings.slots, settings.grace_seconds, settings.drain_seconds) == (3, 2, 1)


def test_settings_cannot_be_changed() -> None:
    settings = read_settings()

    with pytest.raises(AttributeError, match="slots"):
        settings.slots = 7  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("SLOTS", "x", "WARREN_SLOTS: expected an integer from 1 to 1000, got: 'x'"),
        ("SLOTS", "0", "WARREN_SLOTS: expected an integer from 1 to 1000, got: '0'"),
        ("SLOTS", "1.5", "WARREN_SLOTS: expected an integer from 1 to 1000, got: '1.5'"),
        (
            "GRACE_SECONDS",
            "-1",
            "WARREN_GRACE_SECONDS: expected seconds from 0 to 3600, or a duration such as",
        ),
        ("GRACE_SECONDS", "nan", "WARREN_GRACE_SECONDS: expected seconds from 0 to 3600, or a"),
        ("DRAIN_SECONDS", "inf", "WARREN_DRAIN_SECONDS: expected seconds from 0 to 86400, or a"),
        ("CPU_LIMIT", "0", "WARREN_CPU_LIMIT: expected per cent"),
        ("MEMORY_LIMIT", "101", "WARREN_MEMORY_LIMIT: expected per cent"),
        ("TIMEZONE", "Mars/Olympus", "WARREN_TIMEZONE: expected an IANA time zone"),
        ("TIMEZONE", "../etc/passwd", "WARREN_TIMEZONE: expected an IANA time zone"),
        ("TIMEZONE", "Asia", "WARREN_TIMEZONE: expected an IANA time zone"),
        ("GLUE", "none", "WARREN_GLUE: expected all, off, or a comma-separated list of shell, py"),
        ("GLUE", "shel", "(unknown language 'shel', did you mean 'shell'?)"),
        ("GLUE", "shell,,php", "(unknown language '')"),
        ("GLUE", "all,shell", "(unknown language 'all'"),
        ("RUN_RETENTION_DAYS", "-1", "WARREN_RUN_RETENTION_DAYS: expected a number of days"),
        ("LOG_RETENTION_DAYS", "0", "WARREN_LOG_RETENTION_DAYS: expected a number of days"),
        ("QUORUM", "perhaps", "WARREN_QUORUM: expected true or false, got: 'perhaps'"),
        ("LOG_LEVEL", "loud", "WARREN_LOG_LEVEL: expected debug, info, warning or error"),
        ("SMTP_URL", "smtp://me:hush@h", "?from= with the address that e-mails come from"),
        ("SMTP_URL", "smtp://me:hush/x@h?from=a@b", "the port is not a number from 1 to 65535"),
        ("ALARM_EMAILS", "ops@example.com, boss", "'boss' is not one"),
        ("ALARM_WEBHOOK", "http://169.254.169.254/?hush", "WARREN_ALARM_WEBHOOK: expected an http"),
        ("WEBHOOK_ALLOW", "10.0.0.1/8", "'10.0.0.1/8' is neither a network like 10.0.0.0/8 nor"),
        ("WEBHOOK_ALLOW", "https://hooks.example.com", "'https://hooks.example.com' is neither"),
        ("WEBHOOK_ALLOW", "0x7f000001", "'0x7f000001' is neither a network"),
        ("WEBHOOK_ALLOW", " , ", "(it lists none)"),
        ("ALARM_LIMIT", "0", "WARREN_ALARM_LIMIT: expected an integer from 1 to 1000, got: '0'"),
        ("ABSENCE_SECONDS", "1", "WARREN_ABSENCE_SECONDS: expected seconds from 10 to 86400"),
        (
            "NO_EXECUTOR_SECONDS",
            "0",
            "WARREN_NO_EXECUTOR_SECONDS: expected seconds from 1 to 86400",
        ),
        ("CONSOLE_URL", "console", "WARREN_CONSOLE_URL: expected an http(s) URL, got: 'console'"),
        ("CONSOLE_URL", "https://x/a%20b", "its path has other characters than letters"),
        ("GRACE_SECONDS", "5x", "seconds from 0 to 3600, or a duration such as 5m, got: '5x'"),
        ("GRACE_SECONDS", "2h", "expected seconds from 0 to 3600"),
        ("TIMEZONE", "Europe/Berln", "did you mean 'Europe/Berlin'?"),
        ("HEARTBEAT_URL", "ftp://x", "WARREN_HEARTBEAT_URL: expected an http(s) URL"),
        ("GATEWAY_PEERS", "http://a:8082,b:8082", "('b:8082' is not one)"),
        ("GATEWAY_PEERS", "http://a:8082#b", "('http://a:8082#b' is not one)"),
        ("GATEWAY_PEERS", "http://a b", "is not one)"),
        ("GATEWAY_PEERS", "http://ann:hush@a:8082", "a user name or a password is in one"),
        ("SECRET_PREVIOUS", "short", "WARREN_SECRET_PREVIOUS: expected at least 32 characters"),
        ("APP_SECRET", "short", "APP_SECRET: expected what `warren secrets app NAME` prints (it"),
        ("BROKER_URL", "amqp://a:hush@h,amqp://b:hush@i", "the URLs name different users"),
        (
            "BROKER_MANAGEMENT_URL",
            "http://a:hush@mq.example:15672",
            "expected https://, as mq.example is not this machine",
        ),
        ("BROKER_MANAGEMENT_URL", "amqp://a:hush@h", "(amqp:// is not http:// or https://)"),
        ("BROKER_MANAGEMENT_URL", "https://a:hush@", "(the host is missing)"),
        ("BROKER_MANAGEMENT_URL", "http://h/?q=hush", "(it has more than a path after the host)"),
        ("BROKER_MANAGEMENT_URL", "http://a:hush@h:x", "the port is not a number from 0 to"),
        ("SECRET", "short", "WARREN_SECRET: expected at least 32 characters (it has 5)"),
        ("DATABASE_URL", "postgres://u:hush@h/d", "WARREN_DATABASE_URL: expected a URL like"),
        ("DATABASE_URL", "mysql+pymysql://u:hush@h/", "the database's name is missing"),
        ("DATABASE_URL", "mysql+pymysql://u:hush@h:x/d", "the port is not a number"),
        (
            "DATABASE_URL",
            "mysql+pymysql://u:hush@h1:3411,h2:3412/d",
            "each server needs a URL of its own",
        ),
        (
            "DATABASE_URL",
            f"{LISTED[0]},mysql+pymysql://u:hush@localhost:2/e",
            "the URLs name different databases: d, e",
        ),
        ("DATABASE_URL", f"{LISTED[0]},sqlite:///warren.db", "only servers can be listed"),
        ("DATABASE_URL", f"{LISTED[0]}, {LISTED[0]}", "localhost:1 occurs twice"),
        (
            "DATABASE_URL",
            "mysql+pymysql://u:hush@localhost/d,mysql+pymysql://u:hush@LOCALHOST:3306/d",
            "localhost:3306 occurs twice",
        ),
        ("DATABASE_URL", f"mysql+pymysql://u:hush/1@h/d,{LISTED[0]}", "URL 1: the port is not a"),
        ("DATABASE_URL", f"mysql+pymysql://u:1/hush@h/d,{LISTED[0]}", "URL 1: a special charact"),
        ("DATABASE_URL", f"mysql+pymysql://u:hush/d,{LISTED[0]}", "URL 1: the port is not a numb"),
        ("DATABASE_URL", "mysql+pymysql://u:1@hush@h/d", "a special character is not quoted"),
        (
            "DATABASE_URL",
            f"{LISTED[0]},mysql+pymysql://u:hush@db.example/d",
            "as db.example is not this machine",
        ),
        ("DATABASE_URL", "sqlite://", "an SQLite database needs a path"),
        ("DATABASE_URL", "sqlite://host/warren.db", "an SQLite database needs a path"),
        ("DATABASE_URL", "sqlite:///:memory:", "an SQLite database needs a path"),
        ("DATABASE_URL", "warren.db", "it has no ://"),
        (
            "DATABASE_URL",
            "mysql+pymysql://u:hush@db.example/d",
            "as db.example is not this machine",
        ),
        ("DATABASE_URL", "mysql+pymysql://u:hush@127.1/d?charset=utf8", "?ssl_ca=FILE at the end"),
        (
            "DATABASE_URL",
            "mysql+pymysql://u@h/d?ssl_ca=f&ssl_disabled=0",
            "argument 'ssl_disabled'",
        ),
        (
            "DATABASE_URL",
            "mysql+pymysql://u:hush@localhost/d?host=h",
            "unknown argument 'host', kn",
        ),
        ("DATABASE_URL", "mysql+pymysql://localhost:1/hush@h/d", "a special character is not quot"),
        ("DATABASE_URL", "mysql+pymysql://u:hus℀h@h/d", "it cannot be read"),
        ("DATABASE_URL", "mysql+pymysql://u:[hush]@h/d", "it cannot be read"),
        ("BROKER_URL", "amqp://u:hush@mq.example", "expected amqps://, as mq.example is not"),
        (
            "BROKER_URL",
            "amqps://u@a,amqp://u@localhost,amqp://u:hush@c",
            "as c is not this machine",
        ),
        ("ALLOW_PLAINTEXT", "all", "(unknown link 'all')"),
        ("BROKER_URL", "http://u:hush@h", "http:// is no broker's scheme"),
        ("BROKER_URL", "amqp://", "the host is missing"),
        ("BROKER_URL", "amqp://h,memory://", "memory:// is no broker's scheme"),
        ("BROKER_URL", "amqp://u:hush@h:99999/", "the port is not a number from 0 to 65535"),
    ],
)
def test_bad_variable_is_named_with_what_was_expected(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str
) -> None:
    monkeypatch.setenv(f"WARREN_{name}", value)

    [line] = problems()

    assert line.startswith(f"WARREN_{name}: ")
    assert words in line
    assert "hush" not in line


@pytest.mark.parametrize(
    "given",
    [
        {"DATABASE_URL": "mysql+pymysql://u:p@127.0.0.2:3306/d"},
        {"DATABASE_URL": "mysql+pymysql://u:p@localhost/d", "BROKER_URL": "amqp://u:p@[::1]/v"},
        {"DATABASE_URL": "mysql+pymysql://u:p@db.example/d?ssl_ca=/etc/ca.pem"},
        {"BROKER_URL": "amqps://u:p@a.example,amqps://u:p@b.example"},
        {"BROKER_URL": "amqp://u:p@a.example", "ALLOW_PLAINTEXT": "broker"},
        {"DATABASE_URL": "mysql+pymysql://u:p@d.example/d", "ALLOW_PLAINTEXT": "broker, database"},
    ],
)
def test_what_stays_here_is_encrypted_or_allowed_is_taken(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(f"WARREN_{name}", value)

    assert read_settings()


def test_one_link_that_is_allowed_does_not_allow_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARREN_DATABASE_URL", "mysql+pymysql://u:hush@db.example/d")
    monkeypatch.setenv("WARREN_BROKER_URL", "amqp://u:hush@mq.example")
    monkeypatch.setenv("WARREN_ALLOW_PLAINTEXT", "broker")

    [line] = problems()

    assert line.startswith("WARREN_DATABASE_URL: expected ?ssl_ca=FILE")
    assert line.endswith("(WARREN_ALLOW_PLAINTEXT=database lets them)")


def test_all_problems_are_said_together(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (empty_folder / "warren.toml").write_text('slotz = 1\ncpu_limit = "much"\n')
    monkeypatch.setenv("WARREN_SLOTS", "many")
    monkeypatch.setenv("WARREN_SECRET", "hush")
    monkeypatch.setenv("WARREN_DATABASE_URI", "sqlite:///x.db")

    lines = problems()

    assert sorted(lines) == [
        "WARREN_SECRET: expected at least 32 characters (it has 4)",
        "WARREN_SLOTS: expected an integer from 1 to 1000, got: 'many'",
        "unknown setting 'WARREN_DATABASE_URI', did you mean 'WARREN_DATABASE_URL'?",
        "warren.toml: cpu_limit: expected per cent, above 0 and up to 100, got: 'much'",
        "warren.toml: unknown setting 'slotz', did you mean 'slots'?",
    ]


@pytest.mark.parametrize(
    ("value", "languages"),
    [
        ("", {"shell", "python", "nodejs", "php", "powershell", "groovy"}),
        ("all", {"shell", "python", "nodejs", "php", "powershell", "groovy"}),
        ("off", set()),
        ("shell", {"shell"}),
        ("php, shell", {"php", "shell"}),
    ],
)
def test_glue_says_which_scripts_may_run(
    monkeypatch: pytest.MonkeyPatch, value: str, languages: set[str]
) -> None:
    monkeypatch.setenv("WARREN_GLUE", value)

    assert read_settings().script_languages == languages


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("broker_url", AMQP),
        ("broker_url", "amqp://quiet@a/, amqps://u:hush@b/v"),
        ("database_url", MYSQL),
        ("database_url", "mysql+pymysql://u:hush@[::1/x"),
    ],
)
def test_password_in_a_flag_is_refused_and_not_repeated(name: str, url: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read_settings({name: url})

    line = refused.value.lines[0]
    flag, variable = f"--{name.replace('_', '-')}", f"WARREN_{name.upper()}"
    assert line.startswith(f"{flag}: expected a URL without a password")
    assert f"set {variable} or {variable}_FILE instead" in line
    assert "hush" not in str(refused.value)


def test_flag_at_fault_is_named_as_it_is_written() -> None:
    with pytest.raises(SettingsError, match=r"^--grace-seconds: expected seconds"):
        read_settings({"grace_seconds": "long"})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"slots = = 1", "line 1"),
        (b"slots = '\xff'", "utf-8"),
        (b"[executor]\nslots = 4", "unknown setting 'executor'"),
    ],
)
def test_file_that_cannot_be_read_is_named(empty_folder: Path, content: bytes, words: str) -> None:
    (empty_folder / "warren.toml").write_bytes(content)

    [line] = problems()

    assert line.startswith("warren.toml: ")
    assert words in line


def test_folder_named_like_the_file_is_one_problem(empty_folder: Path) -> None:
    (empty_folder / "warren.toml").mkdir()

    [line] = problems()

    assert line.startswith("warren.toml: cannot be read")


def test_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARREN_SLOTS", "")
    monkeypatch.setenv("WARREN_SECRET", "")

    settings = read_settings()

    assert settings.secret is None


@pytest.mark.parametrize(
    "name",
    ["WARREN_PORT_8080_TCP", "WARREN_SERVICE_HOST", "WARREN_RUN_ID", SESSION_MARK],
)
def test_variables_of_others_are_left_alone(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "anything")

    assert isinstance(read_settings(), Settings)


def test_secrets_and_passwords_are_in_no_text_of_the_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WARREN_SECRET", "hush" * 8)
    monkeypatch.setenv("WARREN_DATABASE_URL", MYSQL)
    monkeypatch.setenv("WARREN_BROKER_URL", AMQP)

    settings = read_settings()

    assert settings.secret == "hush" * 8
    assert "hush" not in repr(settings) + str(settings)


class TestSecretFiles:
    def test_every_secret_can_stand_in_a_file(
        self, empty_folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (empty_folder / "secret").write_text(f"{SECRET}\n")
        (empty_folder / "url").write_text(f"  {AMQP}\r\n\n")
        monkeypatch.setenv("WARREN_SECRET_FILE", str(empty_folder / "secret"))
        monkeypatch.setenv("WARREN_BROKER_URL_FILE", "url")

        settings = read_settings()

        assert (settings.secret, settings.broker_url) == (SECRET, AMQP)
        assert {"secret", "database_url", "broker_url", "smtp_url"} <= set(secret_names())

    def test_warren_toml_may_name_the_file_and_a_variable_beats_it(
        self, empty_folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (empty_folder / "warren.toml").write_text('secret_file = "secret"\nslots = 7\n')
        (empty_folder / "secret").write_text(SECRET)

        assert (read_settings().secret, read_settings().slots) == (SECRET, 7)
        monkeypatch.setenv("WARREN_SECRET", "y" * 32)
        assert read_settings().secret == "y" * 32

    def test_a_flag_beats_a_file(self, empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (empty_folder / "url").write_text(AMQP)
        monkeypatch.setenv("WARREN_BROKER_URL_FILE", "url")

        assert read_settings({"broker_url": "memory://"}).broker_url == "memory://"

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (None, "WARREN_SECRET_FILE: cannot read 'hidden': No such file or directory"),
            (b"", "WARREN_SECRET_FILE: expected 'hidden' to be a text file with the secret in it"),
            (b" \n", "WARREN_SECRET_FILE: expected 'hidden' to be a text file with the secret in"),
            (b"\xff" * 40, "WARREN_SECRET_FILE: expected 'hidden' to be a text file in UTF-8"),
            (b"hush", "WARREN_SECRET_FILE: expected at least 32 characters (it has 4)"),
            (b"hush" * 20_000, "'hidden' to be a text file of up to 65,536 bytes"),
        ],
    )
    def test_file_that_is_no_secret_is_one_line_without_it(
        self,
        empty_folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        content: bytes | None,
        words: str,
    ) -> None:
        if content is not None:
            (empty_folder / "hidden").write_bytes(content)
        monkeypatch.setenv("WARREN_SECRET_FILE", "hidden")

        [line] = problems()

        assert words in line
        assert "hush" not in line

    def test_value_and_file_at_once_are_refused(
        self, empty_folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (empty_folder / "secret").write_text(SECRET)
        monkeypatch.setenv("WARREN_SECRET", SECRET)
        monkeypatch.setenv("WARREN_SECRET_FILE", "secret")

        assert problems() == (
            "WARREN_SECRET_FILE: WARREN_SECRET is set too; leave one of them out",
        )

    def test_a_file_of_a_setting_that_is_no_secret_is_no_setting(self, empty_folder: Path) -> None:
        (empty_folder / "warren.toml").write_text('slots_file = "x"\n')

        [line] = problems()

        assert line.startswith("warren.toml: unknown setting 'slots_file'")


class TestTimezone:
    def test_it_is_that_of_the_machine(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TZ", "Asia/Shanghai")

        assert read_settings().timezone == "Asia/Shanghai"

    def test_old_spellings_of_utc_are_utc(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TZ", "Etc/UTC")

        assert read_settings().timezone == "UTC"

    def test_it_exists_whatever_the_machine_says(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")

        assert read_settings().zone is not None


class TestDatabase:
    def test_the_one_set_is_used(self) -> None:
        settings = read_settings({"database_url": "sqlite:///x.db"})

        assert settings.needed_database_url() == "sqlite:///x.db"

    def test_that_of_warren_up_is_used_when_it_is_there(self, empty_folder: Path) -> None:
        (empty_folder / ".warren").mkdir()
        (empty_folder / ".warren/warren.db").touch()

        url = read_settings().needed_database_url()

        assert url == f"sqlite:///{empty_folder}/.warren/warren.db"

    def test_without_either_one_line_says_what_to_do(self) -> None:
        with pytest.raises(CommandError, match=r"set WARREN_DATABASE_URL, or run `warren up`"):
            read_settings().needed_database_url()


class TestServices:
    def test_all_that_is_missing_is_named(self) -> None:
        with pytest.raises(SettingsError) as refused:
            needed_services(read_settings(), database=True)

        names = [line.partition(":")[0] for line in refused.value.lines]
        assert names == ["WARREN_DATABASE_URL", "WARREN_BROKER_URL", "WARREN_SECRET"]

    def test_an_executor_needs_no_database(self) -> None:
        settings = Settings(broker_url=AMQP, secret=SECRET)

        needed_services(settings, database=False)

    def test_memory_broker_is_refused(self) -> None:
        settings = Settings(broker_url="memory://", secret=SECRET, database_url=MYSQL)

        with pytest.raises(SettingsError, match="memory:// works only inside `warren up`"):
            needed_services(settings, database=True)

    def test_secret_is_given_only_when_it_is_there(self) -> None:
        with pytest.raises(SettingsError, match=r"^WARREN_SECRET: "):
            needed_secret(read_settings())
        assert needed_secret(read_settings({"secret": SECRET})) == SECRET


@pytest.mark.parametrize(
    ("read", "value", "meant"),
    [
        (whole(0, 9), " 7 ", 7),
        (whole_or_auto(0, 9), "auto", None),
        (whole_or_auto(0, 9), "7", 7),
        (whole(0, 9), 0, 0),
        (whole(-3, 9), "-3", -3),
        (number(0, 9), "0.5", 0.5),
        (number(0, 9), 9, 9.0),
        (number(0, 9, above=True), "1e-3", 0.001),
        (boolean, "Yes", True),
        (boolean, "1", True),
        (boolean, 0, False),
        (boolean, False, False),
        (boolean, "off", False),
        (folder, "logs", Path("logs")),
        (text(), " x", " x"),
        (text(some_text), "x", "x"),
        (one_of(("a", "b")), "b", "b"),
        (text(check_console_url), "HTTPS://Warren.example/x/", "https://Warren.example/x"),
    ],
)
def test_value_is_read_as_it_is_meant(read: Reader, value: Any, meant: Any) -> None:
    found = read(value)

    assert found == meant
    assert type(found) is type(meant)


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (whole(0, 9), "10"),
        (whole(0, 9), "1.0"),
        (whole(0, 9), "٣٣"),
        (whole(0, 9), "1_0"),
        (whole(0, 9), True),
        (whole(0, 9), [1]),
        (number(0, 9), "nan"),
        (number(0, 9), "inf"),
        (number(0, 9), "-0.1"),
        (number(0, 9, above=True), 0),
        (number(0, 9), True),
        (number(0, 9), None),
        (boolean, "perhaps"),
        (boolean, ""),
        (boolean, 2),
        (folder, 7),
        (text(), 7),
        (text(), ["x"]),
        (text(some_text), ""),
        (one_of(("a", "b")), "c"),
        (one_of(("a", "b")), ["a"]),
    ],
)
def test_anything_else_is_refused_without_words(read: Reader, value: Any) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        read(value)


def test_each_bad_url_of_a_list_has_a_line_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    urls = [
        "mysql+pymysql://u:hush@localhost:x/d",
        LISTED[1],
        "mysql+pymysql://u:hush@localhost:3/d?sssl=1",
        "postgres://u:hush@h/d",
    ]
    monkeypatch.setenv("WARREN_DATABASE_URL", ",".join(urls))

    with pytest.raises(SettingsError) as refused:
        read_settings()

    lines = refused.value.lines
    assert [line.rpartition(" (URL ")[2][0] for line in lines] == ["1", "3", "4"]
    assert "URL 1 (localhost:x): the port is not a number" in lines[0]
    assert "URL 3 (localhost:3): unknown argument 'sssl'" in lines[1]
    assert "URL 4 (postgres://…): it begins with 'postgres'" in lines[2]
    assert "hush" not in "".join(lines)


def test_a_list_of_urls_is_kept_as_it_is_even_with_a_comma_in_a_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    urls = f"{LISTED[0].replace('hush', 'hu,sh')}, {LISTED[1]}"
    monkeypatch.setenv("WARREN_DATABASE_URL", urls)

    assert read_settings().database_url == urls
    assert [url.password for url in parse_all(urls)] == ["hu,sh", "hush"]


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("OIDC_ISSUER", "login.example.com", "this is not one"),
        ("OIDC_ISSUER", "http://login.example.com", "http is only for this machine"),
        ("OIDC_ISSUER", "https://u:p@login.example.com", "more than a host and a path"),
        ("OIDC_ISSUER", "https://login.example.com/?a=b", "more than a host and a path"),
        ("OIDC_ISSUER", "https://login.example.com/ realm", "than visible ASCII"),
        ("OIDC_ISSUER", "https://login.example.com/réalm", "than visible ASCII"),
        ("OIDC_ISSUER", "https://login.example.com/" + "x" * 255, "or over 255"),
        ("OIDC_CLIENT_ID", "war ren", "other characters than visible ASCII"),
        ("OIDC_CLIENT_SECRET", "hush hush", "other characters than visible ASCII"),
        ("OIDC_REDIRECT_URL", "https://warren.example.com", "the console serves /sso/callback"),
        ("OIDC_REDIRECT_URL", "http://warren.example.com/sso/callback", "only for this machine"),
        ("OIDC_SCOPES", "profile email", "openid is missing"),
        ("OIDC_SCOPES", 'openid "groups"', "is not one"),
        ("OIDC_GROUPS_CLAIM", " ", "this is not one"),
        ("OIDC_TOKEN_HOURS", "0", "hours, above 0 and up to 720, got: '0'"),
        ("OIDC_CONTACT", "x" * 201, "a line of up to 200 characters"),
        ("LOCAL_SIGN_IN", ",", "it names nobody"),
        ("LOCAL_SIGN_IN", "olga,ad min", "'ad min' is no user's name"),
    ],
)
def test_each_setting_of_single_sign_on_says_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, words: str
) -> None:
    monkeypatch.setenv(f"WARREN_{variable}", value)

    [line] = problems()

    assert line.startswith(f"WARREN_{variable}: expected ")
    assert words in line


def test_the_secret_of_single_sign_on_may_be_in_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "oidc").write_text("hush\n")
    monkeypatch.setenv("WARREN_OIDC_CLIENT_SECRET_FILE", str(tmp_path / "oidc"))

    settings = read_settings()

    assert settings.oidc_client_secret == "hush"
    assert "hush" not in repr(settings)
