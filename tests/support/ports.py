"""Free ports of 127.0.0.1 for services that tests start."""

import socket


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listened on a moment ago.

    Services that start in the same moment each need their own: `free_ports` keeps them apart.
    """
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Return `count` different free ports, all held open until the last is known."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [server.getsockname()[1] for server in held]
    finally:
        for server in held:
            server.close()
