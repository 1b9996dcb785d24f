#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Runs a command on a terminal of 80 columns and copies what is on it to standard output:
# on_terminal.py [--type KEYS WHEN | --resize COLUMNS WHEN]... [--errors FILE] COMMAND...
# KEYS are typed once the screen matches the regular expression WHEN, or its width changes; signal keys not before what
# was typed is read, as they discard it.  With --errors, standard error is that file and not the terminal.
# Exits as the command does, 128+N for signal N; 99 if the command does not end.

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

DEADLINE = 120
SIGNAL_KEYS = (b"\x03", b"\x1c")


def resize(fd, columns, lines=24):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


def await_reader(name):
    """Wait until the command has read what was typed on the terminal, or does not within 5 s."""
    slave, until = os.open(name, os.O_RDONLY | os.O_NOCTTY), time.monotonic() + 5
    while any(fcntl.ioctl(slave, termios.FIONREAD, bytes(4))) and time.monotonic() < until:
        time.sleep(0.01)
    os.close(slave)


def type_keys(controller, name, text):
    keys = text.encode().decode("unicode_escape").encode()
    if keys[:1] in SIGNAL_KEYS:
        await_reader(name)
    os.write(controller, keys)


def act(controller, name, verb, argument):
    if verb == "--resize":
        resize(controller, int(argument))
    else:
        type_keys(controller, name, argument)


def start(command, errors):
    controller, slave = pty.openpty()
    resize(slave, 80)
    pid = os.fork()
    if pid == 0:
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        for fd in range(3):
            os.dup2(slave, fd)
        if errors:
            os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), 2)
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP,
                       signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)  # nohup and jobs in the background hand on that they are ignored
        os.execvp(command[0], command)
    name = os.ttyname(slave)
    os.close(slave)
    return controller, name, pid


def watch(controller, name, keys):
    """@return the screen's bytes, and whether no process has the terminal open any more"""
    screen, errors, until = b"", 0, time.monotonic() + DEADLINE
    while time.monotonic() < until:
        if not select.select([controller], [], [], 1)[0]:
            continue
        try:
            screen += os.read(controller, 65536)
        except OSError:  # perhaps between the last look for bytes and the end
            errors += 1
            if errors == 2:
                return screen, True
        while keys and re.search(keys[0][0].encode(), screen):
            act(controller, name, *keys.pop(0)[1:])
    return screen, False


def main():
    arguments, keys, errors = sys.argv[1:], [], None
    while arguments[0].startswith("--"):
        if arguments[0] in ("--type", "--resize"):
            keys.append((arguments[2], arguments[0], arguments[1]))
            arguments = arguments[3:]
        else:
            errors = arguments[1]
            arguments = arguments[2:]
    controller, name, pid = start(arguments, errors)
    screen, has_ended = watch(controller, name, keys)
    sys.stdout.buffer.write(screen)
    sys.stdout.flush()
    if not has_ended:
        os.kill(pid, signal.SIGKILL)
        sys.exit(99)
    status = os.waitpid(pid, 0)[1]
    sys.exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


if __name__ == "__main__":
    main()
