"""Calls the API by the client that is generated from its description: URL TOKEN APP JOB RUN."""

import sys

from warren_client import AuthenticatedClient
from warren_client.api.jobs import jobs_index
from warren_client.api.runs import runs_show, runs_trigger
from warren_client.models import TriggerBody

url, token, app, job, run_id = sys.argv[1:]
with AuthenticatedClient(base_url=url, token=token, raise_on_unexpected_status=True) as client:
    jobs = jobs_index.sync(client=client, app=app)
    found = runs_show.sync(int(run_id), client=client)
    begun = runs_trigger.sync(app, job, client=client, body=TriggerBody(param="from Python"))
    print(jobs.items[0].name, found.id, begun.id)  # noqa: T201 - its output
