"""The console and the API inside `warren up`, on free ports, and a token for the API."""

import errno
import secrets
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

from warren.admin_web.serving.web_process import WebProcess
from warren.broker.signing import ClusterKeys
from warren.broker.transport import Transport
from warren.errors import CommandError
from warren.local_client import client_on
from warren.scheduler.commands.tokens.scopes import Scope
from warren.scheduler.commands.tokens.token_commands import MAX_DAYS, TokenSpec
from warren.scheduler.commands.tokens.token_text import hash_of, is_token
from warren.settings.settings import HOME, Settings
from warren.sql.accounts import tokens, users
from warren.sql.accounts.users import Role
from warren.sql.engine import Database
from warren.sql.instants import DAY_MS
from warren.wiring.console import CONSOLE_POOL, console_url, make_console
from warren.wiring.web import (
    API_POOL,
    WebParts,
    api_url,
    make_api,
    open_web_database,
    web_parts,
)

Process = TypeVar("Process", bound=WebProcess)
#: How many ports to try from the default one on, so that one machine can run several `warren up`.
NEXT_PORTS = 20
#: The file with an administrator's token, readable only by the user who runs `warren up`.
TOKEN_FILE = HOME / "api-token"


class WebSite:
    """A console and an API in the same process as a scheduler.

    Args:
        settings: where they listen.
        database: the scheduler's; each of them has its own connections to the same file.
        transport: makes a link to executors.
        secret: signs cookies and requests to executors.

    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        transport: Callable[[], Transport],
        secret: str,
    ) -> None:
        self._settings = settings
        self._database = database
        self._transport = transport
        self._secret = secret
        self._held = ExitStack()
        #: The console's URL, and a shell command that lists the jobs by the API; empty until they
        #: are started, and the latter also if there is no administrator.
        self.address = self.call = ""
        #: The first administrator's password, if that user was just created.
        self.password: str | None = None

    def start(self) -> None:
        """Start serving.

        Raises:
            CommandError: a port is taken.

        """
        settings = self._settings
        parts = self._parts(CONSOLE_POOL)
        console = on_free_port(
            lambda port: make_console(parts, port),
            host=settings.host,
            port=settings.port,
            is_fixed="port" in settings.was_set,
            how_to_set="--port or WARREN_PORT",
        )
        self._held.callback(console.stop)
        console.start()
        self.password, self.address = console.password, console_url(settings, console.port)
        # After the console, which creates the first administrator, the owner of the API's token.
        self._start_api()

    def _start_api(self) -> None:
        settings, parts = self._settings, self._parts(API_POOL)
        is_fixed = "api_port" in settings.was_set
        # A console on any free port means that the API may have any, too.
        is_any = settings.port == 0 and not is_fixed
        api = on_free_port(
            lambda port: make_api(parts, port),
            host=settings.api_host,
            port=0 if is_any else settings.api_port,
            is_fixed=is_fixed or is_any,
            how_to_set="WARREN_API_PORT",
        )
        self._held.callback(api.stop)
        api.start()
        if keep_token(parts.database, settings, TOKEN_FILE):
            header = f"Authorization: Bearer $(cat {TOKEN_FILE})"
            self.call = f'curl -H "{header}" {api_url(settings, api.port)}/jobs'

    def _parts(self, pool_size: int) -> WebParts:
        url = self._database.url.render_as_string(hide_password=False)
        database = open_web_database(url, pool_size, self._database)
        self._held.callback(database.close)
        keys = ClusterKeys(self._secret)
        parts = web_parts(self._settings, database, self._transport(), keys, self._secret)
        return self._held.enter_context(parts)

    def stop(self) -> None:
        """Stop serving, the API first, and close all connections."""
        self._held.close()


def on_free_port(
    make: Callable[[int], Process], *, host: str, port: int, is_fixed: bool, how_to_set: str
) -> Process:
    """Return a process on this port, or on the first free one after it unless it `is_fixed`.

    `make` returns the process for a port, or raises OSError. Messages name the option
    `how_to_set`.

    Raises:
        CommandError: the ports are taken, or the host is not an address of this machine.

    """
    for candidate in range(port, port + 1 if is_fixed else port + NEXT_PORTS):
        try:
            return make(candidate)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise CommandError(f"cannot listen at {host}: {error}") from error
    raise CommandError(f"port {port} is taken; choose another with {how_to_set}")


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
        name=f"up-{secrets.token_hex(4)}", owner_id=owner.id, scopes=tuple(Scope), days=MAX_DAYS
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
    known = database.read(lambda s: tokens.find(s, hash_of(text))) if is_token(text) else None
    if known is None:
        return False
    token, owner = known
    is_fresh = token.expires_at > time.time_ns() // 1_000_000 + DAY_MS
    return token.revoked_at is None and is_fresh and not owner.is_disabled
