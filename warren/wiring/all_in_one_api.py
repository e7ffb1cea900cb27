"""The API inside `warren up`, on a free port, and a token for it."""

import secrets
import time
from pathlib import Path

from warren.actions.local_client import client_on
from warren.admin_web.serving.api_process import ApiProcess
from warren.broker.transport import Transport
from warren.scheduler.commands.tokens.scopes import Scope
from warren.scheduler.commands.tokens.token_commands import MOST_DAYS, TokenSpec
from warren.scheduler.commands.tokens.token_text import hash_of, is_token
from warren.settings.settings import HOME, Settings
from warren.sql.accounts import tokens, users
from warren.sql.accounts.users import Role
from warren.sql.engine import Database
from warren.sql.instants import DAY_MS
from warren.wiring.all_in_one_web import WebResources, on_free_port
from warren.wiring.api import api_address, make_api, open_api_database

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
