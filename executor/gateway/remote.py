"""One registered executor: a Warren executor whose slots are at the registered URL."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from warren.executor.core.agent import Executor
from warren.executor.gateway.allow_list import RemoteUrl
from warren.executor.gateway.protocol import RemoteResult
from warren.executor.gateway.remote_client import RemoteClient
from warren.executor.gateway.remote_logs import Note, RemoteFolder
from warren.executor.gateway.remote_slots import REGISTERED_SECONDS, RemoteSlots
from warren.executor.messaging.signed_sender import new_boot_id
from warren.executor.processes.interface import SlotsFactory
from warren.executor.state_folder import StateFolder

#: An app and an address.
Key = tuple[str, str]


class ExecutorFactory(Protocol):
    """Creates executors that are not started yet."""

    def __call__(
        self, *, app: str, address: str, slots: SlotsFactory, folder: StateFolder, boot_id: str
    ) -> Executor:
        """Return one for this boot, with this state folder, which is locked already."""


class Remote:
    """Serves one registered executor from `start` until `is_over`.

    Raises OSError if its boot cannot be noted; the caller still holds the folder.
    """

    def __init__(
        self,
        app: str,
        client: RemoteClient,
        folder: RemoteFolder,
        *,
        slots: "partial[RemoteSlots]",
        make_executor: ExecutorFactory,
    ) -> None:
        self._client = client
        self._folder = folder
        self._make_slots = slots
        self._slots: RemoteSlots
        self._is_draining = False
        self._registered_until = time.monotonic() + REGISTERED_SECONDS
        self._has_come_back = False
        self._boot_id = folder.boot_id_of(client.url.text) or new_boot_id()
        folder.save(self._note(client.appname))
        self.executor = make_executor(
            app=app,
            address=client.url.address,
            slots=self._keep_slots,
            folder=folder.state,
            boot_id=self._boot_id,
        )

    def start(self) -> None:
        """Start serving it; raises as `Executor.start` does."""
        self.executor.start()

    def stop(self, *, hurry: bool) -> None:
        """Begin to shut down; the next start continues its runs."""
        self.executor.stop(hurry=hurry)

    def register(self, appname: str) -> None:
        """Record that it registered, as an executor of 3.5 if there is an `appname`.

        Raises:
            OSError: its version changed, and that could not be saved.

        """
        now = time.monotonic()
        if self.executor.was_drained and now > self._registered_until:
            self._has_come_back = True
        self._registered_until = now + REGISTERED_SECONDS
        if appname != self._client.appname:
            self._folder.save(self._note(appname))
            self._client.appname = appname
        self._slots.post(self._slots.register)

    def sign_off(self) -> None:
        self._registered_until = 0.0
        self._slots.post(self._slots.sign_off)

    @property
    def registered_seconds(self) -> float:
        """For how long its last registration still counts; 0 if it has signed off."""
        return max(0.0, self._registered_until - time.monotonic())

    @property
    def drained_seconds(self) -> float:
        """For how long one that was drained is not to be served; 0 if it has left since."""
        return 0.0 if self._has_come_back else self.registered_seconds

    def has_run(self, run_id: int) -> bool:
        """Whether this run is in one of its slots."""
        return self._slots.has_run(run_id)

    def has_ended(self, run_id: int) -> bool:
        """Whether it had this run, which has ended."""
        return self._slots.has_ended(run_id)

    def call_back(self, result: RemoteResult, on_recorded: Callable[[], None]) -> bool:
        """End a run; `on_recorded` is called from another thread. Return False if it has ended."""
        return self._slots.post(self._slots.call_back, result, on_recorded)

    @property
    def url(self) -> RemoteUrl:
        return self._client.url

    @property
    def appname(self) -> str:
        """Its own name for its app, if it is of 3.5."""
        return self._client.appname

    @property
    def is_over(self) -> bool:
        """Whether it has ended. One that is gone for good starts to drain once all is reported."""
        if not self._is_draining and self._slots.is_unneeded and self.executor.is_settled:
            self._is_draining = True
            self.executor.drain()
        return not self.executor.is_alive

    @property
    def has_left_runs(self) -> bool:
        """Whether one that is over left runs or reports, which the next start continues."""
        executor = self.executor
        # One that was never welcomed is not clean, but has nothing to leave behind either.
        return not (executor.was_clean or executor.is_settled or executor.was_refused)

    @property
    def is_done_with(self) -> bool:
        """Whether one that is over needs nobody to continue it."""
        executor = self.executor
        is_gone = self._is_draining or executor.was_drained or executor.was_refused
        return is_gone and not self.has_left_runs

    @property
    def bequest(self) -> tuple[Note, bytes]:
        """What another gateway needs to continue one that is over; raises OSError."""
        if self.executor.was_clean:
            return Note(self._client.url.text, self._client.appname), b""
        return self._note(self._client.appname), self._folder.state.journal_path.read_bytes()

    def bequeath(self) -> None:
        """Leave one that is over to another gateway; the next start here does not continue it.

        Two that continue the same boot could start a run twice.
        """
        self._folder.forget()

    def take_back(self) -> None:
        """Have the next start here continue one that no other gateway continues."""
        self._folder.save(self.bequest[0])

    def discard(self) -> None:
        """Delete the journal of one that another gateway continues."""
        self._folder.discard()

    def settle(self) -> None:
        """Save what the next start must know about one that is over.

        If it left runs or reports behind, the next start continues them as the same boot.
        """
        executor = self.executor
        if self.is_done_with:
            # In this order: without its journal, the same boot could start a run twice.
            self._folder.forget()
            if executor.was_clean or executor.is_settled:  # a refused one may have reports
                self._folder.discard()
        elif executor.was_clean:
            self._folder.save(Note(self._client.url.text, self._client.appname))

    def _note(self, appname: str) -> Note:
        return Note(self._client.url.text, appname, self._boot_id)

    def _keep_slots(self, **events: Any) -> RemoteSlots:
        self._slots = self._make_slots(self._client, **events)
        return self._slots
