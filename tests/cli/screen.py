#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# What a person sees of a terminal's bytes, which come through standard input: prints the lines that are left on it.
#
#   screen.py [--status REGEX]
#
# With --status: fails if a line that output has left behind, by going to the next one, has a piece of a status line
# ("ranks  step") at any time, or if the last line never was one as a whole, which is what REGEX matches; prints
# "N status lines" on standard error.

import re
import sys

ESCAPE = re.compile(rb"\x1b\[([0-9;?]*)([a-zA-Z])")


class Screen:
    def __init__(self, status):
        self.lines, self.row, self.column = [""], 0, 0
        self.status, self.seen, self.torn = status, set(), []

    def put(self, text):
        line = self.lines[self.row].ljust(self.column)
        self.lines[self.row] = line[:self.column] + text + line[self.column + len(text):]
        self.column += len(text)

    def check(self):
        if self.status and re.fullmatch(self.status, self.lines[self.row].rstrip()):
            self.seen.add(self.lines[self.row])

    def newline(self):
        if self.status and re.search("ranks?  step", self.lines[self.row]):
            self.torn.append(self.lines[self.row])
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append("")

    def escape(self, argument, letter):
        if letter in b"JK":
            self.lines[self.row] = self.lines[self.row][:self.column]
            if letter == b"J":
                del self.lines[self.row + 1:]
        elif letter not in b"mhl":
            sys.exit("an escape sequence that is not expected: %r" % letter)

    def feed(self, data):
        at = 0
        while at < len(data):
            escape = ESCAPE.match(data, at)
            if escape:
                self.escape(*escape.groups())
                at = escape.end()
                continue
            byte = data[at:at + 1]
            at += 1
            if byte == b"\n":
                self.newline()
            elif byte == b"\r":
                self.check()
                self.column = 0
            elif byte == b"\b":
                self.column = max(self.column - 1, 0)
            elif byte >= b" ":
                self.put(byte.decode("latin-1"))


def main():
    status = sys.argv[2] if sys.argv[1:2] == ["--status"] else None
    screen = Screen(status)
    screen.feed(sys.stdin.buffer.read())
    print("\n".join(line.rstrip() for line in screen.lines).rstrip("\n"))
    if status:
        print("%d status lines" % len(screen.seen), file=sys.stderr)
    if screen.torn or (status and not screen.seen):
        sys.exit("torn: %r" % screen.torn if screen.torn else "no status line was seen")


main()
