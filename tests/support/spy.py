"""A handler and a script that search for secrets everywhere a job process can look.

They search for `hush-` and 32 digits, of which the first are those of the test: other tests have
secrets too. As a pattern, it does not find itself in memory.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_NO_CAPABILITIES = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
#: What to put before a program of ours, so that it has no more power than other users have.
POWERLESS = _NO_CAPABILITIES if os.geteuid() == 0 else ()

SOURCE = r"""
import ctypes, json, os, re

SECRET = re.compile(os.environ.get("SPY_PATTERN", "hush-[0-9a-f]{32}").encode())

def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        return type(error).__name__.encode()

def memory(pid):
    for line in read(f"/proc/{pid}/maps").decode().splitlines():
        span, rights, *_ = line.split()
        if rights.startswith("r") and not line.endswith(("[vvar]", "[vsyscall]", "[vvar_vclock]")):
            start, end = (int(each, 16) for each in span.split("-"))
            with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
                file.seek(start)
                try:
                    yield file.read(end - start)
                except OSError:
                    continue

def parents():
    pid = os.getppid()
    while pid:
        yield pid
        pid = int(read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[1])

def attached(pid):
    libc = ctypes.CDLL(None, use_errno=True)
    PTRACE_SEIZE, PTRACE_DETACH = 0x4206, 17
    done = libc.ptrace(PTRACE_SEIZE, pid, None, None) == 0
    return done

@job("spy")
def spy(context):
    zygote, executor, *_ = parents()
    everybody = [pid for pid in os.listdir("/proc") if pid.isdigit()]
    return json.dumps({
        "executor": executor,
        "own memory": any(SECRET.search(piece) for piece in memory("self")),
        "own environment": bool(SECRET.search(read("/proc/self/environ"))),
        "any environment": sorted(
            int(pid) for pid in everybody if SECRET.search(read(f"/proc/{pid}/environ"))
        ),
        "any command line": sorted(
            int(pid) for pid in everybody if SECRET.search(read(f"/proc/{pid}/cmdline"))
        ),
        "environments": [read(f"/proc/{pid}/environ").decode() for pid in (zygote, executor)],
        "memories": [read(f"/proc/{pid}/mem").decode() for pid in (zygote, executor)],
        "descriptors": [os.access(f"/proc/{pid}/fd/0", os.F_OK) for pid in (zygote, executor)],
        "traced": [attached(pid) for pid in (zygote, executor)],
    })
"""

_EXECUTOR = """
import json, os, pathlib, sys
from warren.broker.messages import ScriptLanguage
from tests.support import spy
from tests.support.slot_harness import SlotHarness
from warren.settings.settings import read_settings

settings = read_settings()
folder = pathlib.Path(sys.argv[1])
harness = SlotHarness(
    folder, spy.SOURCE, script_folder=folder / "scripts", script_languages=("shell",)
).open()
found = json.loads(harness.run("spy").message)
source = "cat /proc/$PPID/environ; cat /proc/self/environ"
script = harness.run("", script_language="shell", script_source=source)
found["script"] = harness.log_of(script.run_id)
found["kept"] = settings.secret
harness.close()
print(json.dumps(found))
"""


def spy_on_executor(
    folder: Path,
    environment: dict[str, str],
    *,
    outside: Sequence[str] = (),
    wrapper: Sequence[str] = (),
) -> dict[str, Any]:
    """Start an unprivileged executor with this environment; return what its jobs found.

    `outside` starts it with our rights, `wrapper` with its own.
    """
    done = subprocess.run(
        [*outside, *POWERLESS, *wrapper, sys.executable, "-c", _EXECUTOR, str(folder)],
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(sys.path), "SPY_PATTERN": _pattern(environment)}
        | environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _pattern(environment: dict[str, str]) -> str:
    """Return the pattern of the secret in these variables, or in a file that one of them names."""
    texts = [*environment.values()]
    texts += [Path(text).read_text() for text in texts if Path(text).is_file()]
    found = re.search("hush-([0-9a-f]{8})", " ".join(texts))
    first = "".join(f"[{digit}]" for digit in found[1]) if found else "[0-9a-f]{8}"
    return f"hush-{first}[0-9a-f]{{24}}"
