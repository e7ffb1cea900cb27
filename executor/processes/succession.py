"""Another zygote takes over, with handlers imported anew, while old runs finish with theirs."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from warren.broker.messages.values import HandlerFacts
from warren.executor.fork_server import frames
from warren.executor.fork_server.confinement import Confinement
from warren.executor.handlers.hooks import JobCode
from warren.executor.processes.zygote_link import ZygoteLink


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What a zygote has loaded."""

    handlers: tuple[HandlerFacts, ...]
    folder: str


class Successor:
    """A zygote that imports the handlers beside the present one.

    `on_end` is called once: with the zygote and what it has loaded, or with a line that says why
    it has not.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        code: JobCode,
        confinement: Confinement,
        on_end: Callable[[ZygoteLink, Loaded | str], None],
    ) -> None:
        self._on_end = on_end
        self._handlers: list[HandlerFacts] = []
        self._line = ""
        self._is_over = False
        self._link = ZygoteLink(loop, code, confinement)
        self._link.listen(self._take, self._on_death)

    def cancel(self) -> None:
        """End it: what it imports is out of date."""
        self._is_over = True
        self._link.kill()

    def _take(self, frame: frames.FromZygote) -> None:
        if isinstance(frame, frames.LoadFailed):
            self._line = frame.line
        elif isinstance(frame, frames.HandlersLoaded):
            self._handlers += frame.handlers
            if frame.last and not self._is_over:
                self._is_over = True
                loaded = Loaded(handlers=tuple(self._handlers), folder=frame.folder)
                self._on_end(self._link, loaded)

    def _on_death(self) -> None:
        code = self._link.close()
        if not self._is_over:
            self._is_over = True
            words = f"the process that imports the handlers ended with exit code {code}"
            self._on_end(self._link, self._line or words)


@dataclass(slots=True)
class _Retired:
    link: ZygoteLink
    numbers: set[int] = field(default_factory=set)


class RetiredZygotes:
    """Zygotes that fork no more, until the last of their job processes has exited."""

    def __init__(
        self,
        on_forked: Callable[[frames.Forked], None],
        on_exited: Callable[[frames.Exited], None],
    ) -> None:
        self._on_forked = on_forked
        self._on_exited = on_exited
        self._all: list[_Retired] = []

    def add(self, link: ZygoteLink, numbers: set[int]) -> None:
        """Take over a zygote that has these job processes."""
        retired = _Retired(link, numbers)
        self._all.append(retired)

        def take(frame: frames.FromZygote) -> None:
            if isinstance(frame, frames.Forked):
                self._on_forked(frame)
            elif isinstance(frame, frames.Exited):
                self._forget(retired, frame)

        link.listen(take, lambda: self._on_death(retired))
        link.send(frames.KeepSpares(count=0))
        if not numbers:
            link.hang_up()

    def link_of(self, number: int) -> ZygoteLink | None:
        """Return the zygote that a job process belongs to; None if it is none of these."""
        return next((each.link for each in self._all if number in each.numbers), None)

    def kill(self) -> None:
        """End them and everything they have started, and wait for that."""
        retired, self._all = self._all, []
        for each in retired:
            each.link.kill()
            each.link.kill_jobs()
            each.link.close()

    def _forget(self, retired: _Retired, exited: frames.Exited) -> None:
        retired.numbers.discard(exited.number)
        if not retired.numbers:
            retired.link.hang_up()
        self._on_exited(exited)

    def _on_death(self, retired: _Retired) -> None:
        if retired not in self._all:
            return
        self._all.remove(retired)
        retired.link.kill_jobs()
        code = retired.link.close() or 0
        for number in sorted(retired.numbers):
            self._on_exited(frames.Exited(number=number, code=code))
