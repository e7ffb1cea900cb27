"""RQ over Redis, which forks a process for each job; as a program, the sender."""

import os

import sending
import work
from redis import Redis
from rq import Queue
from rq.registry import FinishedJobRegistry


def main() -> None:
    queue = Queue("bench", connection=Redis.from_url(os.environ["BENCH_REDIS_URL"]))
    ended = FinishedJobRegistry(queue=queue)
    sending.run(lambda run_id: queue.enqueue(work.noop, run_id), ended.get_job_count)


if __name__ == "__main__":
    main()
