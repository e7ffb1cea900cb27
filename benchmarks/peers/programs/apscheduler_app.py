"""APScheduler with its jobs in MySQL and a process pool; sender and worker in one."""

import itertools
import os
from datetime import UTC, datetime

import sending
import work
from apscheduler.events import EVENT_JOB_EXECUTED
from apscheduler.executors.pool import ProcessPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler


def main() -> None:
    scheduler = BackgroundScheduler(
        jobstores={"default": SQLAlchemyJobStore(url=os.environ["BENCH_DATABASE_URL"])},
        executors={"default": ProcessPoolExecutor(int(os.environ["BENCH_SLOTS"]))},
        job_defaults={"misfire_grace_time": None},
        timezone=UTC,
    )
    ended = itertools.count(1)
    last = [0]

    def note(_event: object) -> None:
        last[0] = next(ended)

    scheduler.add_listener(note, EVENT_JOB_EXECUTED)
    scheduler.start()

    def send(run_id: int) -> None:
        scheduler.add_job(work.noop, "date", run_date=datetime.now(UTC), args=(run_id,))

    sending.run(send, lambda: last[0])


if __name__ == "__main__":
    main()
