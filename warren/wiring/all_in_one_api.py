"""The API inside `warren up`, on a port that is free, and a token that works with it."""

import errno
import secrets
import time
from pathlib import Path

from admin_web.serving.api_process import ApiProcess
from admin_web.serving.broker_link import ConsoleConnections
from broker.keys import ClusterKeys
from broker.transport import Transport
from scheduler.commands.tokens.scopes import Scope
from scheduler.commands.tokens.token_commands import MOST_DAYS, TokenSpec
from scheduler.commands.tokens.token_text import hash_of, is_token
from sql.accounts import tokens, users
from sql.accounts.users import Role
from sql.clock import DatabaseClock
from sql.engine import Database
from warren.actions.local_client import client_on
from warren.errors import CommandError
from warren.settings.settings import HOME, Settings
from warren.wiring.all_in_one_console import NEXT_PORTS
from warren.wiring.api import api_address, make_api, open_api_database

#: The file with the starting user's token, readable by that user only.
TOKEN_FILE = HOME / "api-token"
_DAY_MS = 86_400_000


class UpApi:
    """An API beside a scheduler, in the same process.

    Args:
        settings: where it listens.
        database: the scheduler's; the API has connections of its own to the same file.
        transport: by which it asks executors for run logs; closed by it.
        secret: what its questions are signed with.

    """

    def __init__(
        self, settings: Settings, database: Database, transport: Transport, secret: str
    ) -> None:
        self._settings = settings
        self._transport = transport
        self._secret = secret
        url = database.url.render_as_string(hide_password=False)
        self._database = open_api_database(url, beside=database)
        self._process: ApiProcess | None = None
        self._connections: ConsoleConnections | None = None
        self._has_token = False

    @property
    def call(self) -> str:
        """A command line that lists the jobs; empty where there is no administrator."""
        if self._process is None or not self._has_token:
            return ""
        url = f"{api_address(self._settings, self._process.port)}/api/v1/jobs"
        return f'curl -H "Authorization: Bearer $(cat {TOKEN_FILE})" {url}'

    def start(self) -> None:
        """Begin to answer.

        Raises:
            CommandError: the port is taken.

        """
        clock = DatabaseClock(self._database)
        self._connections = ConsoleConnections(
            self._transport, self._database, ClusterKeys(self._secret), clock.now_ms
        )
        self._process = self._make(clock, self._connections)
        self._process.start()
        self._has_token = keep_token(self._database, self._settings, TOKEN_FILE)

    def stop(self) -> None:
        """End in order."""
        if self._process is not None:
            self._process.stop()
        if self._connections is not None:
            self._connections.close()
        self._transport.close()
        self._database.close()

    def _make(self, clock: DatabaseClock, connections: ConsoleConnections) -> ApiProcess:
        wanted, was_asked_for = self._settings.api_port, "api_port" in self._settings.was_set
        if not was_asked_for and self._settings.port == 0:
            wanted, was_asked_for = 0, True
        for port in range(wanted, wanted + 1 if was_asked_for else wanted + NEXT_PORTS):
            try:
                return make_api(self._settings, self._database, clock, connections, port=port)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    where = self._settings.api_host
                    raise CommandError(f"cannot listen at {where}: {error}") from error
        raise CommandError(f"port {wanted} is taken; choose another with WARREN_API_PORT")


def keep_token(database: Database, settings: Settings, path: Path) -> bool:
    """See that a file holds a token that counts, of an administrator; False when there is none."""
    if _counts(database, path):
        return True
    owner = next(
        (
            user
            for user in database.read(users.listing)
            if user.role == Role.ADMINISTRATOR and not user.is_disabled
        ),
        None,
    )
    if owner is None:
        return False
    spec = TokenSpec(
        name=f"up-{secrets.token_hex(4)}", owner_id=owner.id, scopes=tuple(Scope), days=MOST_DAYS
    )
    text = client_on(database, settings).commands.tokens.add(spec)
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(f"{text}\n")
    return True


def _counts(database: Database, path: Path) -> bool:
    """Return whether the token of a file counts, and for another day."""
    try:
        text = path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return False
    found = database.read(lambda s: tokens.find(s, hash_of(text))) if is_token(text) else None
    if found is None:
        return False
    token, owner = found
    is_fresh = token.expires_at > time.time_ns() // 1_000_000 + _DAY_MS
    return token.revoked_at is None and is_fresh and not owner.is_disabled
