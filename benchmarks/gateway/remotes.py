"""Executors of XXL-JOB's protocol that succeed at once: `… GATEWAY APP TOKEN COUNT`.

All of them are in this process, each on a port of its own. As xxl-job-core does, each registers
every 30 s, and calls back one call at a time, with all results that have come meanwhile.
"""

import asyncio
import json
import os
import sys
from urllib.parse import urlsplit

REGISTER_SECONDS = 30.0
AGAIN_SECONDS = 0.5
STARTS = os.open(os.environ["BENCH_STARTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
_ACCEPTED = b'{"code":200,"msg":null,"data":null}'
#: What each run has in its log.
LINES = os.environ.get("BENCH_LOG", "").splitlines(keepends=True)


class Remote:
    """One executor: answers the gateway, registers there and calls back."""

    def __init__(self, gateway: str, app: str, token: str) -> None:
        self._gateway = urlsplit(gateway)
        self._app = app
        self._token = token
        self._ended: list[int] = []
        self._has_ended = asyncio.Event()
        self._connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def serve(self) -> None:
        """Open a port, register it, and call back for ever."""
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0, backlog=512)
        port = server.sockets[0].getsockname()[1]
        await asyncio.gather(self._register(f"http://127.0.0.1:{port}/"), self._call_back())

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(_length_of(head))
                path = head.split(b" ", 2)[1]
                writer.write(_response(self._reply_to(path, body)))
                if b"connection: close" in head.lower():
                    break
        except (OSError, asyncio.IncompleteReadError):
            pass
        writer.close()

    def _reply_to(self, path: bytes, body: bytes) -> bytes:
        if path == b"/log":
            return _log_from(json.loads(body)["fromLineNum"])
        if path == b"/run":
            run_id = json.loads(body)["logId"]
            os.write(STARTS, b"%d\n" % run_id)
            self._ended.append(run_id)
            self._has_ended.set()
        return _ACCEPTED

    async def _register(self, url: str) -> None:
        who = {"registryGroup": "EXECUTOR", "registryKey": self._app, "registryValue": url}
        while True:
            await self._tell("registry", who)
            await asyncio.sleep(REGISTER_SECONDS)

    async def _call_back(self) -> None:
        while True:
            await self._has_ended.wait()
            self._has_ended.clear()
            ended, self._ended = self._ended, []
            results = [
                {"logId": one, "logDateTim": 0, "handleCode": 200, "handleMsg": "done"}
                for one in ended
            ]
            await self._tell("callback", results)

    async def _tell(self, name: str, value: object) -> None:
        """Post a value, as often as it takes: the gateway may be restarting."""
        while True:
            # Registering does not wait behind callbacks.
            kept, is_kept = self._connection, name == "callback"
            try:
                connection = kept if kept is not None and is_kept else await self._connect()
                if is_kept:
                    self._connection = connection
                await self._post(name, value, connection)
            except (OSError, asyncio.IncompleteReadError):
                self._connection = None
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                return

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self._gateway.hostname, self._gateway.port)

    async def _post(
        self,
        name: str,
        value: object,
        connection: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        reader, writer = connection
        body = json.dumps(value).encode()
        head = (
            f"POST /xxl-job-admin/api/{name} HTTP/1.1\r\nHost: {self._gateway.netloc}\r\n"
            f"Content-Type: application/json\r\nXXL-JOB-ACCESS-TOKEN: {self._token}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        said = json.loads(await reader.readexactly(_length_of(answer)))
        if said["code"] != 200:
            raise SystemExit(f"{name}: {said['msg']}")


def _log_from(line: int) -> bytes:
    log = {"fromLineNum": line, "toLineNum": len(LINES), "isEnd": True}
    log["logContent"] = "".join(LINES[line - 1 :])
    return json.dumps({"code": 200, "msg": None, "data": log}).encode()


def _length_of(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line[15:])
    return 0


def _response(body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def main() -> None:
    """Serve until this process is ended."""
    gateway, app, token, count = sys.argv[1:]
    await asyncio.gather(*(Remote(gateway, app, token).serve() for _ in range(int(count))))


if __name__ == "__main__":
    asyncio.run(main())
