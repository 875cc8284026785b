"""A loopback HTTP server that misbehaves on request, and a zoo entry for the file it serves."""

import contextlib
import hashlib
import random
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ttl_mm.zoo.manifest import Entry

DATA = random.Random(0).randbytes(300_000)


def entry(*urls, data=DATA, hashed=True, **fields) -> Entry:
    """The entry of a zoo whose file is ``data``."""
    return Entry(
        name='net',
        file='net.pth',
        size=len(data) if hashed else None,
        sha256=hashlib.sha256(data).hexdigest() if hashed else None,
        urls=urls,
        kind='backbone',
        licence='none',
        about='test',
        backbone={},
        **fields,
    )


class Server:
    """Serves ``data`` at any path; ``mode`` picks the misbehaviour, one per request if a list."""

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
                    getattr(outer, mode)(self)

            def log_message(self, *args):
                pass

        self.http = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.http.daemon_threads = True
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f'http://127.0.0.1:{self.http.server_port}/file.pth'

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.stop.set()
        self.http.shutdown()
        self.http.server_close()

    def head(self, handler, length, status=200, **headers):
        handler.send_response(status)
        if length is not None:
            handler.send_header('Content-Length', str(length))
        for name, value in headers.items():
            handler.send_header(name.replace('_', '-'), value)
        handler.end_headers()

    def good(self, handler):
        start = int((handler.headers.get('Range') or 'bytes=0-')[6:-1])
        size = len(self.data)
        if start:
            span = f'bytes {start}-{size - 1}/{size}'
            self.head(handler, size - start, 206, Content_Range=span)
        else:
            self.head(handler, size)
        handler.wfile.write(self.data[start:])

    def ignores_range(self, handler):
        self.head(handler, len(self.data))
        handler.wfile.write(self.data)

    def continues_elsewhere(self, handler):
        self.head(handler, 10, 206, Content_Range=f'bytes 5-14/{len(self.data)}')
        handler.wfile.write(self.data[5:15])

    def closes_early(self, handler):
        self.head(handler, len(self.data))
        handler.wfile.write(self.data[: len(self.data) // 2])

    def closes_at_once(self, handler):
        handler.connection.close()

    def stalls(self, handler):
        self.head(handler, len(self.data))
        handler.wfile.write(self.data[:1000])
        handler.wfile.flush()
        self.stop.wait(20)

    def never_answers(self, handler):
        self.stop.wait(20)

    def drips(self, handler):
        self.head(handler, len(self.data))
        for i in range(200):
            handler.wfile.write(self.data[i : i + 1])
            handler.wfile.flush()
            if self.stop.wait(0.05):
                return

    def wrong_bytes(self, handler):
        self.head(handler, len(self.data))
        handler.wfile.write(bytes(len(self.data)))

    def wrong_bytes_half(self, handler):
        self.head(handler, len(self.data))
        handler.wfile.write(bytes(len(self.data) // 2))

    def too_short(self, handler):
        self.head(handler, len(self.data) - 7)
        handler.wfile.write(self.data[:-7])

    def too_long(self, handler):
        self.head(handler, len(self.data) + 7)
        handler.wfile.write(self.data + bytes(7))

    def endless(self, handler):
        self.head(handler, None)  # no length: the body lasts until the connection ends
        while not self.stop.is_set():
            handler.wfile.write(bytes(1 << 16))

    def not_found(self, handler):
        handler.send_error(404)

    def broken(self, handler):
        handler.send_error(500)

    def web_page(self, handler):
        page = b'<html>sign in first</html>'
        self.head(handler, len(page), Content_Type='text/html; charset=utf-8')
        handler.wfile.write(page)

    def good_but_called_a_page(self, handler):
        self.head(handler, len(self.data), Content_Type='text/html')
        handler.wfile.write(self.data)

    def redirects_away(self, handler):
        self.head(handler, 0, 302, Location=f'http://localhost:{self.http.server_port}/elsewhere')

    def redirects_to_file(self, handler):
        self.head(handler, 0, 302, Location='file:///etc/hostname')

    def redirects_home(self, handler):
        if handler.path == '/new.pth':
            self.good(handler)
        else:
            self.head(handler, 0, 302, Location='/new.pth')

    def redirects_forever(self, handler):
        self.head(handler, 0, 302, Location=handler.path + 'x')

    def huge_header(self, handler):
        handler.wfile.write(b'HTTP/1.1 200 OK\r\nX-Filler: ' + b'a' * 200_000 + b'\r\n\r\n')

    def not_http(self, handler):
        handler.wfile.write(b'\x00\x01\x02 hello\r\n\r\n')
