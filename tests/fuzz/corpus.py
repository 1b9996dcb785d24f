#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The fuzzers' corpus.  tests/fuzz/corpus/FUZZER has one input in each line: a name, a blank, and the bytes, escaped as in C.

corpus.py add FUZZER FILE...     inputs that a fuzzer has found, under the names of their files
corpus.py unpack FUZZER FOLDER   each input as a file, for a fuzzer"""
import pathlib
import re
import sys

NAMED = {b"\\": b"\\\\", b"\n": b"\\n", b"\t": b"\\t", b"\r": b"\\r"}
command, fuzzer, *paths = sys.argv[1:]
corpus = pathlib.Path(__file__).parent / "corpus" / fuzzer


def escape(text):
    return re.sub(rb"[^ -\[\]-~]", lambda found: NAMED.get(found[0], b"\\x%02x" % found[0][0]), text)


def unescape(text):
    named = {short: byte for byte, short in NAMED.items()}
    return re.sub(rb"\\(x..|.)", lambda found: named.get(found[0]) or bytes([int(found[1][1:], 16)]), text)


lines = corpus.read_bytes().splitlines() if corpus.exists() else []
inputs = dict(line.split(b" ", 1) for line in lines)
if command == "add":
    for path in map(pathlib.Path, paths):
        text = escape(path.read_bytes())
        if text not in inputs.values():
            inputs[re.sub(rb"[^!-~]+", b"-", path.name.encode())] = text
    corpus.write_bytes(b"".join(b"%s %s\n" % item for item in sorted(inputs.items())))
else:
    for name, text in inputs.items():
        (pathlib.Path(paths[0]) / name.decode()).write_bytes(unescape(text))
