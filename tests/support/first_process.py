"""Starts a program as process 1 of its own process namespace, as a container engine does."""

import subprocess

import pytest

#: What to put before the program. It ends with it, and with its status.
AS_FIRST = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


def require_namespaces() -> None:
    """Skip the test where a process namespace cannot be made: it needs root."""
    try:
        done = subprocess.run([*AS_FIRST, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("unshare is not installed")
    if done.returncode:
        pytest.skip(f"no process namespace can be made here: {done.stderr}")
