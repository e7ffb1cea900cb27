#!/usr/bin/env python3
"""Print RabbitMQ definitions: a vhost, and users with only the rights that Warren needs.

    make_definitions.py --app reports --app my-app

There is one user for schedulers, one for consoles, which can only ask questions, and one for each
app's executors: `executor-<app>`. Each has its own password, so that a compromised executor opens
no other app's queues. Passwords come from the variables SCHEDULER_PASSWORD, CONSOLE_PASSWORD, and
for each app EXECUTOR_PASSWORD_<APP> (EXECUTOR_PASSWORD_REPORTS, EXECUTOR_PASSWORD_MY_APP).

Load the result with `rabbitmqctl import_definitions FILE`, or at RabbitMQ's start with
`load_definitions = FILE` in its configuration. This script needs only Python.
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
    apps = list(dict.fromkeys(given.app))
    passwords = read_passwords(apps)
    text = json.dumps(definitions(given.vhost, apps, passwords), indent=2) + "\n"
    if not given.output:
        print(text, end="")  # noqa: T201 - it is what the command is for
        return
    with open(given.output, "w", encoding="utf-8") as file:  # noqa: PTH123 - one line
        file.write(text)


def read_passwords(apps: list[str]) -> dict[str, str]:
    """Return each user's password from the environment, or end the program."""
    variables = {"scheduler": "SCHEDULER_PASSWORD", "console": "CONSOLE_PASSWORD"}
    for app in apps:
        variables[f"executor-{app}"] = f"EXECUTOR_PASSWORD_{app.upper().replace('-', '_')}"
    if os.environ.get("EXECUTOR_PASSWORD"):
        wanted = ", ".join(variables[f"executor-{app}"] for app in apps)
        sys.exit(f"error: expected a password for each app in {wanted}; EXECUTOR_PASSWORD is none")
    found = {user: password(name) for user, name in variables.items()}
    owners: dict[str, str] = {}
    for user, one in found.items():
        first = owners.setdefault(one, user)
        if first != user:
            sys.exit(
                f"error: expected {variables[user]} to be a password of its own, "
                f"got that of {variables[first]}"
            )
    return found


def password(name: str) -> str:
    """Return a password from the environment, or end the program."""
    found = os.environ.get(name, "")
    if len(found) < SHORTEST:
        sys.exit(f"error: expected {name} to have at least {SHORTEST} characters")
    return found


def definitions(vhost: str, apps: list[str], passwords: dict[str, str]) -> dict[str, Any]:
    """Return vhost, users and their permissions; each permission is a regular expression."""
    rights = {
        "scheduler": {"configure": r"^warren\.", "write": r"^warren\.", "read": r"^warren\."},
        # Executors treat whatever comes through warren.ask as a question, or ignore it.
        "console": {
            "configure": r"^warren\.answer\.console-",
            "write": r"^warren\.(ask$|answer\.console-)",
            "read": r"^warren\.(reply$|answer\.console-)",
        },
    }
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
