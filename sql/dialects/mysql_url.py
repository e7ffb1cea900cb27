"""Checks the URL of a MySQL or MariaDB server, so that it says for certain where a connection goes.

Needs no library: settings are read where SQLAlchemy is not installed.
"""

from difflib import get_close_matches
from urllib.parse import parse_qsl, urlsplit

#: Names a server on this machine, so its host must be `localhost`.
SOCKET = "unix_socket"
#: Arguments that neither name another server nor weaken how its certificate is verified.
ARGUMENTS = ("charset", "ssl_ca", "ssl_capath", "ssl_cert", "ssl_cipher", "ssl_key", SOCKET)


def check_mysql_url(url: str) -> None:
    """Check the arguments of a URL, and that everybody reads the same host in it.

    Raises:
        ValueError: an argument is not of ARGUMENTS, or a special character is not quoted. The
            message holds no part of a password.

    """
    parts = urlsplit(url)
    # SQLAlchemy takes a / or ? before an @ for a part of the password, and knows no fragment.
    if not url.isprintable() or "#" in url or "@" in parts.path + parts.query:
        raise ValueError("a special character is not quoted; write %23 for #, %2F for /, %40 for @")
    names = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    for name in names:
        if name not in ARGUMENTS:
            near = get_close_matches(name, ARGUMENTS, 1)
            known = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(ARGUMENTS)}"
            raise ValueError(f"unknown argument {name[:40]!r}, {known}")
        if name == SOCKET and parts.hostname != "localhost":
            raise ValueError(f"{SOCKET} goes with the host localhost only")
        if names.count(name) > 1:
            raise ValueError(f"the argument {name!r} occurs twice")
