"""Sends requests over persistent connections, which threads may share."""

import os
import threading
from collections import deque
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection

from warren.client.address import ApiAddress
from warren.client.exchange import Lost, Request, Response


class Connections:
    """The idle connections to an API."""

    def __init__(self, address: ApiAddress, timeout: float) -> None:
        self._address = address
        self._timeout = timeout
        self._lock = threading.Lock()
        self._free: deque[HTTPConnection] = deque()
        self._owner = os.getpid()

    def send(self, request: Request) -> Response | Lost:
        """Send a request; return the answer, or Lost if there is none."""
        connection = self._take()
        is_used = connection.sock is not None
        try:
            if not is_used:
                try:
                    connection.connect()
                except OSError as error:
                    return Lost(error, is_unreachable=not isinstance(error, TimeoutError))
            response = self._exchanged(connection, request)
        except TimeoutError as error:
            connection.close()
            return Lost(error, is_unreachable=False)
        except (OSError, HTTPException) as error:
            connection.close()
            # The server may have closed a connection that was kept.
            return self.send(request) if is_used else Lost(error, is_unreachable=False)
        except BaseException:
            connection.close()
            raise
        if connection.sock is not None:
            self._give_back(connection)
        return response

    def close(self) -> None:
        """Close the connections; the next request opens a new one."""
        with self._lock:
            free, self._free = self._free, deque()
        for connection in free:
            connection.close()

    def _exchanged(self, connection: HTTPConnection, request: Request) -> Response:
        connection.timeout = self._timeout + request.wait_seconds
        connection.sock.settimeout(connection.timeout)
        target, headers = self._address.target(request), self._address.headers(request)
        with suppress(ConnectionError):  # an answer may come before all is sent, such as 413
            connection.request(request.method, target, body=request.body, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        named = {name.lower(): value for name, value in answer.headers.items()}
        return Response(answer.status, named, body)

    def _take(self) -> HTTPConnection:
        with self._lock:
            if self._owner != os.getpid():  # after a fork, they belong to the parent
                self._owner, self._free = os.getpid(), deque()
            if self._free:
                return self._free.pop()
        host, port, tls = self._address.host, self._address.port, self._address.tls
        if tls is None:
            return HTTPConnection(host, port, timeout=self._timeout)
        return HTTPSConnection(host, port, timeout=self._timeout, context=tls)

    def _give_back(self, connection: HTTPConnection) -> None:
        with self._lock:
            self._free.append(connection)
