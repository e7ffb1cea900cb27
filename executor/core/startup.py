"""Starts a boot: waits for its welcome, reports what earlier boots left, then takes triggers."""

from collections.abc import Callable

import msgspec

from warren.broker.messages.to_executor import Welcome
from warren.broker.messages.values import CatalogueAnswer
from warren.broker.topology import HEARTBEAT_KEY
from warren.executor.boot_context import BootContext
from warren.executor.core.assembly import Roles
from warren.executor.errors import JournalFailed
from warren.executor.messaging.inbox import Inbox

#: Seconds until the next try after the journal could not be begun.
JOURNAL_RETRY_SECONDS = 1.0
#: After this long without a welcome, log the likely reasons once.
WELCOME_SECONDS = 10.0
#: For how long schedulers that ask for the catalogue are assumed to have received the last answer,
#: and how long an answer is valid.
SEND_AGAIN_SECONDS = 3.0
CATALOGUE_SECONDS = 60.0


class Startup:
    """The startup of one boot. Used from the core's thread.

    `make_run_inbox` makes the inbox for triggers, available as `run_inbox` from then on.
    """

    def __init__(
        self, context: BootContext, roles: Roles, make_run_inbox: Callable[[], Inbox]
    ) -> None:
        self._context = context
        self._identity = context.identity
        self._clock = context.clock
        self._log = context.log
        self._roles = roles
        self._make_run_inbox = make_run_inbox
        self._is_closed = False
        self.was_welcomed = False
        self._sent = ""
        self._sent_at = float("-inf")
        self.run_inbox: Inbox | None = None

    def start(self) -> None:
        """Start waiting for the welcome."""
        self._context.loop.call_later(WELCOME_SECONDS, self._miss_welcome)

    def close(self) -> None:
        """Ignore welcomes from now on."""
        self._is_closed = True

    def welcome(self, welcome: Welcome, cluster: str) -> None:
        """Handle a welcome: each one sets the clock, the first one begins the boot.

        It counts whenever it comes and whatever its expiry says: as the answer to a heartbeat of
        this process it proves how old it can be, while the clock may be what it has to correct.
        """
        if self._is_closed or welcome.boot_id != self._identity.boot_id or not cluster:
            return
        if not self._clock.learn(welcome.now_ms, asked_at_ms=welcome.heartbeat_sent_at_ms):
            return
        self._roles.heartbeats.welcome()
        if not self.was_welcomed:
            self.was_welcomed = True
            self._context.sealer.pin(cluster)
            self._log.info("executor_welcomed", cluster=cluster)
            self._begin()
        if welcome.wants_catalogue:
            self._send_catalogue()

    def _send_catalogue(self) -> None:
        """Send the catalogue to all schedulers; once, however many of them ask."""
        catalogue, now = self._roles.slots.catalogue, self._clock.monotonic()
        if catalogue is None:
            return
        if catalogue.fingerprint == self._sent and now - self._sent_at < SEND_AGAIN_SECONDS:
            return
        self._sent, self._sent_at = catalogue.fingerprint, now
        answer = CatalogueAnswer(
            app=self._identity.app,
            address=self._identity.address,
            boot_id=self._identity.boot_id,
            contents=msgspec.Raw(catalogue.contents),
        )
        self._roles.sender.send(answer, key=HEARTBEAT_KEY, valid_seconds=CATALOGUE_SECONDS)

    def _miss_welcome(self) -> None:
        if not self.was_welcomed and not self._is_closed:
            self._log.warning(
                "welcome_awaited",
                app=self._identity.app,
                reason="no scheduler accepts this key, or none runs, or the app does not exist: "
                "warren secrets app, warren apps add; see the schedulers' logs",
            )

    def _begin(self) -> None:
        if self._is_closed:
            return
        run_states, readiness = self._context.run_states, self._roles.readiness
        try:
            unconfirmed = run_states.begin(self._identity.boot_id, self._clock.now_ms())
        except JournalFailed as error:
            readiness.is_unable_to_begin = True
            self._context.loop.call_later(JOURNAL_RETRY_SECONDS, self._begin)
            self._log.error("journal_write_failed", error=str(error))
            return
        readiness.is_unable_to_begin = False
        for report, size in unconfirmed:
            self._roles.outbox.add(report, size)
        if unconfirmed:
            self._log.warning("earlier_runs_reported", count=len(unconfirmed))
        self._roles.outbox.start()
        if not readiness.is_draining:
            self.run_inbox = self._make_run_inbox()
            self.run_inbox.start()
