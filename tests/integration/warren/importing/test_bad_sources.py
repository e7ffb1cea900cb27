"""What is no database of XXL-JOB's, or cannot be read, is named in one line; nothing is written."""

import pytest
from sqlalchemy.engine import make_url

from tests.integration.warren.importing.conftest import ImportCase
from tests.integration.warren.importing.test_xxl_job import counts
from tests.support.mariadb import PrivateMariaDB

#: 2026-03-01 02:00:00 in Shanghai.
TWO_AT_NIGHT_MS = 1_772_301_600_000


@pytest.fixture
def case(case: ImportCase) -> ImportCase:
    case.xxl.group()
    case.xxl.job()
    return case


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            "DROP TABLE xxl_job_user, xxl_job_logglue",
            "is incomplete: cannot read xxl_job_logglue, xxl_job_user",
        ),
        (
            "ALTER TABLE xxl_job_info DROP executor_timeout",
            "table xxl_job_info has no column executor_timeout, which 2.2 has",
        ),
        (
            "ALTER TABLE xxl_job_info DROP schedule_conf",
            "table xxl_job_info has neither job_cron nor schedule_type",
        ),
        (
            "CREATE TABLE warren_cluster (id int)",
            "is a database of Warren, not of XXL-JOB",
        ),
    ],
)
def test_other_tables_are_refused(case: ImportCase, change: str, words: str) -> None:
    before = counts(case)
    case.xxl.execute(change)

    said = case.run()

    [line] = said.splitlines()
    assert line.startswith(f"error: database {case.xxl.name}")
    assert line.endswith(words)
    assert counts(case) == before


def test_database_of_something_else_is_refused(
    case: ImportCase, mysql_server: PrivateMariaDB
) -> None:
    url = make_url(mysql_server.create_database())
    place = f"mysql+pymysql://root@127.0.0.1:{url.port}/{url.database}"

    [line] = case.run("--password-file", str(case.password_file), place=place).splitlines()

    assert line == (
        f"error: database {url.database} is not an XXL-JOB database: "
        "table xxl_job_info does not exist or cannot be read"
    )
    mysql_server.drop_database(str(url.database))


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("jdbc:mysql://db/xxl_job", "expected the database URL to begin with mysql+pymysql://"),
        ("sqlite:///jobs.db", "expected a database of MySQL or MariaDB"),
        ("mysql+pymysql://root:secret@db/xxl_job", "expected a URL without a password"),
        ("mysql+pymysql://root@127.0.0.1:1/xxl_job", "cannot use the database"),
        (
            "mysql+pymysql://root@192.0.2.1/xxl_job",
            "URL: expected ?ssl_ca=FILE at the end, as 192.0.2.1 is not this machine: others could",
        ),
        ("mysql+pymysql://root@localhost/x?host=192.0.2.1", "expected the database URL to be mys"),
    ],
)
def test_place_that_cannot_be_read_is_refused(case: ImportCase, place: str, words: str) -> None:
    [line] = case.run("--password-file", str(case.password_file), place=place).splitlines()

    assert line.startswith(f"error: {words}")
    assert "secret" not in line


def test_columns_of_a_fork_are_named_and_left(case: ImportCase) -> None:
    case.xxl.execute("ALTER TABLE xxl_job_info ADD tenant varchar(20) DEFAULT 'a' FIRST")

    said = case.run()

    assert (
        "left out  xxl_job_info tenant: no version of XXL-JOB has this column" in said.splitlines()
    )
    assert case.job(1).handler == "nightlyHandler"


class TestRights:
    @pytest.fixture
    def reader(self, case: ImportCase, mysql_server: PrivateMariaDB) -> str:
        name = f"reader_{case.xxl.name}"
        mysql_server.execute(f"CREATE USER '{name}'@'%' IDENTIFIED BY '{case.xxl.password}'")
        return name

    def place(self, case: ImportCase, reader: str) -> str:
        return case.xxl.url.replace("root@", f"{reader}@")

    def test_an_account_that_may_only_select_suffices(
        self, case: ImportCase, mysql_server: PrivateMariaDB, reader: str
    ) -> None:
        mysql_server.execute(f"GRANT SELECT ON {case.xxl.name}.* TO '{reader}'@'%'")

        case.run("--password-file", str(case.password_file), place=self.place(case, reader))

        assert case.job(1).name == "nightly"

    def test_missing_right_to_select_is_named(
        self, case: ImportCase, mysql_server: PrivateMariaDB, reader: str
    ) -> None:
        before = counts(case)
        mysql_server.execute(f"GRANT INSERT ON {case.xxl.name}.* TO '{reader}'@'%'")

        [line] = case.run(
            "--password-file", str(case.password_file), place=self.place(case, reader)
        ).splitlines()

        assert line.startswith("error: cannot use the database")
        assert "SELECT command denied" in line
        assert counts(case) == before


class TestZone:
    def test_it_is_mandatory(self, case: ImportCase) -> None:
        assert case.run(zone="").startswith("error: expected timezone to be an IANA name")

    def test_unknown_one_is_refused(self, case: ImportCase) -> None:
        assert case.run(zone="Mars/Base") == (
            "error: expected timezone to be an IANA name, got: 'Mars/Base'"
        )

    def test_one_that_the_next_fire_times_speak_against_is_refused(self, case: ImportCase) -> None:
        before = counts(case)
        case.xxl.job(
            "each-minute",
            schedule_conf="0 * * * * ?",
            trigger_status=1,
            trigger_next_time=TWO_AT_NIGHT_MS,
        )
        job_id = case.xxl.job("at-two", trigger_status=1, trigger_next_time=TWO_AT_NIGHT_MS)

        said = case.run(zone="UTC")

        assert said == (
            "error: expected --timezone to be that of XXL-JOB's server, got: UTC; jobs "
            f"whose next time is another there: 1, such as job {job_id} (0 0 2 * * ?, "
            "2026-02-28T18:00:00.000+00:00); it fits Asia/Shanghai"
        )
        assert counts(case) == before

    def test_next_fire_time_that_no_zone_explains_is_named(self, case: ImportCase) -> None:
        case.xxl.job("odd", trigger_status=1, trigger_next_time=TWO_AT_NIGHT_MS + 17_000)

        said = case.run()

        assert "xxl_job_info 2 trigger_next_time '2026-02-28T18:00:17.000+00:00': " in said
        assert case.job(2).stop_reason is None


class TestOptions:
    def test_passwords_without_a_place_are_refused_before_anything_is_written(
        self, case: ImportCase
    ) -> None:
        before, path = counts(case), case.folder / "none" / "passwords"

        said = case.run("--passwords", str(path))

        assert said == f"error: {path}: expected a file in a writable folder"
        assert counts(case) == before

    @pytest.mark.parametrize("source", ["", "x" * 65])
    def test_source_without_a_name_that_can_be_kept_is_refused(
        self, case: ImportCase, source: str
    ) -> None:
        before = counts(case)

        said = case.run("--source", source)

        assert said.startswith(
            f"error: expected --source to be a name of up to 64 characters, got: {source!r} (see: "
        )
        assert counts(case) == before


def test_place_on_another_machine_is_read_unencrypted_only_if_that_is_allowed(
    case: ImportCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """127.1 is this machine too, which nothing but a look-up can tell."""
    place = case.xxl.url.replace("127.0.0.1", "127.1")
    given = ("--password-file", str(case.password_file), "--dry-run")
    assert case.run(*given, place=place).startswith("error: URL: expected ?ssl_ca=FILE")

    monkeypatch.setenv("WARREN_ALLOW_PLAINTEXT", "database")

    assert not case.run(*given, place=place).startswith("error: ")
