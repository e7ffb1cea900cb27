"""A dump brings what the database would bring; one that is cut brings nothing."""

import gzip
import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.engine import make_url

from tests.integration.warren.importing.conftest import ImportCase
from tests.integration.warren.importing.test_xxl_job import counts
from tests.support.mariadb import DUMP_PROGRAM, PrivateMariaDB
from tests.support.xxl_job_tables import XxlJobDatabase
from warren.importing.xxl_job.source_tables import INFO
from warren.importing.xxl_job.sources import DumpSource
from warren.sql.ids import take_block
from warren.sql.imports import origins

#: Written by mariadb-dump 10.11 of a database that the function `fill` filled.
WRITTEN = Path(__file__).parents[3] / "data" / "xxl_job_dump.sql"

_TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=60)


def fill(xxl: XxlJobDatabase) -> None:
    xxl.group("Shop_Jobs", id=7)
    xxl.job('it\'s; -- a "job"\\', id=42, job_group=7, child_jobid="43", executor_param="a\nb\t;")
    xxl.job(
        "日报 📈",
        id=43,
        job_group=7,
        glue_type="GLUE_SHELL",
        glue_source="echo 'a;\\'\r\n# it''s `x` /* no */\n",
        executor_handler="",
    )
    xxl.add("logglue", job_id=43, glue_type="GLUE_SHELL", glue_source="date", glue_remark="first")
    xxl.add("user", username="olga", password="x", role=0, permission="7")
    xxl.add("log", id=77, job_group=7, job_id=42, trigger_code=200, handle_code=200)
    xxl.add("log_report", trigger_day="2024-03-01 00:00:00", suc_count=3)


def dump(xxl: XxlJobDatabase, folder: Path, *options: str) -> Path:
    """Dump a database with the real program."""
    program = shutil.which(DUMP_PROGRAM)
    assert program is not None, f"{DUMP_PROGRAM} is not installed: make services"
    url = make_url(xxl.url)
    path = folder / "dump.sql"
    account = ["--no-defaults", f"--host={url.host}", f"--port={url.port}", "--user=root"]
    with path.open("wb") as file:
        subprocess.run(
            [program, *account, *options, xxl.name],
            stdout=file,
            env={"MYSQL_PWD": xxl.password},
            check=True,
        )
    return path


def what_is(case: ImportCase, place: str = "") -> list[Mapping[str, Any]]:
    """Return all that is found in a place, without doing anything."""
    found = case.findings("--dry-run", "--overwrite", place=place)
    return sorted(found, key=lambda one: json.dumps(one, sort_keys=True))


def test_written_dump_brings_what_its_database_would_bring(case: ImportCase) -> None:
    fill(case.xxl)

    assert what_is(case, str(WRITTEN)) == what_is(case)

    case.run(place=str(WRITTEN))

    assert set(case.outcomes().values()) == {"unchanged"}
    job = case.rows.database.read(lambda session: origins.jobs(session, [43]))[43]
    assert job.script_source == "echo 'a;\\'\n# it''s `x` /* no */\n"
    assert case.rows.database.write(lambda session: take_block(session, 1)) > 1_000_077


@pytest.mark.parametrize("options", [(), ("--hex-blob", "--complete-insert", "--skip-opt")])
def test_real_dump_brings_what_its_database_would_bring(
    case: ImportCase, options: tuple[str, ...], tmp_path: Path
) -> None:
    fill(case.xxl)
    path = dump(case.xxl, tmp_path, *options)
    packed = tmp_path / "dump.sql.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))

    assert what_is(case, str(path)) == what_is(case)
    assert what_is(case, str(packed)) == what_is(case)


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(_TEXTS, st.none() | _TEXTS), min_size=1, max_size=20))
def test_any_rows_survive_a_real_dump(
    xxl: XxlJobDatabase, rows: list[tuple[str, str | None]], tmp_path: Path
) -> None:
    xxl.execute("DELETE FROM xxl_job_info")
    for name, param in rows:
        xxl.job(name, executor_param=param)

    source = DumpSource(dump(xxl, tmp_path))

    read = source.rows({INFO: ["job_desc", "executor_param"]})[INFO]
    source.close()
    assert [(row["job_desc"], row["executor_param"]) for row in read] == rows


class TestCutDumps:
    def cut(self, folder: Path, left: int, *, packed: bool = False) -> str:
        data = WRITTEN.read_bytes()
        path = folder / "cut.sql"
        path.write_bytes(gzip.compress(data)[:-left] if packed else data[:-left])
        return str(path)

    @pytest.mark.parametrize("left", [40, 400, 2_000, 4_000])
    def test_it_is_named_and_nothing_is_done(
        self, case: ImportCase, left: int, tmp_path: Path
    ) -> None:
        before = counts(case)
        place = self.cut(tmp_path, left)

        said = case.run(place=place)

        assert said == f'error: {place} has no last line "-- Dump completed": the dump is cut'
        assert counts(case) == before

    def test_compressed_one_is_named(self, case: ImportCase, tmp_path: Path) -> None:
        place = self.cut(tmp_path, 200, packed=True)

        assert case.run(place=place).startswith(f"error: {place}: cannot unpack it; is it cut?")

    def test_one_without_comments_is_named_by_the_line(
        self, case: ImportCase, tmp_path: Path
    ) -> None:
        lines = [one for one in WRITTEN.read_text().splitlines() if not one.startswith("--")]
        text = "\n".join(lines)
        path = tmp_path / "cut.sql"
        path.write_text(text[: text.index("olga")])

        said = case.run(place=str(path))

        assert said.startswith(f"error: {path}, line ")
        assert said.endswith("a text has no end; the dump seems to be cut")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda _: "", "is not an XXL-JOB database: table xxl_job_info does not exist"),
        (lambda _: "hello, world", "a statement has no end"),
        (lambda text: text.replace("xxl_job_user", "users"), "is incomplete: cannot read xxl_job"),
        (lambda text: text + text, "makes xxl_job_group twice"),
        (lambda text: text.replace("NAMES utf8mb4", "NAMES gbk"), "expected a dump in UTF-8"),
    ],
)
def test_other_files_are_refused(case: ImportCase, change: Any, words: str, tmp_path: Path) -> None:
    path = tmp_path / "other.sql"
    path.write_text(change(WRITTEN.read_text()))
    before = counts(case)

    [line] = case.run(place=str(path)).splitlines()

    assert line.startswith(f"error: {path}")
    assert words in line
    assert counts(case) == before


def test_file_that_is_not_there_is_named(case: ImportCase) -> None:
    assert case.run(place="/nowhere.sql") == "error: /nowhere.sql: No such file or directory"


def make_written(server: PrivateMariaDB, folder: Path) -> None:
    """Write the dump of `WRITTEN` anew, where mariadb-dump is."""
    xxl = XxlJobDatabase(server)
    fill(xxl)
    WRITTEN.write_bytes(dump(xxl, folder).read_bytes())
    xxl.close()
