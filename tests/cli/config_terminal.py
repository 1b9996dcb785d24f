#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# accelerate config at a terminal, as a person would type: keys are sent only after the screen shows what they answer.
# Run by config_terminal.sh: config_terminal.py ACCELERATE.  Speaks TAP.

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

ACCELERATE = sys.argv[1]
DEADLINE = 30
UP, DOWN, LEFT, HOME, END, ENTER = "\033[A", "\033OB", "\033[D", "\033[H", "\033[F", "\r"
FILE = "c.yaml"


class Terminal:
    """A terminal of our own with the command in it."""

    def __init__(self, *args, term="xterm", rows=40, columns=120):
        self.screen = ""
        self.seen = 0
        self.controller, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.modes = termios.tcgetattr(slave)
        self.slave = slave
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            for fd in range(3):
                os.dup2(slave, fd)
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP):
                signal.signal(number, signal.SIG_DFL)  # nohup and jobs in the background hand on that they are ignored
            os.environ["TERM"] = term
            os.execv(ACCELERATE, [ACCELERATE, "config", "--config_file", FILE, *args])

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.controller)
        os.close(self.slave)

    def take(self, seconds):
        if select.select([self.controller], [], [], seconds)[0]:
            self.screen += os.read(self.controller, 65536).decode(errors="replace")

    def expect(self, text):
        """Wait until the screen shows it, after what was expected before."""
        end = time.monotonic() + DEADLINE
        while (at := self.screen.find(text, self.seen)) < 0:
            if time.monotonic() > end:
                raise AssertionError(f"{text!r} did not come, but {self.screen[self.seen:]!r}")
            self.take(0.1)
        self.seen = at + len(text)

    def resize(self, rows, columns):
        fcntl.ioctl(self.controller, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def send(self, text):
        os.write(self.controller, text.encode())

    def answer(self, question, *keys):
        self.expect(question)
        for key in keys:
            self.send(key)

    def choose(self, question, *keys):
        """Of a menu; its last line comes with the mark's end or the cursor hidden."""
        self.expect(question)
        self.expect("\033[?25l")
        for key in keys:
            self.send(key)

    def rest(self, *questions):
        for question in questions:
            self.answer(question, ENTER)

    def wait(self, flags=0):
        end = time.monotonic() + DEADLINE
        while True:
            pid, status = os.waitpid(self.pid, flags | os.WNOHANG)
            if pid:
                break
            if time.monotonic() > end:
                raise AssertionError(f"did not end: {self.screen[self.seen:]!r}")
            self.take(0.05)
        self.take(0.05)
        if not os.WIFSTOPPED(status):
            self.pid = 0
        return status

    def ends_with(self, wanted):
        status = self.wait()
        got = os.waitstatus_to_exitcode(status)
        assert got == wanted, f"ended with {got}, not {wanted}: {self.screen!r}"
        self.is_as_before()

    def is_as_before(self):
        assert termios.tcgetattr(self.slave) == self.modes, "the terminal is not as it was"
        assert self.screen.rfind("\033[?25h") >= self.screen.rfind("\033[?25l"), "the cursor is hidden"


def has(*lines):
    with open(FILE) as file:
        text = [line.strip() for line in file]
    for line in lines:
        assert line in text, f"no {line!r} in {text}"


ENVIRONMENT, MACHINE, MACHINES = "compute environment", "type of machine", "How many machines"
DEBUG, MPIRUN, DYNAMO, PROCESSES, PRECISION = "at run time", "with mpirun", "torch dynamo", "How many proc", "mixed precision"
HOSTS, SAVE = "On which hosts should the launch", "Enter saves"


def cpu(terminal):
    """To the review of two processes on CPUs."""
    terminal.choose(ENVIRONMENT, ENTER)
    terminal.choose(MACHINE, HOME, DOWN, ENTER)  # from the first; where the cursor is depends on this machine
    terminal.rest(MACHINES, DEBUG, MPIRUN, DYNAMO)
    terminal.answer(PROCESSES, "2", ENTER)
    terminal.choose(PRECISION, ENTER)
    terminal.expect(SAVE)


def arrows_and_review():
    with Terminal() as t:
        cpu(t)
        t.send(ENTER)
        t.expect("saved in " + FILE)
        t.ends_with(0)
    has("distributed_type: MULTI_CPU", "num_processes: 2", "mixed_precision: 'no'")


def review_is_a_table():
    """All questions of the review begin in one column, whatever the lengths of the answers and of the lines."""
    host, path = "trainer-é001.example.com", "/home/trainer/a/long/name/of/a/folder/hostfile"
    flags = ["--main_process_ip", host, "--mpirun_hostfile", path, "--num_machines", "2", "--mixed_precision", "no"]
    with Terminal("--distributed_type", "MULTI_CPU", "--num_processes", "2", *flags, columns=84) as t:
        t.choose(ENVIRONMENT, ENTER)
        t.rest(HOSTS)
        t.choose("rank of this", ENTER)
        t.rest("TCP port", "local network", DEBUG, DYNAMO)
        t.expect("Your answers:\r\n")
        begin = t.seen
        t.expect(SAVE)
        shown = t.screen[begin:].split("\033")[0].split("Enter saves")[0].split("\r\n")
        t.send("\003")
        t.ends_with(130)
    column = shown[0].index("In which")
    starts = {f"{1:4}  This machine", f"{4:4}  none", f"{6:4}  {host}", f"{8:4}  yes", ""}
    for line in filter(None, shown):
        starts.discard(line[:column].rstrip())
        assert line[column - 2:column] == "  " and line[column] != " " or line == f"{11:4}  {path}", shown
    assert not starts, f"{starts} not in {shown}"


def newcomer():
    """Enter throughout is a file that uses this machine; here seen with cores only."""
    os.remove(FILE)
    facts = subprocess.run([ACCELERATE, "env"], capture_output=True, text=True, check=True).stdout
    gpus = subprocess.run([ACCELERATE, "--emit=gpu-ids"], capture_output=True, text=True, check=True).stdout
    cores = int(re.search(r"(\d+) physical core", facts)[1])
    if gpus or cores < 2:
        return
    with Terminal() as t:
        t.choose(ENVIRONMENT, ENTER)
        t.choose(MACHINE, ENTER)
        t.rest(MACHINES, DEBUG, MPIRUN, DYNAMO, PROCESSES)
        t.choose(PRECISION, ENTER)
        t.answer(SAVE, ENTER)
        t.ends_with(0)
    has("distributed_type: MULTI_CPU", f"num_processes: {cores}")


def old_values_are_marked():
    with Terminal() as t:
        t.choose(ENVIRONMENT, ENTER)
        t.choose(MACHINE, ENTER)
        t.rest(MACHINES, DEBUG, MPIRUN, DYNAMO)
        t.expect("[2]")
        t.send(ENTER)
        t.choose(PRECISION, ENTER)
        t.answer(SAVE, ENTER)
        t.ends_with(0)
    has("distributed_type: MULTI_CPU", "num_processes: 2")


def help_and_hints():
    with Terminal() as t:
        t.expect("? explains the question")
        t.choose(ENVIRONMENT)
        t.expect("Up and Down or a number: move, Enter: choose, <: back, ?: help")
        t.send("?")
        t.expect("Where jobs run.")
        t.expect("Key and option: compute_environment.")
        t.choose(ENVIRONMENT, ENTER)
        t.choose(MACHINE, "3", "?")  # which is proposed nowhere
        t.expect("The kind of distributed training")
        t.choose(MACHINE, ENTER)
        t.expect("\033[?25h  multi-HPU")  # the cursor has stayed
        t.answer(MACHINES, "?", ENTER)
        t.expect("A number from 1 to 100000. Key and option: num_machines.")
        t.answer(MACHINES, "\003")
        t.ends_with(130)


def wrapped():
    """Questions break between words, and the hint is one that fits."""
    with Terminal(columns=40) as t:
        t.choose(ENVIRONMENT)
        t.expect("\033[2mArrows, Enter, <: back, ?: help\033[0m")
        t.send(ENTER)
        t.choose(MACHINE, "1", ENTER)
        t.expect("How many machines will you use (more\r\n")
        t.expect("training)?")
        t.send("\003")
        t.ends_with(130)


def digits():
    with Terminal() as t:
        t.choose(ENVIRONMENT, ENTER)
        t.choose(MACHINE, "1", "0")
        t.expect("> 10  TPU")
        t.send(ENTER)
        t.rest(DYNAMO, PROCESSES, "Which function", "TPU pod")
        t.answer(SAVE, ENTER)
        t.ends_with(0)
    has("distributed_type: XLA")


def letters_and_ends():
    with Terminal(rows=8) as t:  # the menu does not fit, and scrolls
        t.choose(ENVIRONMENT, ENTER)
        t.choose(MACHINE, END)
        t.expect("> 10  TPU")
        t.send("kkkkkkkkkkkkj" + UP + "jjjj")
        t.expect(">  4  multi-GPU")
        t.send("x\t" + ENTER)  # other keys do nothing
        t.expect(MACHINES)
        t.send("\003")
        t.ends_with(130)
    with Terminal(rows=8) as t:  # five lines of it are shown
        t.choose(ENVIRONMENT, ENTER)
        t.expect("\033[J\033[?25h  This machine")  # the answer takes the menu's place
        t.choose(MACHINE, "\033[H", "jjjj")
        t.expect(">  4  ")  # the first one that was not shown
        t.send("j")
        t.expect(">  5  ")
        t.send(END)
        t.expect("> 10  TPU")
        t.send("j" + UP)
        t.expect(">  9  ")
        t.send("1j0")  # two digits with another key between are two numbers
        t.expect(">  2  ")
        t.expect(">  0  ")
        t.send("\033[1;5B")  # Ctrl and the arrow: one key, whatever stands within
        t.expect(">  1  ")
        t.send(END + "j" + ENTER)
        t.expect(DYNAMO)
        t.send("\003")
        t.ends_with(130)


def narrow():
    with Terminal(columns=24) as t:
        t.expect("  1  AWS (Amazon Sage\r\n")
        t.resize(40, 120)
        t.expect("  1  AWS (Amazon SageMaker)\r\n")
        t.resize(40, 26)
        t.expect("  1  AWS (Amazon SageMa\r\n")
        t.send("\003")
        t.ends_with(130)


def back():
    with Terminal() as t:
        t.choose(ENVIRONMENT, LEFT)
        t.expect("first question")
        t.choose(ENVIRONMENT, ENTER)
        t.choose(MACHINE, "4", ENTER)
        t.answer(MACHINES, "3", ENTER)
        t.rest(HOSTS)
        t.choose("rank of this", "\b")
        t.answer(HOSTS, "<", ENTER)
        t.expect(MACHINES)
        t.expect("[3]")
        t.send("<" + ENTER)
        t.choose(MACHINE, "1", ENTER)
        t.answer(MACHINES, "1", ENTER)
        t.rest(DEBUG, MPIRUN, DYNAMO)
        t.answer(PROCESSES, "4", ENTER)
        t.choose(PRECISION, "\002")
        t.answer(PROCESSES, "6", ENTER)
        t.choose(PRECISION, "2", ENTER)
        t.answer(SAVE, ENTER)
        t.ends_with(0)
    has("distributed_type: MULTI_CPU", "num_processes: 6", "mixed_precision: bf16")


def change():
    os.remove(FILE)
    with Terminal() as t:
        cpu(t)
        for number in "99", "9", "0":  # there are 8
            t.send(number + ENTER)
            t.expect("not a number in the list")
            t.expect(SAVE)
        t.send("2" + ENTER)
        t.choose(MACHINE, "4", ENTER)
        t.answer("use DeepSpeed", "<", ENTER)  # back to what has an answer
        t.rest(DYNAMO)
        for question in ("use DeepSpeed", "use Fully", "use Megatron", "Which devices", "NUMA"):
            t.answer(question, ENTER)
        t.expect("multi-GPU")
        t.answer(SAVE, "7", ENTER)
        t.answer("use Fully", "y", ENTER)
        t.choose("FSDP version", ENTER)
        t.answer("reshard", "\004")
        t.expect("nothing was written")
        t.ends_with(1)
    assert not os.path.exists(FILE)
    with Terminal() as t:
        cpu(t)
        t.send("7" + ENTER)
        t.answer(PROCESSES, "3", ENTER)
        t.answer(SAVE, ENTER)
        t.ends_with(0)
    has("num_processes: 3", "distributed_type: MULTI_CPU")


def path_completion():
    os.makedirs("folder/deep", exist_ok=True)
    with open("folder/deep/hostfile.txt", "w"):
        pass
    with Terminal() as t:
        t.choose(ENVIRONMENT, ENTER)
        t.choose(MACHINE, "1", ENTER)
        t.answer(MACHINES, "fol\t", "\025", "1", ENTER)  # no file is completed here; Ctrl-U takes the line away
        t.expect(DEBUG)
        assert "folder" not in t.screen
        t.send(ENTER)
        t.answer(MPIRUN, "yes", ENTER)
        t.answer("path to the hostfile", "fo\t")
        t.expect("lder/")
        t.send("de\tho\t")
        t.expect("file.txt")
        t.send(ENTER)
        t.rest(DYNAMO, PROCESSES)
        t.choose(PRECISION, ENTER)
        t.answer(SAVE, ENTER)
        t.ends_with(0)
    has("mpirun_hostfile: folder/deep/hostfile.txt", "num_machines: 1")


def editing():
    with Terminal() as t:
        t.choose(ENVIRONMENT, ENTER)
        t.choose(MACHINE, "1", ENTER)
        t.answer(MACHINES, "12", "\001", "\033[3~", "\033[3~", "1", ENTER)  # to the begin, delete both
        t.rest(DEBUG)
        t.answer(MPIRUN, "no", ENTER)
        t.rest(DYNAMO)
        t.answer(PROCESSES, "many", ENTER)
        t.expect("is not an integer")
        t.answer(PROCESSES, "45", "\177", ENTER)
        t.choose(PRECISION, ENTER)
        t.answer(SAVE, ENTER)
        t.ends_with(0)
    has("num_processes: 4", "num_machines: 1")


def kept(keys, wanted, *, in_line=False):
    before = open(FILE).read()
    with Terminal() as t:
        t.choose(ENVIRONMENT, *([ENTER] if in_line else []))
        if in_line:
            t.choose(MACHINE, "4", ENTER)
            t.answer(MACHINES, "5")
            t.expect("5")
        t.send(keys) if isinstance(keys, str) else os.kill(t.pid, keys)
        t.ends_with(wanted)
        assert wanted < 0 or "nothing was written" in t.screen
    assert open(FILE).read() == before
    assert [name for name in os.listdir(".") if name.startswith(FILE)] == [FILE]


def stop(in_line):
    with Terminal() as t:
        t.choose(ENVIRONMENT, *([ENTER] if in_line else []))
        if in_line:
            t.choose(MACHINE, "1", ENTER)
            t.expect(MACHINES)
        t.send("\032")
        status = t.wait(os.WUNTRACED)
        assert os.WIFSTOPPED(status), status
        t.is_as_before()
        stopped = t.seen = len(t.screen)
        os.kill(t.pid, signal.SIGCONT)
        if in_line:
            t.answer(MACHINES, "1", ENTER)
            t.expect(DEBUG)
        else:
            t.expect(">  0  This machine")
            assert not re.search(r"\033\[[0-9]+A", t.screen[stopped:]), "drawn over what the shell has written"
            t.send(DOWN)
            t.expect(">  1  AWS")
        t.send("\003")
        t.ends_with(130)


def dumb():
    with Terminal(term="dumb") as t:
        t.expect("Number or word [0]: ")
        t.resize(30, 100)
        t.send("\032")
        status = t.wait(os.WUNTRACED)
        assert os.WIFSTOPPED(status), status
        os.kill(t.pid, signal.SIGCONT)
        t.answer("Number or word [0]: ", "\n")
        t.answer("Number or word", "NO\n")
        t.answer("CPU only", "no\n")
        for question in (DYNAMO, "DeepSpeed", "devices", "NUMA", "Number or word"):
            t.answer(question, "\n")
        t.answer(SAVE, "\n")
        t.ends_with(0)
        assert "\033" not in t.screen
    has("distributed_type: 'NO'")


def flags():
    with Terminal("--distributed_type", "MULTI_CPU", "--num_processes", "7") as t:
        t.choose(ENVIRONMENT, ENTER)
        t.rest(MACHINES, DEBUG, MPIRUN, DYNAMO)
        t.choose(PRECISION, ENTER)
        t.expect("multi-CPU")
        t.answer(SAVE, ENTER)
        t.ends_with(0)
    has("num_processes: 7", "distributed_type: MULTI_CPU")


TESTS = [
    ("arrow keys choose, Enter saves after the review", arrows_and_review),
    ("the review is a table", review_is_a_table),
    ("the old file's values are marked", old_values_are_marked),
    ("menus hint at keys, ? explains a question", help_and_hints),
    ("questions break between words", wrapped),
    ("digits, two for a number of two", digits),
    ("j, k, End; a menu that does not fit scrolls", letters_and_ends),
    ("lines are cut where the terminal ends, as it is resized", narrow),
    ("steps back: left arrow, Backspace, Ctrl-B, <", back),
    ("the review: an answer is changed, and what it brings is asked", change),
    ("Tab completes paths, and only paths", path_completion),
    ("typed answers can be edited, wrong ones are said", editing),
    ("Ctrl-C in a menu", lambda: kept("\003", 130)),
    ("Ctrl-C in a line", lambda: kept("\003", 130, in_line=True)),
    ("Ctrl-D in a menu", lambda: kept("\004", 1)),
    ("TERM in a menu", lambda: kept(signal.SIGTERM, -signal.SIGTERM)),
    ("TERM in a line", lambda: kept(signal.SIGTERM, -signal.SIGTERM, in_line=True)),
    ("HUP in a line", lambda: kept(signal.SIGHUP, -signal.SIGHUP, in_line=True)),
    ("Ctrl-Z in a menu, and back", lambda: stop(False)),
    ("Ctrl-Z in a line, and back", lambda: stop(True)),
    ("Enter throughout uses this machine", newcomer),
    ("TERM=dumb: numbered questions, no escapes", dumb),
    ("flags answer", flags),
]
NEEDS_EDITOR = ("Tab completes paths, and only paths", "typed answers can be edited, wrong ones are said")


def main():
    facts = subprocess.run([ACCELERATE, "env"], capture_output=True, text=True, check=True).stdout
    has_editor = re.search(r"readline|libedit", facts) and "no (" not in next(
        (line for line in facts.splitlines() if "readline" in line or "libedit" in line), "")
    failures = 0
    for i, (name, test) in enumerate(TESTS, 1):
        if name in NEEDS_EDITOR and not has_editor:
            print(f"ok {i} - {name} # SKIP built without a line editor")
            continue
        try:
            test()
            print(f"ok {i} - {name}", flush=True)
        except (AssertionError, OSError) as error:
            failures += 1
            print(f"not ok {i} - {name}\n# " + str(error).replace("\n", "\n# "), flush=True)
    print(f"1..{len(TESTS)}")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
