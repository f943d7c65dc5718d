"""A bank to look at, on this machine: it prints every payment and acts once per Idempotency-Key.

python receiver.py                                      # in one terminal
TWICE_EFFECTS_SEND=true twice effects send              # in another
"""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, HTTPServer

PORT = 8799
paid: dict[str, bytes] = {}


class Bank(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        key = self.headers.get("Idempotency-Key")
        if key is None:
            print(f"PAID, without a key: {body.decode()}", flush=True)
        elif key not in paid:
            paid[key] = body
            print(f"PAID {key[:8]}: {body.decode()}", flush=True)
        elif paid[key] == body:
            print(f"known {key[:8]}: nothing is paid again", flush=True)
        self._answer(422 if key in paid and paid[key] != body else 200)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Payments are the log."""


if __name__ == "__main__":
    print(f"listening on http://127.0.0.1:{PORT}/payouts", flush=True)
    HTTPServer(("127.0.0.1", PORT), Bank).serve_forever()
