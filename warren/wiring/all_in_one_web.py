"""What the console and the API of `warren up` have in common: their resources, and a free port.

The console inside `warren up`, on a free port.

The API inside `warren up`, on a free port, and a token for it.
"""

import errno
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from warren.actions.trigger import client_on
from warren.admin_web.serving.api_process import ApiProcess
from warren.admin_web.serving.broker_link import ConsoleConnections
from warren.admin_web.serving.console_process import Console
from warren.broker.boot import boot_seconds
from warren.broker.keys import ClusterKeys
from warren.broker.transport import Transport
from warren.errors import CommandError
from warren.scheduler.commands.tokens.scopes import Scope
from warren.scheduler.commands.tokens.token_commands import MOST_DAYS, TokenSpec
from warren.scheduler.commands.tokens.token_text import hash_of, is_token
from warren.settings.settings import HOME, Settings
from warren.sql.accounts import tokens, users
from warren.sql.accounts.users import Role
from warren.sql.clock import DatabaseClock
from warren.sql.engine import Database
from warren.sql.instants import DAY_MS
from warren.wiring.api import api_address, make_api, open_api_database
from warren.wiring.console import address, make_console, open_console_database

Process = TypeVar("Process")
#: How many ports to try from the default one on, so that several `warren up` on one machine work.
NEXT_PORTS = 20


class WebResources:
    """The database, clock and link to executors of a console or API beside a scheduler.

    Args:
        open_database: opens a database by its URL beside another one.
        beside: the scheduler's database; the new one has its own connections to the same file.
        transport: for the link to executors; closed here.
        secret: signs requests to executors.

    """

    def __init__(
        self,
        open_database: Callable[[str, Database], Database],
        beside: Database,
        transport: Transport,
        secret: str,
    ) -> None:
        self._transport = transport
        self._secret = secret
        self._connections: ConsoleConnections | None = None
        self.database = open_database(beside.url.render_as_string(hide_password=False), beside)

    def connect(self) -> tuple[DatabaseClock, ConsoleConnections]:
        """Open the link to executors; return it after the database's clock."""
        clock = DatabaseClock(self.database, monotonic=boot_seconds)
        self._connections = ConsoleConnections(
            self._transport, self.database, ClusterKeys(self._secret), clock.now_ms
        )
        return clock, self._connections

    def close(self) -> None:
        """Close everything."""
        if self._connections is not None:
            self._connections.close()
        self._transport.close()
        self.database.close()


def on_free_port(
    make: Callable[[int], Process], *, host: str, port: int, is_fixed: bool, how_to_set: str
) -> Process:
    """Return a process on this port, or on the first free one after it unless it `is_fixed`.

    `make` returns the process for a port, or raises OSError. Messages name the option
    `how_to_set`.

    Raises:
        CommandError: the ports are taken, or the host is not an address of this machine.

    """
    for one in range(port, port + 1 if is_fixed else port + NEXT_PORTS):
        try:
            return make(one)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise CommandError(f"cannot listen at {host}: {error}") from error
    raise CommandError(f"port {port} is taken; choose another with {how_to_set}")


class UpConsole:
    """A console in the same process as a scheduler.

    Args:
        settings: where it listens.
        database: the scheduler's; the console has its own connections to the same file.
        transport: for its link to executors; closed here.
        secret: signs its cookies and its requests to executors.

    """

    def __init__(
        self, settings: Settings, database: Database, transport: Transport, secret: str
    ) -> None:
        self._settings = settings
        self._secret = secret
        self._resources = WebResources(open_console_database, database, transport, secret)
        self._console: Console | None = None
        #: The first administrator's password, if that user was just created.
        self.password: str | None = None

    @property
    def address(self) -> str:
        """The console's URL; empty until it is started."""
        return address(self._settings, self._console.port) if self._console else ""

    def start(self) -> None:
        """Start serving.

        Raises:
            CommandError: the port is taken.

        """
        settings, database = self._settings, self._resources.database
        clock, connections = self._resources.connect()
        self._console = on_free_port(
            lambda port: make_console(
                settings, database, self._secret, clock, connections, port=port
            ),
            host=settings.host,
            port=settings.port,
            is_fixed="port" in settings.was_set,
            how_to_set="--port or WARREN_PORT",
        )
        self.password = self._console.start()

    def stop(self) -> None:
        """Stop serving and close all connections."""
        if self._console is not None:
            self._console.stop()
        self._resources.close()


#: The file with an administrator's token, readable only by the user who runs `warren up`.
TOKEN_FILE = HOME / "api-token"


class UpApi:
    """An API in the same process as a scheduler.

    Args:
        settings: where it listens.
        database: the scheduler's; the API has its own connections to the same file.
        transport: for its link to executors; closed here.
        secret: signs its requests to executors.

    """

    def __init__(
        self, settings: Settings, database: Database, transport: Transport, secret: str
    ) -> None:
        self._settings = settings
        self._resources = WebResources(open_api_database, database, transport, secret)
        self._process: ApiProcess | None = None
        self._has_token = False

    @property
    def call(self) -> str:
        """A shell command that lists the jobs; empty if there is no administrator."""
        if self._process is None or not self._has_token:
            return ""
        url = f"{api_address(self._settings, self._process.port)}/api/v1/jobs"
        return f'curl -H "Authorization: Bearer $(cat {TOKEN_FILE})" {url}'

    def start(self) -> None:
        """Start serving.

        Raises:
            CommandError: the port is taken.

        """
        settings, database = self._settings, self._resources.database
        clock, connections = self._resources.connect()
        is_fixed = "api_port" in settings.was_set
        # A console on any free port means that the API may have any, too.
        is_any = settings.port == 0 and not is_fixed
        self._process = on_free_port(
            lambda port: make_api(settings, database, clock, connections, port=port),
            host=settings.api_host,
            port=0 if is_any else settings.api_port,
            is_fixed=is_fixed or is_any,
            how_to_set="WARREN_API_PORT",
        )
        self._process.start()
        self._has_token = keep_token(database, settings, TOKEN_FILE)

    def stop(self) -> None:
        """Stop serving and close all connections."""
        if self._process is not None:
            self._process.stop()
        self._resources.close()


def keep_token(database: Database, settings: Settings, path: Path) -> bool:
    """Make sure that a file has a valid token of an administrator.

    Return False if there is no administrator.
    """
    if _is_valid(database, path):
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


def _is_valid(database: Database, path: Path) -> bool:
    """Return whether a file has a token that is valid for at least another day."""
    try:
        text = path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return False
    found = database.read(lambda s: tokens.find(s, hash_of(text))) if is_token(text) else None
    if found is None:
        return False
    token, owner = found
    is_fresh = token.expires_at > time.time_ns() // 1_000_000 + DAY_MS
    return token.revoked_at is None and is_fresh and not owner.is_disabled
