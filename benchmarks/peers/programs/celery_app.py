"""Celery over RabbitMQ, with results in MySQL; as a program, the sender."""

import os

import sending
import work
from celery import Celery
from sqlalchemy import create_engine, text

DATABASE_URL = os.environ["BENCH_DATABASE_URL"]

app = Celery("bench", broker=os.environ["BENCH_BROKER_URL"], backend=f"db+{DATABASE_URL}")
#: Named explicitly, as the worker's module is not the sender's `__main__`.
noop = app.task(work.noop, name="noop")


def main() -> None:
    engine = create_engine(DATABASE_URL)
    ended = text("SELECT COUNT(*) FROM celery_taskmeta WHERE status = 'SUCCESS'")

    def count() -> int:
        with engine.connect() as connection:
            return connection.execute(ended).scalar_one()

    app.backend.ResultSession()  # creates the tables
    sending.run(noop.delay, count)


if __name__ == "__main__":
    main()
