#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Runs a command that draws on a terminal of 80 columns and 24 lines, and does things when its screen shows something:
# on_screen.py [--type KEYS WHEN | --resize COLUMNSxLINES WHEN | --save FILE WHEN | --suspend FILE WHEN]... COMMAND...
# WHEN is a regular expression for the screen as a person sees it: lines joined by newlines.  --save writes the screen
# to FILE; --suspend types ^Z, waits until the command has stopped, writes what it has left behind to FILE, and
# continues it.  Prints what the command has left behind at its end.  Exits as it does, 128+N for signal N; 99 if it
# does not end: then the last screen is on standard error; 1 if it ends before all is done.
#
# What is left behind: "left: nothing", or modes of the terminal that are not as before; then the lines on it.

import os
import re
import select
import signal
import sys
import termios
import time

sys.dont_write_bytecode = True  # the sources may be read-only
from on_terminal import DEADLINE, resize, start, type_keys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts"))
from vt import Terminal


class Session:
    def __init__(self, command, steps):
        self.steps, self.terminal, self.status = steps, Terminal(24, 80), None
        self.controller, self.name, self.pid = start(command, None)
        self.slave = os.open(self.name, os.O_RDWR | os.O_NOCTTY)
        self.modes = termios.tcgetattr(self.slave)

    def take(self, seconds):
        """@return whether anything came"""
        came = bool(select.select([self.controller], [], [], seconds)[0])
        if came:
            self.terminal.feed(os.read(self.controller, 65536))
        return came

    def left(self):
        while self.take(0.1):
            pass
        left = self.terminal.left()
        if termios.tcgetattr(self.slave) != self.modes:
            left.append("modes of the terminal")
        text = self.terminal.text()
        return f"left: {', '.join(left) or 'nothing'}\n" + (text + "\n" if text else "")

    def suspend(self):
        os.write(self.controller, b"\x1a")
        end = time.monotonic() + DEADLINE
        while not os.waitpid(self.pid, os.WUNTRACED | os.WNOHANG)[0]:
            if time.monotonic() > end:
                sys.exit("it was not stopped by ^Z")
            self.take(0.02)
        left = self.left()
        os.kill(self.pid, signal.SIGCONT)
        return left

    def act(self, verb, argument):
        if verb == "--type":
            type_keys(self.controller, self.name, argument)
        elif verb == "--resize":
            columns, lines = map(int, argument.split("x"))
            self.terminal.resize(lines, columns)
            resize(self.controller, columns, lines)
        else:
            text = self.suspend() if verb == "--suspend" else self.terminal.text() + "\n"
            with open(argument, "w", encoding="utf-8") as file:
                file.write(text)

    def run(self):
        """@return the status of the command as waitpid() has it; None: it did not end"""
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            self.take(0.05)
            while self.steps and re.search(self.steps[0][2], self.terminal.text()):
                self.act(*self.steps.pop(0)[:2])
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return status
        return None


def main():
    arguments, steps = sys.argv[1:], []
    while arguments[0].startswith("--"):
        steps.append(arguments[:3])
        arguments = arguments[3:]
    session = Session(arguments, steps)
    status = session.run()
    if status is None:
        os.kill(session.pid, signal.SIGKILL)
        print(f"waited in vain for {session.steps[:1]} on\n{session.terminal.text()}", file=sys.stderr)
        sys.exit(99)
    print(session.left(), end="")
    if session.steps:
        sys.exit(f"it ended before {session.steps[0]}")
    sys.exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


main()
