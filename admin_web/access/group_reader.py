"""Reads the groups of people who signed in at the provider again, every five minutes.

Whoever is out of a group loses what it gave within fifteen minutes, with sessions and tokens. If
the provider cannot be asked, their access ends by itself fifteen minutes after the last answer.
Any number of processes share the work.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import structlog

from warren.admin_web.access.sign_ins import IDLE_SECONDS, LONGEST_SECONDS
from warren.admin_web.identity_provider import AccessEnded, ProviderError
from warren.admin_web.services import SingleSignOn
from warren.scheduler.commands.identity_commands import Reading, end_access, postpone, renew
from warren.sql.accounts import identities
from warren.sql.accounts.identities import DueIdentity
from warren.sql.engine import Database

#: How often to look for identities that are due, how many a round reads, and how many at once.
ROUND_SECONDS, BATCH, AT_ONCE = 5.0, 40, 4
#: How long one process may take for one; longer than all requests that it takes may last.
CLAIM_MS = 60_000
#: When to ask a provider again that did not answer.
AGAIN_MS = 30_000

log = structlog.get_logger()


class GroupReader:
    """Reads groups again; one thread makes the rounds.

    Args:
        sso: the provider to ask.
        database: where identities are.
        now_ms: the database's clock.

    """

    def __init__(self, sso: SingleSignOn, database: Database, now_ms: Callable[[], int]) -> None:
        self._sso = sso
        self._database = database
        self._now_ms = now_ms

    def run_round(self) -> float:
        """Read what is due; return the seconds until the next round."""
        now_ms = self._now_ms()
        due = self._database.read(
            lambda session: identities.due(
                session,
                self._sso.provider.issuer,
                now_ms=now_ms,
                seen_since_ms=now_ms - IDLE_SECONDS * 1000,
                made_since_ms=now_ms - LONGEST_SECONDS * 1000,
                limit=BATCH,
            )
        )
        if not due:
            return ROUND_SECONDS
        with ThreadPoolExecutor(AT_ONCE, "sso-groups") as threads:
            answers = list(threads.map(self._read, due))
        failures = [why for why in answers if why]
        if failures:
            log.warning("sso_reading_failed", users=len(failures), error=failures[0])
        return 0.0 if len(due) == BATCH and not failures else ROUND_SECONDS

    def _claim(self, due: DueIdentity) -> bool:
        now_ms = self._now_ms()
        return self._database.write(
            lambda session: identities.claim(
                session, due, now_ms=now_ms, until_ms=now_ms + CLAIM_MS
            )
        )

    def _read(self, due: DueIdentity) -> str:
        """Read the groups of one identity, unless another process does.

        Return why they could not be read, if so.
        """
        # Not before its turn: with a slow provider, that may be later than a claim holds.
        if not self._claim(due):
            return ""
        # Access counts from before the question: what the provider says may be that old.
        at_ms = self._now_ms()
        provider = self._sso.provider
        token = provider.unseal(due.refresh_token, due.key_hash)
        if token is None:
            self._end(due, "the refresh token was encrypted with another WARREN_SECRET")
            return ""
        try:
            proof = provider.read_again(token, due.subject)
        except AccessEnded as error:
            self._end(due, str(error))
            return ""
        except ProviderError as error:
            why, fresh = str(error), due.refresh_token
            if error.refresh_token:  # the one before may be good for nothing by now
                fresh = provider.seal(error.refresh_token, due.key_hash)
            self._database.write(
                lambda session: postpone(
                    session, due, why, refresh_token=fresh, until_ms=at_ms + AGAIN_MS
                )
            )
            return why
        reading = Reading(
            at_ms=at_ms,
            refresh_token=provider.seal(proof.refresh_token or token, due.key_hash),
            tokens_ms=self._sso.tokens_ms,
        )
        if not self._database.write(lambda session: renew(session, due, proof.person, reading)):
            log.info("sso_access_ended", subject=due.subject, reason="no rule matches the groups")
        return ""

    def _end(self, due: DueIdentity, why: str) -> None:
        self._database.write(lambda session: end_access(session, due, why, now_ms=self._now_ms()))
        log.info("sso_access_ended", subject=due.subject, reason=why)
