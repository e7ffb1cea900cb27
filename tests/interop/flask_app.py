"""An executor of Flask-XXLJob, run by the environment that has it: ADMINS PORT FOLDER.

It serves below a path, runs nothing by itself, and leaves every answer to who uses it.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from flask import Flask
from flask_xxljob import FlaskXXLJob, XXLJobResponse

ADMINS = [one.removesuffix("/api/") for one in sys.argv[1].split(",")]
PORT, FOLDER = int(sys.argv[2]), sys.argv[3]
LOOK_SECONDS = 0.05

app = Flask(__name__)
app.config.update(
    XXL_JOB_ADMIN_ADDRESSES=ADMINS,
    XXL_JOB_ACCESS_TOKEN=os.environ["TOKEN"],
    XXL_JOB_EXECUTOR_APP_NAME=os.environ["APP"],
    XXL_JOB_EXECUTOR_ADDRESS=f"http://127.0.0.1:{PORT}",
    XXL_JOB_ROUTE_PREFIX="/xxl-job",
    XXL_JOB_REGISTRY_INTERVAL=1,
)
executor = FlaskXXLJob()


@executor.on_run("flask")
def run(request: Any) -> Any:
    with Path(FOLDER, "starts.jsonl").open("a") as file:
        file.write(json.dumps({"run": request.log_id, "job": request.job_id}) + "\n")
    awaited = request.executor_params or "/"
    threading.Thread(target=finish, args=(request.log_id, request.log_date_time, awaited)).start()
    return XXLJobResponse.success()


def finish(log_id: int, log_date_time: int, awaited: str) -> None:
    """Call back once the awaited file is there."""
    while not Path(awaited).exists():
        time.sleep(LOOK_SECONDS)
    with app.app_context():
        executor.callback_success(log_id=log_id, log_date_time=log_date_time, message="by Flask")


executor.init_app(app)
app.run(port=PORT)
