"""Detects session cookies that no console of the cluster has signed."""

from flask import current_app, request
from flask.sessions import SecureCookieSessionInterface
from itsdangerous import BadSignature, SignatureExpired


def is_present() -> bool:
    """Return whether this request carries such a cookie; Flask itself just ignores it."""
    interface = current_app.session_interface
    assert isinstance(interface, SecureCookieSessionInterface)
    serializer = interface.get_signing_serializer(current_app)
    sent = request.cookies.get(interface.get_cookie_name(current_app))
    if not sent or serializer is None:
        return False
    longest = int(current_app.permanent_session_lifetime.total_seconds())
    try:
        serializer.loads(sent, max_age=longest)
    except SignatureExpired:
        return False
    except BadSignature:
        return True
    return False
