"""An executor of pyxxl, run by the environment that has it: `pyxxl_app.py ADMIN PORT FOLDER`.

Each start of a handler is a line in FOLDER/starts.jsonl, whatever the gateway believes.
"""

import asyncio
import contextlib
import json
import os
import sys
import threading
import time
from pathlib import Path

from pyxxl import ExecutorConfig, PyxxlRunner
from pyxxl.ctx import g

ADMIN, PORT, FOLDER = sys.argv[1], int(sys.argv[2]), sys.argv[3]

runner = PyxxlRunner(
    ExecutorConfig(
        xxl_admin_baseurl=ADMIN,
        executor_app_name=os.environ["APP"],
        executor_listen_host="127.0.0.1",
        executor_listen_port=PORT,
        access_token=os.environ["TOKEN"],
        log_local_dir=f"{FOLDER}/pyxxl-logs",
    )
)
held = threading.Lock()
POLL_SECONDS = 0.02


def note_start() -> None:
    data = g.xxl_run_data
    line = {
        "run": data.logId,
        "job": data.jobId,
        "param": data.executorParams,
        "shard": [data.broadcastIndex, data.broadcastTotal],
        "port": PORT,
    }
    with held, Path(FOLDER, "starts.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def is_released() -> bool:
    """Whether the file that a run waits for is there."""
    return Path(g.xxl_run_data.executorParams).exists()


@runner.register(name="noop")
async def noop() -> str:
    note_start()
    return "done"


@runner.register(name="dict")
async def a_dict() -> dict[str, int]:
    note_start()
    return {"answer": 42}


@runner.register(name="none")
async def nothing() -> None:
    note_start()


@runner.register(name="long")
async def long() -> str:
    note_start()
    return "x" * 60_000


@runner.register(name="boom")
async def boom() -> None:
    note_start()
    raise ValueError("not today")


@runner.register(name="sleep")
async def sleep() -> str:
    note_start()
    await asyncio.sleep(float(g.xxl_run_data.executorParams or 60))
    return "slept"


@runner.register(name="until-file")
async def until_file() -> str:
    note_start()
    while not is_released():  # noqa: ASYNC110 - it looks for a file
        await asyncio.sleep(POLL_SECONDS)
    return "released"


@runner.register(name="deaf")
async def deaf() -> str:
    """Swallow what is to stop it, until its file is there."""
    note_start()
    while not is_released():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(POLL_SECONDS)
    return "went on"


@runner.register(name="thread")
def thread() -> str:
    note_start()
    while not is_released():
        time.sleep(POLL_SECONDS)
    return "threaded"


@runner.register(name="talk")
async def talk() -> str:
    note_start()
    for number in range(int(g.xxl_run_data.executorParams)):
        g.logger.info("line-%d-", number)
    return "talked"


runner.run_executor()
