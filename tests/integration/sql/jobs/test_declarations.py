"""Where jobs are declared is stored for exactly the jobs that were applied."""

from tests.support.sql_rows import add_job
from warren.sql.batch import CHUNK
from warren.sql.engine import Database
from warren.sql.jobs import job_file_rows
from warren.sql.models import Job

CODE = "code:acme_jobs.handlers"


def test_places_are_written_for_the_named_jobs_alone_however_many(database: Database) -> None:
    first = add_job(database, "first")
    app_id = database.read(lambda session: session.get_one(Job, first).app_id)
    more = [Job(app_id=app_id, name=f"job-{number}", handler="h") for number in range(CHUNK + 1)]
    database.write(lambda session: session.add_all(more))
    stored = database.read(lambda session: job_file_rows.names_and_places(session, [app_id]))
    job_ids = [job_id for job_id, *_ in stored]
    in_code, in_file, nowhere = job_ids[:-2], job_ids[-2], job_ids[-1]

    def write(job_ids: list[int], place: str) -> None:
        database.write(lambda session: job_file_rows.set_declared_place(session, job_ids, place))

    write([*in_code, in_file], CODE)
    write([in_file], "file")
    write([], "file")

    places = database.read(lambda session: job_file_rows.declared_places(session, job_ids))
    assert places == dict.fromkeys(in_code, CODE) | {in_file: "file"}
    assert database.read(lambda session: job_file_rows.declared_places(session, [nowhere])) == {}
    listed = database.read(lambda session: job_file_rows.names_and_places(session, [app_id]))
    assert {job_id: place for job_id, _, _, place in listed} == places | {nowhere: None}
    assert (
        database.read(lambda session: job_file_rows.names_and_places(session, [app_id + 1])) == []
    )
