"""A loopback HTTP server that misbehaves on request, and a zoo entry for the file it serves."""

import contextlib
import hashlib
import random
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ttl_mm.zoo.manifest import Entry

DATA = random.Random(0).randbytes(300_000)


def entry(*urls, hashed=True, **fields) -> Entry:
    """The entry of a zoo whose file is ``DATA``."""
    size, sha256 = (len(DATA), hashlib.sha256(DATA).hexdigest()) if hashed else (None, None)
    return Entry(
        name='net', file='net.pth', size=size, sha256=sha256, urls=urls, kind='backbone',
        license='none', about='test', backbone=None, **fields,
    )  # fmt: skip


class Server:
    """Serves ``data`` at any path; ``mode`` picks the misbehavior, one per request if a list."""

    def __init__(self, data: bytes, mode='good'):
        self.data, self.mode = data, mode
        self.requests = []  # (path, Range header)
        self.stop = threading.Event()  # ends every stall
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.requests.append((self.path, self.headers.get('Range')))
                mode = outer.mode
                if isinstance(mode, list):
                    mode = mode.pop(0) if len(mode) > 1 else mode[0]
                with contextlib.suppress(OSError):
                    if mode in (answers := outer.answers(self.path)):
                        outer.send(self, **answers[mode])
                    else:
                        getattr(outer, mode)(self)

            def log_message(self, *args):
                pass

        self.http = ThreadingHTTPServer(('127.0.0.1', 0), Handler)

    @property
    def url(self) -> str:
        return f'http://127.0.0.1:{self.http.server_port}/file.pth'

    def __enter__(self):
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *exc):
        self.stop.set()
        self.http.shutdown()
        self.http.server_close()

    def send(self, handler, body=b'', status=200, length=..., stall=False, **headers):
        """Answer with ``body``; ``length`` is the one claimed, None for no claim."""
        handler.send_response(status)
        if length is not None:
            handler.send_header('Content-Length', str(len(body) if length is ... else length))
        for name, value in headers.items():
            handler.send_header(name.replace('_', '-'), value)
        handler.end_headers()
        handler.wfile.write(body)
        if stall:
            self.stop.wait(20)

    def answers(self, path: str) -> dict[str, dict]:
        """The modes that are a single call of :meth:`send`, and its arguments."""
        data, size, page = self.data, len(self.data), b'<html>sign in first</html>'
        away = f'http://localhost:{self.http.server_port}/elsewhere'
        span = f'bytes 5-14/{size}'
        return {
            'ignores_range': dict(body=data),
            'continues_elsewhere': dict(body=data[5:15], status=206, Content_Range=span),
            'stalls': dict(body=data[:1000], length=size, stall=True),
            'closes_early': dict(body=data[: size // 2], length=size),
            'wrong_bytes': dict(body=bytes(size)),
            'wrong_bytes_half': dict(body=bytes(size // 2), length=size),
            'too_short': dict(body=data[:-7]),
            'too_long': dict(body=data + bytes(7)),
            'not_found': dict(status=404),
            'broken': dict(status=500),
            'web_page': dict(body=page, Content_Type='text/html; charset=utf-8'),
            'good_but_called_a_page': dict(body=data, Content_Type='text/html'),
            'redirects_home': dict(status=302, Location='/new.pth'),
            'redirects_away': dict(status=302, Location=away),
            'redirects_to_file': dict(status=302, Location='file:///etc/hostname'),
            'redirects_forever': dict(status=302, Location=path + 'x'),
        }

    def good(self, handler):
        start = int((handler.headers.get('Range') or 'bytes=0-')[6:-1])
        size = len(self.data)
        span = {'Content_Range': f'bytes {start}-{size - 1}/{size}'} if start else {}
        self.send(handler, self.data[start:], 206 if start else 200, **span)

    def closes_at_once(self, handler):
        handler.connection.close()

    def never_answers(self, handler):
        self.stop.wait(20)

    def drips(self, handler):
        self.send(handler, length=len(self.data))
        for i in range(200):
            handler.wfile.write(self.data[i : i + 1])
            if self.stop.wait(0.05):
                return

    def endless(self, handler):
        self.send(handler, length=None)  # the body lasts until the connection ends
        while not self.stop.is_set():
            handler.wfile.write(bytes(1 << 16))

    def huge_header(self, handler):
        handler.wfile.write(b'HTTP/1.1 200 OK\r\nX-Filler: ' + b'a' * 200_000 + b'\r\n\r\n')

    def not_http(self, handler):
        handler.wfile.write(b'\x00\x01\x02 hello\r\n\r\n')
