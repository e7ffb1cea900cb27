"""A real receiver of OTLP over HTTP on 127.0.0.1 that stores spans."""

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from typing import Any, Self


class OtlpReceiver:
    """`spans` are the received spans in OTLP's format; `services` are their senders."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.services: set[str] = set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                if self.path == "/v1/traces":
                    receiver.take(body)
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def take(self, body: bytes) -> None:
        """Store the spans of one request."""
        service = import_module("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
        request = service.ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            for one in resource.resource.attributes:
                if one.key == "service.name":
                    self.services.add(one.value.string_value)
            for scope in resource.scope_spans:
                self.spans += scope.spans

    def by_name(self) -> dict[str, Any]:
        """Return the spans by name."""
        return {span.name: span for span in self.spans}

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
