"""A FastAPI service that loads orders when it is asked to, by the job that does so each night.

It needs WARREN_API_URL and WARREN_API_TOKEN, a token with the scopes read and trigger.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import date
from typing import Annotated

import msgspec
from acme_jobs.handlers import LoadParams, LoadResult
from fastapi import Depends, FastAPI, HTTPException, Request
from pydantic import BaseModel

from warren import ApiError, AsyncClient, RunFailed

#: How long a request waits for its run.
WAIT_SECONDS = 20.0
JOB = "shop/load-orders"


class Loading(BaseModel):
    """A load; `orders` and `total` are there once it has succeeded."""

    run: int
    status: str
    message: str
    orders: int | None = None
    total: str | None = None


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
    """Keep one client, and so its connections, while the service lives."""
    async with AsyncClient.from_env() as client:
        app.state.warren = client
        yield


app = FastAPI(lifespan=lifespan)


def warren(request: Request) -> AsyncClient:
    """Return the client."""
    client: AsyncClient = request.app.state.warren
    return client


Warren = Annotated[AsyncClient, Depends(warren)]


@app.post("/orders/{day}", status_code=202)
async def load(day: date, client: Warren) -> Loading:
    """Ask for a load, and answer at once. The same day asked for twice is loaded once a day."""
    params = LoadParams(day=day)
    try:
        run = await client.trigger(JOB, msgspec.json.encode(params).decode(), key=f"load-{day}")
    except ApiError as error:
        raise HTTPException(502, str(error)) from error
    return Loading(run=run.id, status=run.status, message="")


@app.get("/loadings/{run_id}")
async def wait(run_id: int, client: Warren) -> Loading:
    """Answer when the run is over, or after WAIT_SECONDS."""
    try:
        run = await client.wait(run_id, timeout=WAIT_SECONDS)  # the last attempt, which decided
    except TimeoutError as error:
        return Loading(run=run_id, status="LOADING", message=str(error))
    except RunFailed as failed:
        run = failed.run
    except ApiError as error:
        raise HTTPException(error.status or 502, str(error)) from error
    answer = Loading(run=run_id, status=run.status, message=run.message)
    if run.result is not None:
        result = msgspec.convert(run.result, LoadResult)
        answer.orders, answer.total = result.orders, str(result.total)
    return answer
