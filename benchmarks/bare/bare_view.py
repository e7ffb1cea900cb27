"""A bare Flask view behind the same server: `python -m benchmarks.bare.bare_view`."""

import signal
import threading

from flask import Flask

from warren.admin_web.serving.http_server import ConsoleServer
from warren.admin_web.serving.web_process import API_THREADS


def main() -> None:
    """Serve until SIGTERM."""
    app = Flask("bare")
    app.add_url_rule("/", view_func=lambda: {"status": "ok"})
    app.config["SESSION_COOKIE_SECURE"] = False
    server = ConsoleServer(app, host="127.0.0.1", port=0, threads=API_THREADS)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    server.start()
    print(f"bare: http://127.0.0.1:{server.port}/", flush=True)
    ended.wait()


if __name__ == "__main__":
    main()
