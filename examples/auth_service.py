"""A whole auth provider for Arauto, in the standard library alone.

    python examples/auth_service.py 9000

Set it as a hub's `authProvider`, with the header `Authorization: Bearer demo-key`. A client that sends the
credentials `alice:wonderland` then becomes the user `alice`.
"""

import base64
import hmac
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NODE_KEY = "Bearer demo-key"  # lets only our node ask; a real service reads it from its secrets
PASSWORDS = {"alice": "wonderland", "bob": "builder"}  # a real service keeps salted hashes
BODY_BYTES_MAX = 65_536


def decide(asked: dict[str, str]) -> dict[str, object]:
    """Say who someone is and what they may do."""
    user, _, password = base64.b64decode(asked["credentials"]).decode().partition(":")
    expected = PASSWORDS.get(user, "")
    if not expected or not hmac.compare_digest(password.encode(), expected.encode()):
        return {"success": False}
    return {
        "success": True,
        "user": user,
        "extra": {"hub": asked["hub"]},
        "channels": [
            {"channel": "stock:*", "subscribe": True},
            {"channel": f"orders:{user}:#", "subscribe": True, "publish": True},
        ],
        "rpcs": ["orders:*"],
        "expires_in_s": 3600,
    }


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        if not hmac.compare_digest(self.headers.get("Authorization", ""), NODE_KEY):
            self.send_error(403)
            return
        size_bytes = min(int(self.headers.get("Content-Length", 0)), BODY_BYTES_MAX)
        try:
            body = json.dumps(decide(json.loads(self.rfile.read(size_bytes)))).encode()
        except (ValueError, KeyError):  # not what a node sends
            body = b'{"success": false}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 9000
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print(f"listening on http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()
