"""The login of a user: an API's URL and a token, in a file that only the user can read."""

import os
import stat
from pathlib import Path
from typing import NamedTuple

import msgspec

from warren.errors import CommandError
from warren.settings.settings import config_folder


class Login(NamedTuple):
    """An API's URL, and a token for it; `is_own`: the login made it, so the logout ends it."""

    url: str
    token: str
    is_own: bool = False


def login_file() -> Path:
    """Return the path of the file, which may not exist."""
    return config_folder() / "warren" / "login.json"


def stored_login() -> Login | None:
    """Return the login; None if there is none.

    Raises:
        CommandError: others may read the file, or it is broken.

    """
    path = login_file()
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            data = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror or error}") from error
    if mode & 0o077:
        raise CommandError(
            f"{path}: expected nobody else to be able to read the token in it; "
            f"run: chmod 600 {path}"
        )
    try:
        return msgspec.json.decode(data, type=Login)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CommandError(f"{path}: cannot be read; to replace it: warren login URL") from error


def store_login(login: Login) -> None:
    """Replace the login.

    Raises:
        CommandError: the file cannot be written.

    """
    path = login_file()
    new = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(login))
        new.replace(path)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror or error}") from error


def forget_login() -> bool:
    """Remove the login; return whether there was one."""
    path = login_file()
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise CommandError(f"cannot remove {path}: {error.strerror or error}") from error
    return True
