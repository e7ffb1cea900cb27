#!/usr/bin/env python3
"""Print RabbitMQ definitions: a vhost, and users that may do what Warren does and no more.

    SCHEDULER_PASSWORD=… EXECUTOR_PASSWORD=… make_definitions.py --app reports --app mails

Schedulers get one user, and executors one for each app: `executor-<app>`, all with the password of
EXECUTOR_PASSWORD, or each with one of its own in EXECUTOR_PASSWORD_<APP> (REPORTS, MY_APP).
RabbitMQ takes the result by `rabbitmqctl import_definitions FILE`, or at its start by
`load_definitions = FILE` in its configuration. This needs Python and nothing else.
"""

import argparse
import base64
import hashlib
import json
import os
import re
import secrets
import sys
from typing import Any

APP = re.compile(r"[a-z][a-z0-9-]{2,63}")
SHORTEST = 16


def main() -> None:
    """Read the command line and the environment, print JSON."""
    parser = argparse.ArgumentParser(description="Print RabbitMQ definitions for Warren.")
    parser.add_argument("--vhost", default="warren")
    parser.add_argument("--app", action="append", required=True, help="may be repeated")
    parser.add_argument("--output", help="write there, readable by all, instead of printing")
    given = parser.parse_args()
    for app in given.app:
        if not APP.fullmatch(app):
            sys.exit(f"error: expected app to be a name like {APP.pattern}, got: {app!r}")
    passwords = {"scheduler": password("SCHEDULER_PASSWORD")}
    for app in given.app:
        own = f"EXECUTOR_PASSWORD_{app.upper().replace('-', '_')}"
        name = own if os.environ.get(own) else "EXECUTOR_PASSWORD"
        passwords[f"executor-{app}"] = password(name)
    text = json.dumps(definitions(given.vhost, given.app, passwords), indent=2) + "\n"
    if not given.output:
        print(text, end="")  # noqa: T201 - it is what the command is for
        return
    with open(given.output, "w", encoding="utf-8") as file:  # noqa: PTH123 - one line
        file.write(text)


def password(name: str) -> str:
    """Return a password from the environment, or end the program."""
    found = os.environ.get(name, "")
    if len(found) < SHORTEST:
        sys.exit(f"error: expected {name} to have at least {SHORTEST} characters")
    return found


def definitions(vhost: str, apps: list[str], passwords: dict[str, str]) -> dict[str, Any]:
    """Return vhost, users and their permissions; each permission is a regular expression."""
    rights = {"scheduler": {"configure": r"^warren\.", "write": r"^warren\.", "read": r"^warren\."}}
    for app in apps:
        # It declares nothing, so it needs no `configure`; nor the default exchange, through which
        # it could write into every queue.
        rights[f"executor-{app}"] = {
            "configure": "^$",
            "write": r"^warren\.reply$",
            "read": rf"^warren\.(run|cmd)\.{app}\.",
        }
    return {
        "vhosts": [{"name": vhost}],
        "users": [
            {
                "name": name,
                "password_hash": hashed(one),
                "hashing_algorithm": "rabbit_password_hashing_sha256",
                "tags": [],
            }
            for name, one in passwords.items()
        ],
        "permissions": [{"user": name, "vhost": vhost, **right} for name, right in rights.items()],
    }


def hashed(one: str) -> str:
    """Return a password as RabbitMQ keeps it: four bytes of salt, then SHA-256 of both."""
    salt = secrets.token_bytes(4)
    return base64.b64encode(salt + hashlib.sha256(salt + one.encode()).digest()).decode()


if __name__ == "__main__":
    main()
