# SPDX-License-Identifier: Apache-2.0
"""proxy.py FOLDER OWNER [CERTIFICATE KEY]: a proxy for HTTPS, for tests.

It listens on a free port of 127.0.0.1, which it writes to FOLDER/.port, with TLS if there is a certificate, and ends with
the process OWNER. What it is asked for is appended to FOLDER/log. If FOLDER/status exists, each request is refused with
that status.
"""
import os
import select
import socket
import ssl
import sys
import threading


def copy(one, other):
    while True:
        for source in select.select([one, other], [], [])[0]:
            data = source.recv(65536)
            if not data:
                return
            (other if source is one else one).sendall(data)
            while isinstance(source, ssl.SSLSocket) and source.pending():
                other.sendall(source.recv(65536))


def serve(client, folder, context):
    if context:
        client = context.wrap_socket(client, server_side=True)
    head = b""
    while b"\r\n\r\n" not in head:
        more = client.recv(65536)
        if not more:
            return
        head += more
    with open(f"{folder}/log", "ab") as log:
        log.write(head)
    if os.path.exists(f"{folder}/status"):
        with open(f"{folder}/status") as file:
            client.sendall(f"HTTP/1.1 {file.read().strip()} No\r\nContent-Length: 0\r\n\r\n".encode())
        return
    host, port = head.split()[1].decode().rsplit(":", 1)
    with socket.create_connection((host, int(port))) as server:
        client.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
        copy(client, server)


def run(client, folder, context):
    try:
        serve(client, folder, context)
    except OSError:
        pass
    client.close()


def main():
    folder, owner = sys.argv[1], int(sys.argv[2])
    context = None
    if len(sys.argv) > 3:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[3], sys.argv[4])
    listener = socket.create_server(("127.0.0.1", 0))
    with open(f"{folder}/.port.new", "w") as file:
        file.write(str(listener.getsockname()[1]))
    os.rename(f"{folder}/.port.new", f"{folder}/.port")
    watched = os.pidfd_open(owner)
    while True:
        ready = select.select([listener, watched], [], [])[0]
        if watched in ready:
            os._exit(0)
        client = listener.accept()[0]
        threading.Thread(target=run, args=(client, folder, context), daemon=True).start()


main()
