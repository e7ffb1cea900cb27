"""Runs short `warren` commands in forks of a process that has imported them already.

    python -P warm_command.py DESCRIPTOR COMMAND...

Half a second of each such command is imports, which the tests would wait for hundreds of times.
Each command is a process of its own, with its own folder, environment, outputs and status. It
ends with its socket. It is a program, so it imports nothing of the tests.
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

#: Imported by commands when they need it.
_IMPORTED_LATER = (
    "alembic.command",
    "pika",
    "pymysql",
    "sql.schema.migration",
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
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody has to wait for a watcher
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
    """Tell the command's process id, then its status; only the command returns from here."""
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
        # Taking hundreds of modules apart would copy their memory, which is this fork's alone.
        sys.stdout.flush()
        os._exit(int(end.code or 0))


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
