"""Scripts as pages: saving, restoring, comparing, trying; two people at the same time."""

from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from tests.support.console import Clock, Visit, once_of, signed_in
from tests.support.sql_rows import all_runs
from warren.sql.engine import Database
from warren.sql.jobs import script_versions
from warren.sql.models import AuditEntry, Job
from warren.sql.registry import apps, presence

SOURCE = 'echo "<b>one</b>"\n'


@pytest.fixture
def scripter(app: Flask) -> Iterator[Visit]:
    return signed_in(app, "scripter")


def add_script(
    database: Database, app: str = "reports", kind: str = "GLUE_SHELL", name: str = "script"
) -> int:
    def unit(session: Any) -> int:
        job = Job(app_id=apps.find(session, app).id, name=name, param="p")
        session.add(job)
        session.flush()
        script_versions.save(
            session,
            job,
            script_type=kind,
            source=SOURCE,
            remark="first",
            author="maker",
            now_ms=1_700_000_000_000,
        )
        return int(job.id)

    return database.write(unit)


@pytest.fixture
def job_id(database: Database) -> int:
    add_script(database, name="earlier")  # so that ids and numbers of versions differ
    return add_script(database)


def current(database: Database, job_id: int) -> int:
    found = database.read(lambda session: session.get(Job, job_id))
    assert found is not None
    assert found.script_version is not None
    return found.script_version


def source(database: Database, job_id: int) -> str:
    script_version = current(database, job_id)
    return str(
        database.read(
            lambda session: script_versions.version(session, job_id, script_version)
        ).source
    )


def form(database: Database, job_id: int, **fields: Any) -> dict[str, Any]:
    based_on = str(current(database, job_id))
    return {"source": "echo two\n", "remark": "second", "based_on": based_on} | fields


class TestShowing:
    def test_source_is_shown_escaped_with_its_versions(self, admin: Visit, job_id: int) -> None:
        page = admin.get(f"/glue/{job_id}").text

        assert "echo &#34;&lt;b&gt;one&lt;/b&gt;&#34;\n</textarea>" in page
        assert 'data-language="shell"' in page
        assert "maker" in page
        assert "18 B" in page

    def test_first_empty_line_survives_the_text_area(
        self, admin: Visit, database: Database, job_id: int
    ) -> None:
        admin.post(f"/glue/{job_id}/save", form(database, job_id, source="\r\necho\r\n"))

        assert ">\n\necho\n</textarea>" in admin.get(f"/glue/{job_id}").text

    def test_viewer_reads_and_cannot_write(self, app: Flask, job_id: int) -> None:
        page = signed_in(app, "viewer").get(f"/glue/{job_id}").text

        assert "readonly" in page
        assert "Save new version" not in page
        assert "Test saved version" not in page

    @pytest.mark.parametrize("name", ["stranger"])
    def test_script_of_a_foreign_app_does_not_exist(
        self, app: Flask, database: Database, job_id: int, name: str
    ) -> None:
        visit, script_version = signed_in(app, name), current(database, job_id)

        for path in (
            "",
            f"/versions/{script_version}",
            f"/compare?old={script_version}&new={script_version}",
        ):
            assert visit.get(f"/glue/{job_id}{path}").status_code == 404

    def test_job_without_a_script_is_404(self, admin: Visit, database: Database) -> None:
        def unit(session: Any) -> int:
            job = Job(app_id=1, name="plain")
            session.add(job)
            session.flush()
            return int(job.id)

        assert admin.get(f"/glue/{database.write(unit)}").status_code == 404


class TestSaving:
    def test_saved_version_is_current_has_an_author_and_stands_in_the_trail(
        self, scripter: Visit, database: Database, job_id: int
    ) -> None:
        sent = form(database, job_id, source="echo two\r\necho three\r\n")

        answer = scripter.post(f"/glue/{job_id}/save", sent, content_type="multipart/form-data")

        assert answer.status_code == 303
        assert source(database, job_id) == "echo two\necho three\n"
        newest = database.read(lambda session: script_versions.versions(session, job_id))[0]
        assert (newest.author, newest.remark) == ("scripter", "second")
        noted = database.read(
            lambda session: session.execute(
                select(AuditEntry).where(AuditEntry.action == "glue.save")
            ).scalar_one()
        )
        assert (noted.who, noted.name, noted.object_id) == ("scripter", "reports/script", job_id)
        assert noted.before == '{"version": 1}'

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"source": ""}, "The script is empty."),
            ({"source": " \r\n\t"}, "The script is empty."),
            ({"source": "echo \0"}, "NUL character"),
            ({"source": "x" * 524_289}, "A script can have up to 512 kB."),
            ({"source": "é" * 262_145}, "A script can have up to 512 kB."),
            ({"remark": ""}, "Describe the change in up to 128 characters"),
            ({"remark": "x" * 129}, "Describe the change in up to 128 characters"),
            ({"remark": "a\x9bb"}, "Describe the change in up to 128 characters"),
        ],
    )
    def test_bad_input_is_told_kept_and_saves_nothing(
        self, scripter: Visit, database: Database, job_id: int, fields: dict[str, str], words: str
    ) -> None:
        sent = form(database, job_id, **fields)

        answer = scripter.post(f"/glue/{job_id}/save", sent, content_type="multipart/form-data")

        assert answer.status_code == 422
        assert words in answer.text
        assert source(database, job_id) == SOURCE

    def test_longest_script_goes_through_the_form(
        self, scripter: Visit, database: Database, job_id: int
    ) -> None:
        sent = form(database, job_id, source="文" * 174_762 + "\r\n")

        answer = scripter.post(f"/glue/{job_id}/save", sent, content_type="multipart/form-data")

        assert answer.status_code == 303
        assert len(source(database, job_id).encode()) == 524_287

    def test_same_source_saves_no_version(
        self, scripter: Visit, database: Database, job_id: int
    ) -> None:
        scripter.post(f"/glue/{job_id}/save", form(database, job_id, source=SOURCE))

        assert len(database.read(lambda session: script_versions.versions(session, job_id))) == 1

    def test_who_comes_second_is_told_and_keeps_what_was_typed(
        self, scripter: Visit, admin: Visit, database: Database, job_id: int
    ) -> None:
        mine = form(database, job_id, source="echo mine\n")
        admin.post(f"/glue/{job_id}/save", form(database, job_id, source="echo theirs\n"))

        answer = scripter.post(f"/glue/{job_id}/save", mine)

        theirs = current(database, job_id)
        assert answer.status_code == 409
        assert "admin saved version 2 in the meantime" in answer.text
        assert "echo mine\n</textarea>" in answer.text
        assert f"old={mine['based_on']}&amp;new={theirs}" in answer.text
        assert source(database, job_id) == "echo theirs\n"
        again = scripter.post(f"/glue/{job_id}/save", mine | {"based_on": str(theirs)})
        assert again.status_code == 303
        assert source(database, job_id) == "echo mine\n"

    @pytest.mark.parametrize("based_on", ["", "x", "-1", "9" * 30, "0"])
    def test_form_that_names_no_version_changes_nothing(
        self, scripter: Visit, database: Database, job_id: int, based_on: str
    ) -> None:
        answer = scripter.post(f"/glue/{job_id}/save", form(database, job_id, based_on=based_on))

        assert answer.status_code == 409
        assert source(database, job_id) == SOURCE

    def test_powershell_keeps_the_line_ends_that_it_has(
        self, scripter: Visit, database: Database
    ) -> None:
        job_id = add_script(database, kind="GLUE_POWERSHELL")

        scripter.post(f"/glue/{job_id}/save", form(database, job_id, source="a\r\nb\r\n"))

        assert source(database, job_id) == "a\nb\n"

    @pytest.mark.parametrize(
        ("name", "status"), [("viewer", 403), ("operator", 403), ("stranger", 403)]
    )
    def test_who_may_not_changes_nothing(
        self, app: Flask, database: Database, job_id: int, name: str, status: int
    ) -> None:
        answer = signed_in(app, name).post(f"/glue/{job_id}/save", form(database, job_id))

        assert answer.status_code == status
        assert source(database, job_id) == SOURCE

    def test_scripts_of_foreign_apps_are_404_for_a_scripter(
        self, scripter: Visit, database: Database
    ) -> None:
        job_id = add_script(database, "mails")
        script_version = current(database, job_id)

        assert scripter.post(f"/glue/{job_id}/save", form(database, job_id)).status_code == 404
        restored = {"version": str(script_version), "based_on": str(script_version)}
        assert scripter.post(f"/glue/{job_id}/restore", restored).status_code == 404
        assert scripter.post(f"/glue/{job_id}/try").status_code == 404


class TestVersions:
    def test_restored_version_is_a_new_one(
        self, scripter: Visit, database: Database, job_id: int
    ) -> None:
        first = current(database, job_id)
        scripter.post(f"/glue/{job_id}/save", form(database, job_id))
        second = current(database, job_id)

        page = scripter.get(f"/glue/{job_id}/versions/{first}").text
        answer = scripter.post(
            f"/glue/{job_id}/restore", {"version": str(first), "based_on": str(second)}
        )

        assert "Restore" in page
        assert answer.status_code == 303
        assert source(database, job_id) == SOURCE
        assert current(database, job_id) > second
        newest = database.read(lambda session: script_versions.versions(session, job_id))[0]
        assert newest.remark == "version 1 restored"

    def test_each_version_keeps_its_author_whoever_restores_it(
        self, app: Flask, scripter: Visit, database: Database, job_id: int
    ) -> None:
        first = current(database, job_id)
        scripter.post(f"/glue/{job_id}/save", form(database, job_id))
        second = current(database, job_id)
        admin = signed_in(app, "admin")
        difference = admin.get(f"/glue/{job_id}/compare?old={first}&new={second}").text

        admin.get(f"/glue/{job_id}")
        admin.post(f"/glue/{job_id}/restore", {"version": str(first), "based_on": str(second)})

        kept = database.read(lambda session: script_versions.versions(session, job_id))
        assert [(one.author, one.id) for one in kept[1:]] == [
            ("scripter", second),
            ("maker", first),
        ]
        assert kept[0].author == "admin"
        assert all(author in difference for author in ("maker", "scripter"))
        page = admin.get(f"/glue/{job_id}").text
        assert all(author in page for author in ("maker", "scripter", "admin"))
        assert "maker" in admin.get(f"/glue/{job_id}/versions/{first}").text

    def test_restoring_over_somebody_elses_save_is_refused(
        self, scripter: Visit, database: Database, job_id: int
    ) -> None:
        first = current(database, job_id)
        scripter.post(f"/glue/{job_id}/save", form(database, job_id))

        answer = scripter.post(
            f"/glue/{job_id}/restore", {"version": str(first), "based_on": str(first)}
        )

        assert answer.status_code == 409
        assert source(database, job_id) == "echo two\n"

    def test_difference_is_shown_escaped(
        self, scripter: Visit, database: Database, job_id: int
    ) -> None:
        first = current(database, job_id)
        scripter.post(f"/glue/{job_id}/save", form(database, job_id))

        page = scripter.get(
            f"/glue/{job_id}/compare?old={first}&new={current(database, job_id)}"
        ).text

        assert '<tr class="out">' in page
        assert '<tr class="in">' in page
        assert "&lt;b&gt;one&lt;/b&gt;" in page
        assert "<b>one" not in page
        assert "<del>" not in page

    def test_two_versions_stand_side_by_side_when_asked_for(
        self, scripter: Visit, database: Database, job_id: int
    ) -> None:
        first = current(database, job_id)
        scripter.post(f"/glue/{job_id}/save", form(database, job_id, source="<b>one</b>\r\n"))
        query = f"old={first}&new={current(database, job_id)}"

        page = scripter.get(f"/glue/{job_id}/compare?{query}&view=side").text

        assert "<ins>&lt;b&gt;one&lt;/b&gt;</ins>" in page
        assert "<b>one" not in page
        assert '<tr class="in">' in page  # what a narrow window shows instead

    @pytest.mark.parametrize(
        "query", ["", "?old=1", "?old=1&new=999", "?old=x&new=y", "?old=1&new=-1"]
    )
    def test_version_that_is_not_there_is_404(self, admin: Visit, job_id: int, query: str) -> None:
        assert admin.get(f"/glue/{job_id}/compare{query}").status_code == 404
        assert admin.get(f"/glue/{job_id}/versions/999").status_code == 404

    def test_version_of_another_job_is_404(
        self, admin: Visit, database: Database, job_id: int
    ) -> None:
        other = current(database, add_script(database, "mails"))

        assert admin.get(f"/glue/{job_id}/versions/{other}").status_code == 404
        page = admin.post(
            f"/glue/{job_id}/restore",
            {"version": str(other), "based_on": str(current(database, job_id))},
        )
        assert page.status_code == 404

    def test_pages_call_a_version_by_its_number_in_the_job(
        self, scripter: Visit, database: Database, job_id: int
    ) -> None:
        first = current(database, job_id)
        scripter.post(f"/glue/{job_id}/save", form(database, job_id))
        second = current(database, job_id)
        tried = scripter.post(f"/glue/{job_id}/try").headers["Location"]
        [run] = all_runs(database)

        assert second > 2
        editor = scripter.get(tried).text
        assert "Version 2 saved" in editor
        assert "Run version 2 once" in editor
        assert f'/versions/{first}"><strong>1</strong>' in editor
        assert "Version 1 of script" in scripter.get(f"/glue/{job_id}/versions/{first}").text
        compared = scripter.get(f"/glue/{job_id}/compare?old={first}&new={second}").text
        assert "Version 1 and version 2" in compared
        assert ">version 2" in scripter.get(f"/runs/{run.id}").text
        assert ", version 2: second" in scripter.get(f"/jobs/{job_id}").text

    def test_run_whose_version_is_gone_says_so(
        self, scripter: Visit, database: Database, job_id: int
    ) -> None:
        scripter.post(f"/glue/{job_id}/try")
        [run] = all_runs(database)
        database.write(lambda session: script_versions.forget(session, job_id))

        assert "version no longer kept" in scripter.get(f"/runs/{run.id}").text


class TestTrying:
    def test_saved_version_is_run_on_the_chosen_executor(
        self, scripter: Visit, database: Database, clock: Clock, job_id: int
    ) -> None:
        beat = presence.Beat(
            kind="EXECUTOR", app="reports", address="host-1", boot_id="b", beat_at=clock.now_ms()
        )
        database.write(lambda session: presence.hold(session, beat))

        answer = scripter.post(f"/glue/{job_id}/try", {"address": "host-1", "param": "hello"})

        [run] = all_runs(database)
        assert answer.status_code == 303
        assert (run.kind, run.param, run.script_version) == (
            "MANUAL",
            "hello",
            current(database, job_id),
        )
        page = scripter.get(answer.headers["Location"]).text
        assert f"Run {run.id}" in page
        assert 'data-live="1"' in page
        assert "<option>host-1</option>" in page

    def test_a_parameter_of_several_lines_arrives_as_it_is(
        self, scripter: Visit, database: Database, job_id: int
    ) -> None:
        scripter.post(f"/glue/{job_id}/try", {"param": "2026-01-01\r\nall"})

        [run] = all_runs(database)
        assert run.param == "2026-01-01\nall"
        assert '<textarea id="try-param"' in scripter.get(f"/glue/{job_id}").text

    def test_a_form_that_is_sent_twice_runs_the_version_once(
        self, scripter: Visit, database: Database, job_id: int
    ) -> None:
        page = scripter.get(f"/glue/{job_id}").text
        form = {"param": "hello", "once": once_of(page[page.index('id="try"') :])}

        went_to = {scripter.post(f"/glue/{job_id}/try", form).headers["Location"] for _ in "12"}

        assert len(went_to) == 1
        assert len(all_runs(database)) == 1

    def test_executor_that_is_not_there_is_told(
        self, scripter: Visit, database: Database, job_id: int
    ) -> None:
        answer = scripter.post(f"/glue/{job_id}/try", {"address": "nowhere"})

        assert answer.status_code == 422
        assert "This executor is gone." in answer.text
        assert all_runs(database) == []

    def test_run_of_another_job_is_not_shown(
        self, scripter: Visit, admin: Visit, database: Database, job_id: int
    ) -> None:
        other = add_script(database, "mails")
        admin.post(f"/glue/{other}/try")
        [run] = all_runs(database)

        assert f"Run {run.id}" not in scripter.get(f"/glue/{job_id}?run={run.id}").text
