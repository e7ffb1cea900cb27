"""The private names that job processes use do what they are used for, in every Python we name."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from warren.executor.fork_server import interpreter

ROOT = Path(interpreter.__file__).parents[3]

#: The versions of which `warren.executor.fork_server.interpreter` says that they were tried.
TRIED = ("3.11", "3.12", "3.13")

SCRIPT = """
import atexit, os, signal, sys, threading, _thread, time
from concurrent.futures import ThreadPoolExecutor
from warren.executor.fork_server import interpreter

assert interpreter.count_threads() == 0
lock = _thread.allocate_lock()
lock.acquire()
_thread.start_new_thread(lock.acquire, ())
while interpreter.count_threads() != 1:
    time.sleep(0.001)
lock.release()
while interpreter.count_threads():
    time.sleep(0.001)

answer = lambda *_: None
signal.signal(signal.SIGUSR1, answer)
assert interpreter.get_signal_handler(signal.SIGUSR1) is answer
assert interpreter.get_signal_handler(signal.SIGUSR2) == signal.SIG_DFL

living = interpreter.environment()
os.environ["NEW"] = "1"
assert living[b"NEW"] == b"1"
del os.environ["NEW"]
assert b"NEW" not in living

ThreadPoolExecutor().submit(int).result()
order = []
atexit.register(order.append, "atexit")
threading.Thread(target=lambda: (time.sleep(0.05), order.append("thread"))).start()
interpreter.join_threads()
interpreter.call_exit_functions()
assert order == ["thread", "atexit"], order
assert interpreter.count_threads() == 0
interpreter.join_threads()  # as multiprocessing does once more
os.write(1, b"%d.%d" % sys.version_info[:2])
os._exit(0)
"""


def interpreters() -> dict[str, str]:
    """Return the Python of each version tried that is on this machine."""
    own = "{}.{}".format(*sys.version_info)
    found = {version: shutil.which(f"python{version}") for version in TRIED}
    return {version: path for version, path in found.items() if path} | {own: sys.executable}


@pytest.mark.parametrize("version", TRIED)
def test_private_names_do_what_they_are_used_for(version: str) -> None:
    python = interpreters().get(version)
    if (
        python is None
        or subprocess.run([python, "-V"], capture_output=True, check=False).returncode
    ):
        pytest.skip(f"there is no Python {version} here")

    done = subprocess.run(
        [python, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, check=False, timeout=30
    )

    assert (done.stdout, done.stderr) == (version, "")


def test_module_names_the_versions_tried() -> None:
    text = Path(interpreter.__file__).read_text()

    assert tuple(re.findall(r"\b3\.\d\d\b", text.partition('"""\n\n')[0])) == TRIED


def test_private_names_are_taken_nowhere_else() -> None:
    taking = re.compile(
        r"""vars\((?!sys\))\w+\)\["_|\b(?:os|signal|threading|atexit|util|process|_thread"""
        r"""|multiprocessing|resource_tracker|asyncio|socket)\._(?!exit\b)\w"""
    )
    packages = ("executor", "broker", "scheduler", "sql", "admin_web", "warren")
    modules = [path for name in packages for path in (ROOT / name).rglob("*.py")]

    takers = {path.name for path in modules if taking.search(path.read_text())}

    assert takers == {"interpreter.py"}
