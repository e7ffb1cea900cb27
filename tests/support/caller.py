"""An HTTP client of the console that can send requests without waiting for the answers."""

import http.client
import re
import urllib.parse
from http.cookies import SimpleCookie
from typing import NamedTuple

#: Longer than any page takes.
PATIENCE_SECONDS = 30.0


class Answer(NamedTuple):
    """A response."""

    status: int
    text: str


class Caller:
    """Keeps cookies and the form's token; each request has its own connection."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._netloc = urllib.parse.urlsplit(url).netloc
        self._cookies: dict[str, str] = {}
        self._token = ""

    def sign_in(self, name: str, password: str) -> None:
        """Sign in, and store the token of forms."""
        self.get("/login")
        answer = self.hear(self.send("/login", username=name, password=password))
        assert answer.status == 303, answer.text[:500]
        self.get("/account")

    def get(self, path: str) -> Answer:
        """Open a page."""
        return self.hear(self.open(path))

    def open(self, path: str) -> http.client.HTTPConnection:
        """Request a page; `hear` returns the answer, now or later."""
        return self._ask("GET", path)

    def send(self, path: str, **fields: object) -> http.client.HTTPConnection:
        """Submit a form; `hear` returns the answer, now or later."""
        return self._ask("POST", path, urllib.parse.urlencode({"csrf_token": self._token} | fields))

    def hear(self, connection: http.client.HTTPConnection) -> Answer:
        """Return the answer to a request."""
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        for line in answer.headers.get_all("Set-Cookie") or ():
            self._cookies |= {name: part.value for name, part in SimpleCookie(line).items()}
        if found := re.search(r'name="csrf_token" value="([^"]+)"', text):
            self._token = found[1]
        return Answer(answer.status, text)

    def _ask(self, method: str, path: str, body: str | None = None) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(self._netloc, timeout=PATIENCE_SECONDS)
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self._cookies.items())}
        if body is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        connection.request(method, path, body, headers)
        return connection
