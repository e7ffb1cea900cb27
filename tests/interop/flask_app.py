"""An executor of Flask-XXLJob, run by the environment that has it: ADMIN PORT FOLDER.

It serves below a path, runs nothing by itself, and leaves every answer to who uses it.
"""

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from flask import Flask
from flask_xxljob import FlaskXXLJob, XXLJobResponse

ADMIN, PORT, FOLDER = sys.argv[1].removesuffix("/api/"), int(sys.argv[2]), sys.argv[3]

app = Flask(__name__)
app.config.update(
    XXL_JOB_ADMIN_ADDRESSES=[ADMIN],
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
    threading.Thread(target=finish, args=(request.log_id, request.log_date_time)).start()
    return XXLJobResponse.success()


def finish(log_id: int, log_date_time: int) -> None:
    with app.app_context():
        executor.callback_success(log_id=log_id, log_date_time=log_date_time, message="by Flask")


executor.init_app(app)
app.run(port=PORT)
