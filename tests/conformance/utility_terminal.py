#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""utility_terminal.py PROGRAM ARGUMENTS: run a program on terminals of several widths, and check its progress bar."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios


def read_all(fd):
    """All output until no process has the other end open."""
    text = b""
    while True:
        try:
            piece = os.read(fd, 4096)
        except OSError:
            return text
        if not piece:
            return text
        text += piece


for columns in 20, 40, 80, 200:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    child = subprocess.Popen(sys.argv[1:], stderr=theirs, stdin=subprocess.DEVNULL)
    os.close(theirs)
    text = read_all(ours)
    status = child.wait(300)
    # A reader that is paused while the writer ends can see the end before it has got the last bytes.
    text += read_all(ours)
    os.close(ours)
    assert status == 0, (status, text)
    text = text.decode().replace("\033[K", "")
    drawn = [line for line in text.rstrip("\r\n").split("\r") if line]
    assert len(drawn) >= 2 and text.count("\n") == 1, text
    assert all(len(line) < columns for line in drawn), (columns, drawn)
    assert drawn[0].startswith("two lines:   0%") and drawn[-1].startswith("two lines: 100%"), drawn
    if columns >= 80:
        assert re.fullmatch(r"two lines: 100% \|#+\| 50/50 \[.*/s\]", drawn[-1]), drawn
