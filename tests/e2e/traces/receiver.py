"""A receiver of OTLP over HTTP, which reads what arrives with OpenTelemetry's own definitions."""
import base64
import http.server
import json
import threading

from google.protobuf import json_format
from http_place import until
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"  # what a caller names
IDS = ("traceId", "spanId", "parentSpanId")


def with_bytes(value):
    """OTLP writes ids as hex digits, where protobuf's own JSON has base64."""
    if isinstance(value, list):
        return [with_bytes(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {key: base64.b64encode(bytes.fromhex(one)).decode() if key in IDS else with_bytes(one)
            for key, one in value.items()}


def value_of(value):
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [value_of(one) for one in value.array_value.values]
    return getattr(value, kind)


def attributes_of(what):
    found = {one.key: value_of(one.value) for one in what.attributes}
    assert len(found) == len(what.attributes), "an attribute is there twice"
    return found


class Span:
    def __init__(self, span, resource):
        self.trace, self.id = span.trace_id.hex(), span.span_id.hex()
        self.parent, self.state = span.parent_span_id.hex(), span.trace_state
        self.name, self.kind = span.name, span.kind
        self.start, self.end = span.start_time_unix_nano, span.end_time_unix_nano
        self.attributes, self.resource = attributes_of(span), resource
        self.events = [(one.name, attributes_of(one)) for one in span.events]
        self.status = span.status
        times = [one.time_unix_nano for one in span.events]
        assert len(span.trace_id) == 16 and len(span.span_id) == 8
        assert self.start <= self.end and times == sorted(times)
        assert all(self.start <= one <= self.end for one in times)


class Receiver:
    """Takes spans; or answers each post with a status, or not at all (None)."""

    def __init__(self, status=200):
        self.status, self.posts, self.headers = status, 0, []
        self._spans, self._lock, self._over = [], threading.Lock(), threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.take(self.path, self.headers, body)
                if outer.status is None:
                    outer._over.wait()
                    self.close_connection = True
                    return
                self.send_response(outer.status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *words):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def take(self, path, headers, body):
        assert path == "/v1/traces" and headers["Content-Type"] == "application/json"
        request = trace_service_pb2.ExportTraceServiceRequest()
        json_format.ParseDict(with_bytes(json.loads(body)), request)  # refuses unknown names
        found = [Span(span, attributes_of(group.resource)) for group in request.resource_spans
                 for scope in group.scope_spans for span in scope.spans]
        with self._lock:
            self.posts += 1
            self.headers.append(dict(headers))
            if self.status == 200:
                self._spans += found

    def spans(self, name=""):
        """Those that have arrived, whose names begin so."""
        with self._lock:
            return [one for one in self._spans if one.name.startswith(name)]

    def close(self):
        self._over.set()
        self.server.shutdown()
        self.server.server_close()


def one_span(receiver, name):
    found = until(lambda: receiver.spans(name), f"span {name}")
    assert len(found) == 1
    return found[0]
