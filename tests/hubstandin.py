"""A stand-in for the model hub's HTTP API, on 127.0.0.1: one repository, served from memory."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

LARGE_BYTES = 512


@dataclass(kw_only=True)
class HubStandIn:
    """What the hub holds, and what it was asked for; change the fields while it serves."""

    repo: str
    commit: str
    files: dict[str, bytes]
    damaged: set[str] = field(default_factory=set)
    broken: bool = False
    asked: list[str] = field(default_factory=list)
    endpoint: str = ""

    def info(self) -> bytes:
        """Return the answer to a model's metadata."""
        siblings = [self._sibling(name, content) for name, content in self.files.items()]
        return json.dumps({"id": self.repo, "sha": self.commit, "siblings": siblings}).encode()

    def etag(self, name: str) -> str:
        """Return what the hub calls a file's content: SHA-256 for large files, git's blob hash for others."""
        content = self.files[name]
        if len(content) > LARGE_BYTES:
            return hashlib.sha256(content).hexdigest()
        return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()

    def _sibling(self, name: str, content: bytes) -> dict[str, object]:
        entry: dict[str, object] = {"rfilename": name, "size": len(content), "blobId": self.etag(name)}
        if len(content) > LARGE_BYTES:
            entry |= {"blobId": "0" * 40}
            entry["lfs"] = {"sha256": self.etag(name), "size": len(content), "pointerSize": 130}
        return entry


def files_of(folder: Path, *, onnx_at: str = "onnx/model.onnx") -> dict[str, bytes]:
    """Return a model folder's files as a repository holds them."""
    return {
        onnx_at if path.name == "model.onnx" else path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@contextmanager
def serving(hub: HubStandIn) -> Iterator[HubStandIn]:
    """Serve a stand-in on a free port until the block ends."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    hub.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hub: HubStandIn

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the tests' output clean."""

    def _answer(self, *, with_body: bool) -> None:
        hub = self.hub
        path = unquote(urlsplit(self.path).path)
        hub.asked.append(f"{self.command} {path}")
        metadata = {f"/api/models/{hub.repo}"}
        metadata |= {f"/api/models/{hub.repo}/revision/{revision}" for revision in ("main", "v1", hub.commit)}
        prefix = f"/{hub.repo}/resolve/{hub.commit}/"
        name = path.removeprefix(prefix)
        if hub.broken:
            self._send(500, b"", {}, with_body=with_body)
        elif path in metadata:
            self._send(200, hub.info(), {"Content-Type": "application/json"}, with_body=with_body)
        elif path.startswith(prefix) and name in hub.files:
            self._send_file(name, with_body=with_body)
        elif path.startswith(f"/api/models/{hub.repo}/"):
            self._send(404, b"", {"X-Error-Code": "RevisionNotFound"}, with_body=with_body)
        else:
            self._send(404, b"", {"X-Error-Code": "RepoNotFound"}, with_body=with_body)

    def _send_file(self, name: str, *, with_body: bool) -> None:
        hub = self.hub
        content = hub.files[name]
        headers = {"X-Repo-Commit": hub.commit, "ETag": f'"{hub.etag(name)}"'}
        if len(content) > LARGE_BYTES:
            headers |= {"X-Linked-Etag": f'"{hub.etag(name)}"', "X-Linked-Size": str(len(content))}
        if name in hub.damaged:
            # one bit on the way
            content = content[:-1] + bytes([content[-1] ^ 1])
        self._send(200, content, headers, with_body=with_body)

    def _send(self, status: int, body: bytes, headers: dict[str, str], *, with_body: bool) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)
