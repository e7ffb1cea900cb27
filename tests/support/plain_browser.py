"""An HTTP client of a console at a real port, with cookies and form tokens."""

import http.cookiejar
import re
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    text: str
    place: str


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


class PlainBrowser:
    """Keeps cookies, sends the form token of the last page, and follows no redirects."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.cookies = http.cookiejar.CookieJar()
        self.answers: list[Answer] = []
        self._open = urllib.request.build_opener(
            urllib.request.HTTPCookieProcessor(self.cookies), _NoRedirect()
        ).open
        self._token = ""

    def get(self, path: str, headers: dict[str, str] | None = None) -> Answer:
        """Open a page."""
        return self._ask(urllib.request.Request(self.url + path, headers=headers or {}))

    def post(self, path: str, **form: str) -> Answer:
        """Submit a form with its token."""
        data = urllib.parse.urlencode({"csrf_token": self._token} | form).encode()
        return self._ask(urllib.request.Request(self.url + path, data))

    def sign_in(self, name: str, password: str) -> Answer:
        """Sign in with the form, and store the new session's form token."""
        self.get("/login")
        answer = self.post("/login", username=name, password=password)
        self.get("/account")
        return answer

    def _ask(self, request: urllib.request.Request) -> Answer:
        try:
            with self._open(request, timeout=20) as found:
                answer = Answer(found.status, found.read().decode(), "")
        except urllib.error.HTTPError as error:
            place = error.headers.get("Location", "")
            answer = Answer(error.code, error.read().decode(), place)
        if token := re.search(r'name="csrf_token" value="([^"]+)"', answer.text):
            self._token = token[1]
        self.answers.append(answer)
        return answer
