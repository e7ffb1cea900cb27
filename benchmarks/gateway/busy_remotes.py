"""Executors of XXL-JOB's protocol that are busy: `… GATEWAYS APP TOKEN COUNT SECONDS REGISTER`.

GATEWAYS are URLs separated by commas. As xxl-job-core does, each executor registers at the first
that accepts it, and has one run of a job at a time. Results go at once; those of a call that was
refused are repeated together until a gateway takes them, and hold up no others. A run takes
SECONDS; an executor registers every REGISTER seconds. The id of each run goes to the file
BENCH_STARTS when its call arrives.
"""

import asyncio
import json
import os
import sys
from collections import defaultdict
from typing import Any

import aiohttp
from aiohttp import web

REPEAT_SECONDS = 5.0
CALL_SECONDS = 3.0
STARTS = os.open(os.environ["BENCH_STARTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
_NO_LOG = {"fromLineNum": 1, "toLineNum": 0, "logContent": "", "isEnd": True}


class BusyRemote:
    """One executor."""

    def __init__(self, gateways: list[str], app: str, token: str, *seconds: float) -> None:
        self._gateways = gateways
        self._app = app
        self._seconds, self._register_seconds = seconds
        self._session = aiohttp.ClientSession(
            headers={"XXL-JOB-ACCESS-TOKEN": token},
            timeout=aiohttp.ClientTimeout(total=CALL_SECONDS),
        )
        #: The runs of each job, the first of which is running.
        self._runs: dict[int, list[int]] = defaultdict(list)
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended: list[int] = []
        #: The results of each call that no gateway took.
        self._refused: list[list[dict[str, Any]]] = []

    async def serve(self) -> None:
        """Open a port, register it and call back for ever."""
        application = web.Application()
        application.router.add_post("/{name}", self._answer)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        url = f"http://127.0.0.1:{port}/"
        await asyncio.gather(self._register(url), self._call_back(), self._repeat())

    async def _answer(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read() or b"{}")
        code, data = 200, None
        match request.match_info["name"]:
            case "run" | "trigger":
                self._take(body["jobId"], body["logId"])
            case "idleBeat" if self._runs.get(body["jobId"]):
                code = 500
            case "log":
                data = _NO_LOG
        return web.json_response({"code": code, "msg": None, "content": data, "data": data})

    def _take(self, job: int, run: int) -> None:
        os.write(STARTS, b"%d\n" % run)
        self._runs[job].append(run)
        if len(self._runs[job]) == 1:
            task = asyncio.get_running_loop().create_task(self._work(job))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self, job: int) -> None:
        runs = self._runs[job]
        while runs:
            await asyncio.sleep(self._seconds)
            self._ended.append(runs[0])
            del runs[0]

    async def _register(self, url: str) -> None:
        who = {"registryGroup": "EXECUTOR", "registryKey": self._app, "registryValue": url}
        while True:
            await self._is_taken("registry", who)
            await asyncio.sleep(self._register_seconds)

    async def _call_back(self) -> None:
        while True:
            await asyncio.sleep(0.02)
            if not self._ended:
                continue
            results = [
                {"logId": run, "logDateTim": 0, "handleCode": 200, "handleMsg": "done"}
                for run in self._ended
            ]
            self._ended.clear()
            if not await self._is_taken("callback", results):
                self._refused.append(results)

    async def _repeat(self) -> None:
        while True:
            await asyncio.sleep(REPEAT_SECONDS)
            for results in list(self._refused):
                if await self._is_taken("callback", results):
                    self._refused.remove(results)

    async def _is_taken(self, name: str, value: Any) -> bool:
        for gateway in self._gateways:
            try:
                async with self._session.post(f"{gateway}/api/{name}", json=value) as response:
                    if (await response.json())["code"] == 200:
                        return True
            except (aiohttp.ClientError, TimeoutError):
                continue
        return False


async def main() -> None:
    """Serve until this process is ended."""
    gateways, app, token, count, *seconds = sys.argv[1:]
    remotes = (
        BusyRemote(gateways.split(","), app, token, *map(float, seconds)) for _ in range(int(count))
    )
    await asyncio.gather(*(remote.serve() for remote in remotes))


if __name__ == "__main__":
    asyncio.run(main())
