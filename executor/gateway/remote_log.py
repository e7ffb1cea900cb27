"""Copies the log of one remote run, line by line.

Each line is copied once: a copy continues after the lines that are here, so it can be repeated and
resumed. The line numbers that executors report are not used: versions differ.
"""

import asyncio
from pathlib import Path
from typing import Any

from warren.broker.messages.to_executor import Trigger
from warren.executor.disk import open_regular
from warren.executor.gateway import protocol
from warren.executor.gateway.protocol import CallFailed
from warren.executor.gateway.remote_client import RemoteClient
from warren.executor.logs.run_logs import RunLogs

#: Shortest time between two copies of the same log, and the most calls of one copy.
AGAIN_SECONDS = 3.0
CALL_LIMIT = 200
_MISSING_MARK = "… [the rest of the log is not here: {}]\n"
_LONG_LINE_MARK = " … [line cut: its executor sends too much of it at once]\n"


class RemoteLog:
    """The log of one remote run. Used from one event loop.

    A part of the log of a run that `is_resumed` may be here already.
    """

    def __init__(
        self, trigger: Trigger, client: RemoteClient, run_logs: RunLogs, *, is_resumed: bool
    ) -> None:
        self._trigger = trigger
        self._client = client
        self._run_logs = run_logs
        self._path = run_logs.path_of(trigger.scheduled_at_ms, trigger.run_id)
        if not is_resumed:
            run_logs.set_aside(self._path)
        self._next_line = None if is_resumed else 1
        self._copied_at = float("-inf")
        self._turn = asyncio.Lock()

    async def copy(self, *, is_over: bool) -> str:
        """Copy new lines, unless that was done a moment ago; raises no network error.

        Return why lines may be missing; empty if the executor has no more of them. While the run
        is running, an incomplete last line is left for later.
        """
        async with self._turn:
            loop = asyncio.get_running_loop()
            if not is_over and loop.time() - self._copied_at < AGAIN_SECONDS:
                return "it was copied a moment ago"
            self._copied_at = loop.time()
            try:
                for _ in range(CALL_LIMIT):
                    if not await self._copy_some(is_over=is_over):
                        return ""
            except CallFailed as error:
                return str(error)
            return "its executor has sent no end of it"

    def tail(self) -> str:
        """Return the end of the copy so far."""
        return self._run_logs.tail(self._path)

    def mark_missing(self, why: str) -> None:
        """Say at the end of the log that the rest is missing, as far as the disk has room."""
        if not self._run_logs.shortfall():
            _append(self._path, _MISSING_MARK.format(why))

    async def _copy_some(self, *, is_over: bool) -> bool:
        """Copy the lines of one answer; return whether there may be more.

        Raises:
            CallFailed: the executor has not answered, or there is no room for its answer.

        """
        if self._next_line is None:
            self._next_line = 1 + await asyncio.to_thread(_count_lines, self._path)
        answer = await self._client.log(protocol.log_request_of(self._trigger, self._next_line))
        content = answer.content if isinstance(answer.content, dict) else {}
        if not answer.is_ok:
            if self._next_line == 1:
                return False  # it keeps no logs
            raise CallFailed(answer.text or f"its executor answered code {answer.code}")
        text = _whole_lines(content.get("logContent"), is_over=is_over)
        is_cut = content.get("isCut") is True
        if is_cut and "\n" not in text:
            text = f"{content['logContent']}{_LONG_LINE_MARK}"
        if not text or not await asyncio.to_thread(self._store, text):
            return False
        self._next_line += text.count("\n")
        return is_cut or content.get("isEnd") is not True

    def _store(self, text: str) -> bool:
        """Add lines to the file; return False if it has its full size.

        Raises:
            CallFailed: the disk has no room.

        """
        if self._run_logs.size(self._path) > self._run_logs.cap_bytes:
            return False
        if self._run_logs.shortfall():
            raise CallFailed("the disk has no room for it")
        _append(self._path, text)
        return not self._run_logs.cut_to_cap(self._path)


def _append(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab", opener=open_regular) as file:
        file.write(text.encode(errors="replace"))


def _whole_lines(text: Any, *, is_over: bool) -> str:
    """Return the complete lines; after the end of a run, complete the last one.

    A single incomplete line is not a log but the executor's message that there is none.
    """
    if not isinstance(text, str):
        return ""
    lines = str(text).replace("\r\n", "\n")
    end = lines.rfind("\n") + 1
    if end in (0, len(lines)) or not is_over:
        return lines[:end]
    return f"{lines}\n"


def _count_lines(path: str) -> int:
    count = 0
    try:
        with open(path, "rb", opener=open_regular) as file:
            while data := file.read(1_048_576):
                count += data.count(b"\n")
    except OSError:
        return 0
    return count
