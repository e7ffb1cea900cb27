"""Adds the port to the name of the session cookie: one host may serve two consoles."""

from urllib.parse import urlsplit

from flask import Flask, request
from flask.sessions import SecureCookieSessionInterface


class CookiePerPort(SecureCookieSessionInterface):
    """Keeps the sessions of two consoles on one host apart."""

    def get_cookie_name(self, app: Flask) -> str:
        """Return the configured name, with the port of the Host header if it has one."""
        name = super().get_cookie_name(app)
        try:
            port = urlsplit(f"//{request.host}").port
        except ValueError:
            return name
        return f"{name}-{port}" if port else name
