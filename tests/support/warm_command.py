"""Runs short `warren` commands in forks of a process that has already imported them.

    python -P warm_command.py DESCRIPTOR COMMAND...

Imports take half a second of each command, and tests run hundreds. Each command is a separate
process with its own folder, environment, outputs and status. The program ends with its socket. It
imports nothing of the tests.
"""

import gc
import json
import os
import signal
import socket
import sys
import time
from importlib import import_module
from typing import NoReturn

#: Modules that commands import only when they need them.
_IMPORTED_LATER = (
    "alembic.command",
    "pika",
    "pymysql",
    "warren.sql.schema.migration",
    "sqlalchemy.dialects.mysql.pymysql",
    "sqlalchemy.dialects.sqlite",
    "warren.error_output",
)


def serve(requests: socket.socket, commands: list[str]) -> None:
    """Fork for each request until the other end is closed."""
    from warren.cli import COMMANDS  # noqa: PLC0415 - the tests import this module without it

    for module in (*_IMPORTED_LATER, *(COMMANDS[command][0] for command in commands)):
        import_module(module)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # watchers are reaped automatically
    while True:
        _, descriptors, _, _ = socket.recv_fds(requests, 1, 5)
        if not descriptors:
            return
        if os.fork() == 0:
            requests.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _watch(*descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _watch(request: int, status: int, *streams: int) -> None:
    """Send the command's process id, then its status; only the command returns from here."""
    pid = os.fork()
    if pid == 0:
        os.close(status)
        _run(request, streams)
    os.write(status, b"%d\n" % pid)
    _, ended = os.waitpid(pid, 0)
    os.write(status, b"%d\n" % os.waitstatus_to_exitcode(ended))
    os._exit(0)


def _run(request: int, streams: tuple[int, ...]) -> NoReturn:
    with open(request, "rb") as file:
        wanted = json.load(file)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(wanted["folder"])
    os.environ.clear()
    os.environ.update(wanted["environment"])
    time.tzset()
    sys.argv = ["warren", *wanted["arguments"]]
    from warren.cli import main  # noqa: PLC0415 - see above

    try:
        main()
    except SystemExit as end:
        # Exit without tearing down hundreds of modules, which would copy their memory.
        sys.stdout.flush()
        os._exit(int(end.code or 0))


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
