# SPDX-License-Identifier: Apache-2.0
"""Runs one test as a world of its own: python3 slot.py CONTROL COPY SCRATCH COMMAND...

A changed program may leave processes, fill disks, bind ports or hang.  Under Linux namespaces it does all that away
from others: its processes die with the test, its ports are those of its own network, its scratch folder is in
memory, and COPY lies over CONTROL, so that each of several tests at once has its own mutant.  Where namespaces are not
allowed (MUTANTS_PLAIN=1), the caller runs one test after the other, and its process group is killed.
"""

import ctypes
import fcntl
import os
import resource
import signal
import socket
import struct
import subprocess
import sys

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = 0x20000, 0x8000000, 0x20000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE, MS_NOSUID, MS_NODEV, MS_NOEXEC = 4096, 16384, 1 << 18, 2, 4, 8
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None, use_errno=True)


def call(function, *arguments):
    arguments = [argument.encode() if isinstance(argument, str) else argument for argument in arguments]
    if getattr(libc, function)(*arguments):
        error = ctypes.get_errno()
        raise OSError(error, f'{function}: {os.strerror(error)}')


def start_loopback():
    with socket.socket() as any_socket:
        request = struct.pack('16sH14s', b'lo', 1 | 64, b'')  # IFF_UP | IFF_RUNNING
        fcntl.ioctl(any_socket, 0x8914, request)  # SIOCSIFFLAGS


def uses_sanitizer(path):
    """Whether a script builds with the address sanitizer, which maps terabytes for its own use."""
    with open(path, 'rb') as file:
        return path.endswith('.sh') and b'-fsanitize=' in file.read()


def limit(command):
    # The files of large models in tests have 14 GB, nearly all of them holes.
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: 16 << 30}
    if not uses_sanitizer(command[-1]):
        limits[resource.RLIMIT_DATA] = 6 << 30
    for what, most in limits.items():
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, hard))


def first_process(control, copy, scratch, command):
    """Process 1 of the namespace: waits for the test, and for what it orphans; when it ends the kernel kills all."""
    call('prctl', PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    call('mount', 'proc', '/proc', 'proc', MS_NOSUID | MS_NODEV | MS_NOEXEC, None)
    call('mount', copy, control, None, MS_BIND, None)
    call('mount', 'tmpfs', scratch, 'tmpfs', 0, 'size=3g,mode=1777')
    if os.path.isdir('/dev/shm'):  # MPI makes names of process numbers, which are the same in each namespace
        call('mount', 'tmpfs', '/dev/shm', 'tmpfs', 0, 'size=3g,mode=1777')
    start_loopback()
    test = subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd=scratch, preexec_fn=lambda: limit(command))
    while True:
        pid, status = os.wait()
        if pid == test.pid:
            return os.waitstatus_to_exitcode(status)


def be_nice():
    """Linux shares the processors out between sessions, and only within one by 'nice': the session is as nice."""
    try:
        with open('/proc/self/autogroup', 'w', encoding='ascii') as file:
            file.write(str(os.getpriority(os.PRIO_PROCESS, 0)))
    except OSError:
        pass


def main():
    be_nice()
    for number in signal.SIGHUP, signal.SIGINT, signal.SIGQUIT:  # nohup and '&' ignore them; some tests send them
        signal.signal(number, signal.SIG_DFL)
    control, copy, scratch, *command = sys.argv[1:]
    if os.environ.pop('MUTANTS_PLAIN', None):
        limit(command)
        os.chdir(scratch)
        os.execvp(command[0], command)
    call('prctl', PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    call('unshare', CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET)
    call('mount', 'none', '/', None, MS_REC | MS_PRIVATE, None)
    child = os.fork()
    if child == 0:
        status = first_process(control, copy, scratch, command)
        os._exit(status if status >= 0 else 128 - status)
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 255)


if __name__ == '__main__':
    main()
