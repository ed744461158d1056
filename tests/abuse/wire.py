"""A minimal blocking client of the native protocol (v4), for requests that drivers refuse to send."""

import socket
import struct

import lz4.block

ERROR, STARTUP, READY, AUTHENTICATE, QUERY, RESULT, PREPARE, EXECUTE = 0x00, 0x01, 0x02, 0x03, 0x07, 0x08, 0x09, 0x0A
AUTH_RESPONSE, AUTH_SUCCESS = 0x0F, 0x10
ONE = 1
FLAG_COMPRESSED = 0x01
FLAG_VALUES, FLAG_PAGE_SIZE = 0x01, 0x04
KIND_PREPARED = 4


class ServerError(Exception):
    """An ERROR message: its code and text."""

    def __init__(self, code, message):
        super().__init__(f"0x{code:04x} {message[:200]}")
        self.code = code


def string(text):
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def long_string(text):
    data = text.encode()
    return struct.pack(">i", len(data)) + data


def values(bound):
    """[short] n, then each value as [bytes]."""
    return struct.pack(">H", len(bound)) + b"".join(struct.pack(">i", len(v)) + v for v in bound)


def query_body(text, page_size=None):
    if page_size is None:
        return long_string(text) + struct.pack(">HB", ONE, 0)
    return long_string(text) + struct.pack(">HBi", ONE, FLAG_PAGE_SIZE, page_size)


def execute_body(statement_id, bound):
    head = struct.pack(">H", len(statement_id)) + statement_id
    return head + struct.pack(">HB", ONE, FLAG_VALUES) + values(bound)


def frame(opcode, body, stream=0, compress=False):
    flags = 0
    if compress:
        body = struct.pack(">I", len(body)) + lz4.block.compress(body, store_size=False)
        flags = FLAG_COMPRESSED
    return struct.pack(">BBhBi", 4, flags, stream, opcode, len(body)) + body


class Client:
    """One connection. `source` is the local address, by which the server tells clients apart.

    `login`: name and password, where the server requires them. `tls`: an `ssl.SSLContext` to encrypt with.
    """

    def __init__(self, port, source="127.0.0.1", lz4=False, startup=True, timeout=120, login=None, tls=None):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout, (source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.lz4 = lz4
        if startup:
            options = {"CQL_VERSION": "3.0.0", **({"COMPRESSION": "lz4"} if lz4 else {})}
            pairs = b"".join(string(key) + string(value) for key, value in options.items())
            self.send(STARTUP, struct.pack(">H", len(options)) + pairs)
            opcode, _ = self.receive()
            assert opcode == (AUTHENTICATE if login else READY), opcode
        if login:
            token = "".join(f"\0{part}" for part in login).encode()
            self.send(AUTH_RESPONSE, struct.pack(">i", len(token)) + token)
            opcode, _ = self.receive()
            assert opcode == AUTH_SUCCESS, opcode

    def send(self, opcode, body, stream=0, compress=False):
        self.socket.sendall(frame(opcode, body, stream, compress))

    def _read(self, length):
        parts = bytearray()
        while len(parts) < length:
            piece = self.socket.recv(min(1 << 20, length - len(parts)))
            if not piece:
                raise ConnectionError("the server closed the connection")
            parts += piece
        return bytes(parts)

    def receive(self):
        """The opcode and the body of the next message."""
        _, flags, _, opcode, length = struct.unpack(">BBhBi", self._read(9))
        body = self._read(length)
        if flags & FLAG_COMPRESSED:
            (size,) = struct.unpack(">I", body[:4])
            body = lz4.block.decompress(body[4:], uncompressed_size=size) if size else b""
        if opcode == ERROR:
            code, size = struct.unpack(">iH", body[:6])
            raise ServerError(code, body[6 : 6 + size].decode(errors="replace"))
        return opcode, body

    def call(self, opcode, body, compress=False):
        self.send(opcode, body, compress=compress)
        return self.receive()[1]

    def query(self, text, page_size=None):
        return self.call(QUERY, query_body(text, page_size))

    def prepare(self, text):
        body = self.call(PREPARE, long_string(text))
        kind, size = struct.unpack(">iH", body[:6])
        assert kind == KIND_PREPARED, kind
        return body[6 : 6 + size]

    def execute(self, statement_id, bound):
        return self.call(EXECUTE, execute_body(statement_id, bound))

    def close(self):
        self.socket.close()
