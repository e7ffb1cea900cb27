"""Runs `warren` commands in forks of a process that has already imported them.

    python warm_command.py DESCRIPTOR COMMAND...

Imports take half a second to two of each command, and tests run hundreds. Each command is a
separate process with its own folder, environment, session, outputs and status; the script that it
is called by runs as it does in a process of its own. The program ends with its socket, and what
still runs ends with it. It imports nothing of the tests.
"""

import ctypes
import gc
import json
import os
import runpy
import signal
import socket
import sys
import time
from importlib import import_module
from multiprocessing import process as multiprocessing_process
from pathlib import Path

#: Modules that commands import only when they need them.
_IMPORTED_LATER = (
    "alembic.command",
    "multiprocessing.popen_spawn_posix",
    "pymysql",
    "warren.broker.rabbitmq.transport",
    "warren.sql.schema.migration",
    "sqlalchemy.dialects.mysql.pymysql",
    "sqlalchemy.dialects.sqlite",
    "warren.error_output",
    "warren.client.in_process",
)
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


def serve(requests: socket.socket, commands: list[str]) -> None:
    """Fork for each request until the other end is closed; a command returns with its end."""
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
            return
        for descriptor in descriptors:
            os.close(descriptor)


def _watch(request: int, status: int, *streams: int) -> None:
    """Send the command's process id, then its status; only the command returns from here."""
    _die_with_the_parent()
    pid = os.fork()
    if pid == 0:
        _die_with_the_parent()
        os.close(status)
        _run(request, streams)
        return
    os.write(status, b"%d\n" % pid)
    _, ended = os.waitpid(pid, 0)
    os.write(status, b"%d\n" % os.waitstatus_to_exitcode(ended))
    os._exit(0)


def _run(request: int, streams: tuple[int, ...]) -> None:
    with open(request, "rb") as file:
        wanted = json.load(file)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if wanted["session"]:
        os.setsid()
    os.chdir(wanted["folder"])
    os.environ.clear()
    os.environ.update(wanted["environment"])
    time.tzset()
    sys.argv = [wanted["script"], *wanted["arguments"]]
    sys.path[0] = str(Path(wanted["script"]).parent)
    multiprocessing_process.ORIGINAL_DIR = wanted["folder"]  # type: ignore[attr-defined]
    try:
        runpy.run_path(wanted["script"], run_name="__main__")
    except SystemExit as end:
        if wanted["session"]:
            raise
        # Exit without tearing down hundreds of modules, which would copy their memory.
        sys.stdout.flush()
        os._exit(int(end.code or 0))


def _die_with_the_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


if __name__ == "__main__":
    del sys.path[0]  # the folder of the tests' own modules
    sys.path.insert(0, str(Path(sys.executable).parent))
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
