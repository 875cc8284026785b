"""A loopback web server of files that can be slow, fail, cut short or lie, as it is told."""

import contextlib
import hashlib
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from ttl_mm.files.archives.write_tar import write_tar

SHARDS, IMAGES = 4, 5  # and images in each
SIZE = 3000  # bytes of an image


def content(shard: int, image: int) -> bytes:
    """What stands in the place of an image."""
    return bytes([shard, image]) * (SIZE // 2)


def write_shards(folder: Path) -> None:
    """The shards 000.tar to 003.tar, with the files 0.jpg to 4.jpg each."""
    folder.mkdir(parents=True)
    for shard in range(SHARDS):
        files = [(f'{i}.jpg', content(shard, i)) for i in range(IMAGES)]
        write_tar(folder / f'{shard:03}.tar', files)


class Store:
    """Serves a folder, with lists of what is in it.

    ``faults`` maps a name to a list of misbehaviors, one for each transfer of that file; when the
    list has ended the file is served well. ``always`` is the misbehavior of all transfers.
    """

    def __init__(self, folder: Path, user: str = '') -> None:
        self.folder, self.user = folder, user
        self.faults: dict[str, list[str]] = {}
        self.always = ''
        self.tag = 'md5'  # what the ETag is: 'md5', 'size' or ''
        self.lists = True
        self.transfers: list[str] = []  # names, in the order of their requests
        self.stop = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self):
                outer.answer(self, head=True)

            def do_GET(self):
                with contextlib.suppress(OSError):
                    outer.answer(self, head=False)

            def log_message(self, *args):
                pass

        self.http = ThreadingHTTPServer(('127.0.0.1', 0), Handler)

    @property
    def url(self) -> str:
        return f'http://127.0.0.1:{self.http.server_port}'

    def __enter__(self):
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *exc):
        self.stop.set()
        self.http.shutdown()
        self.http.server_close()

    def answer(self, request, head: bool) -> None:
        name = request.path.strip('/')
        path = self.folder / name
        if self.user and self.user not in request.headers.get('Authorization', ''):
            return self.send(request, 401)
        if path.is_dir() and self.lists:
            names = (f'{p.name}/' if p.is_dir() else p.name for p in sorted(path.iterdir()))
            page = ''.join(f'<a href="{name}">{name}</a>\n' for name in names)
            return self.send(request, 200, page.encode(), **{'Content-Type': 'text/html'})
        if not path.is_file():
            return self.send(request, 404)
        data = path.read_bytes()
        tag = {'md5': self.md5(path), 'size': f'{len(data)}-x', '': ''}[self.tag]
        headers = {'ETag': f'"{tag}"'} if tag else {}
        if head:
            return self.send(request, 200, data, body=False, **headers)
        self.transfers.append(name)
        faults = self.faults.get(name) or []
        fault = faults.pop(0) if faults else self.always
        return self.misbehave(request, fault, data, headers)

    def md5(self, path: Path) -> str:
        return hashlib.md5(path.read_bytes()).hexdigest()

    def misbehave(self, request, fault: str, data: bytes, headers: dict[str, str]) -> None:
        size = len(data)
        if fault == 'broken':
            self.send(request, 500)
        elif fault == 'forbidden':
            self.send(request, 403)
        elif fault == 'closes':
            request.connection.close()
        elif fault == 'cut':
            self.send(request, 200, data[: size // 2], length=size, **headers)
        elif fault == 'short':  # and says so
            self.send(request, 200, data[: size // 2], **headers)
        elif fault == 'long':
            self.send(request, 200, data + bytes(5000), **headers)
        elif fault == 'wrong':
            self.send(request, 200, data[:600] + b'other' + data[605:], **headers)
        elif fault == 'page':
            self.send(request, 200, b'<html>sign in</html>', **headers)
        elif fault == 'stalls':
            self.send(request, 200, data[: size // 2], length=size, **headers)
            self.stop.wait(20)
        elif fault == 'slow':
            self.send(request, 200, b'', length=size, **headers)
            for start in range(0, size, 4096):
                request.wfile.write(data[start : start + 4096])
                time.sleep(0.01)
        else:
            assert not fault, fault
            self.send(request, 200, data, **headers)

    def send(self, request, status, data=b'', body=True, length=None, **headers) -> None:
        request.send_response(status)
        request.send_header('Content-Length', str(len(data) if length is None else length))
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        if body:
            request.wfile.write(data)
