"""A browser without a screen for a console at a real port: cookies, tokens, and all that it got."""

import http.cookiejar
import re
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    text: str
    place: str


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


class PlainBrowser:
    """Keeps cookies, sends the token of the page it saw last, follows nothing by itself."""

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
        """Send a form with the token."""
        data = urllib.parse.urlencode({"csrf_token": self._token} | form).encode()
        return self._ask(urllib.request.Request(self.url + path, data))

    def sign_in(self, name: str, password: str) -> Answer:
        """Sign in by the form; afterwards the new session's token is known."""
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
