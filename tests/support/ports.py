"""Free ports of 127.0.0.1 for services started by tests."""

import random
import socket

# Below the kernel's ephemeral ports: an ephemeral port may be taken by another client while a
# service restarts, and a client that retries may even connect to itself.
_FIRST, _LAST = 12000, 32000


def free_port() -> int:
    """Return a port of 127.0.0.1 that was free a moment ago."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Return `count` different free ports, all reserved until the last one is known."""
    held: list[socket.socket] = []
    try:
        while len(held) < count:
            server = _bind(random.randint(_FIRST, _LAST))
            if server is not None:
                held.append(server)
        return [server.getsockname()[1] for server in held]
    finally:
        for server in held:
            server.close()


def _bind(port: int) -> socket.socket | None:
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError:
        return None
