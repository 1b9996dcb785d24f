# SPDX-License-Identifier: Apache-2.0
"""Finds commands in shell tests whose exit status goes nowhere: status.py FILE...

A status counts if it reaches the end of a test's body or of a function through && and ||, decides an `if`, or is read
from $?.  The status of a command before a newline, a semicolon or a pipe is lost; so is that of a command in a loop
unless `|| return 1` or the like follows, and that of a command in $(...).  Tools that only print text, such as sed, may
stand before a pipe and in $(...).  `COMMAND || :` says that a status does not matter.

Bodies are the second argument of test_expect_success and of functions that hand theirs on to it.  The grammar is the
part of the POSIX shell's that the tests use; anything else is an error."""
import re
import sys

HARMLESS = set(": [ alias test true echo printf cat sleep rm shift set local export unset trap kill cd ls wait umask . "
               "read return exit break continue".split())
TOOLS = HARMLESS | set("awk basename chmod cmp comm command cp cut date diff dirname env false find free_port grep "
                       "head id ln mkdir mkfifo mktemp mv nm od paste pgrep pwd readelf readlink sed seq size sort "
                       "stat strip tail tee touch tr uname uniq wc yes".split())
RESERVED = {"then", "else", "elif", "fi", "do", "done", "esac", "}"}
BODY_TAKERS = {"test_expect_success"}


class Word:
    def __init__(self, line):
        self.line, self.raw, self.text, self.lists = line, "", "", []


class Node:
    """kind: simple, group, if, loop, case, function; redirections are of no interest."""

    def __init__(self, kind, line, **more):
        self.kind, self.line = kind, line
        self.__dict__.update(more)


class Parser:
    def __init__(self, text, line=1):
        self.text, self.at, self.line, self.heredocs = text, 0, line, []

    def fail(self, what):
        raise SyntaxError("line %d: cannot be read: %s at %r" % (self.line, what, self.text[self.at:self.at + 30]))

    def peek(self, count=1):
        return self.text[self.at:self.at + count]

    def take(self, count=1):
        taken = self.text[self.at:self.at + count]
        self.at += count
        self.line += taken.count("\n")
        return taken

    def blanks(self):
        while self.peek() and self.peek() in " \t" or self.peek(2) == "\\\n":
            self.take(2 if self.peek() == "\\" else 1)
        if self.peek() == "#":
            while self.peek() not in ("", "\n"):
                self.take()

    def newline(self):
        self.take()
        for tabs, end in self.heredocs:
            while self.peek():
                stop = self.text.find("\n", self.at)
                line = self.take((stop if stop >= 0 else len(self.text)) + 1 - self.at).rstrip("\n")
                if (line.lstrip("\t") if tabs else line) == end:
                    break
        self.heredocs = []

    def lines(self):
        self.blanks()
        while self.peek() == "\n":
            self.newline()
            self.blanks()

    def substitution(self, word):
        """At $( or ${ or $x; its text belongs to the word, its commands to word.lists."""
        begin = self.at
        if self.peek(3) == "$((":
            while not self.text[begin:self.at].endswith("))"):
                self.take()
        elif self.peek(2) == "$(":
            self.take(2)
            word.lists.append(self.list())
            self.lines()
            if self.take() != ")":
                self.fail("$(")
        elif self.peek(2) == "${":
            depth = 0
            while not depth or self.text[begin:self.at].count("{") > self.text[begin:self.at].count("}"):
                depth = 1
                self.take(2 if self.peek() == "$" else 1)
        else:
            self.take()
        return self.text[begin:self.at]

    def double(self, word):
        self.take()
        while self.peek() != '"':
            if not self.peek():
                self.fail("a quote without end")
            if self.peek() == "\\":
                pair = self.take(2)
                word.text += pair[1] if pair[1] in '"$\\`' else "" if pair[1] == "\n" else pair
            else:
                word.text += self.substitution(word) if self.peek() == "$" else self.take()
        self.take()

    def word(self):
        word, begin = Word(self.line), self.at
        while self.peek() and self.peek() not in " \t\n;&|<>()":
            if self.peek(2) == "\\\n":
                break
            if self.peek() == "\\":
                word.text += self.take(2)[1]
            elif self.peek() == "'":
                self.take()
                end = self.text.index("'", self.at)
                word.text += self.take(end - self.at)
                self.take()
            elif self.peek() == '"':
                self.double(word)
            else:
                word.text += self.substitution(word) if self.peek() == "$" else self.take()
        word.raw = self.text[begin:self.at]
        return word

    def next_word(self):
        """The reserved word or name that comes next, not taken."""
        self.blanks()
        return re.match(r"[A-Za-z_{}!]*", self.text[self.at:]).group()

    def want(self, what):
        self.lines()
        if self.peek(len(what)) != what:
            self.fail("no %s" % what)
        self.take(len(what))

    def redirection(self):
        match = re.match(r"[0-9]*(<<-?|[<>]&|>>|>\||<>|[<>])", self.text[self.at:])
        if not match:
            return False
        self.take(len(match.group()))
        self.blanks()
        target = self.word()
        if match.group(1) in ("<<", "<<-"):
            self.heredocs.append((match.group(1) == "<<-", target.text))
        return target

    def list(self):
        items = []
        while True:
            self.lines()
            if self.peek() in ("", ")") or self.peek(2) == ";;" or self.next_word() in RESERVED:
                return items
            item = self.and_or()
            self.blanks()
            item.background, item.after = self.peek() == "&", self.text[self.at:]
            if self.peek() in ("&", ";") and self.peek() and self.peek(2) != ";;":
                self.take()
            elif self.peek() == "\n":
                self.newline()
            items.append(item)

    def and_or(self):
        begin, parts, operators = self.at, [self.pipeline()], []
        while True:
            self.blanks()
            if self.peek(2) not in ("&&", "||"):
                return Node("chain", parts[0].line, parts=parts, operators=operators, source=self.text[begin:self.at])
            operators.append(self.take(2))
            self.lines()
            parts.append(self.pipeline())

    def pipeline(self):
        self.blanks()
        line, negated = self.line, self.next_word() == "!"
        if negated:
            self.take()
        commands = [self.command()]
        while True:
            self.blanks()
            if self.peek() != "|" or self.peek(2) == "||":
                return Node("pipeline", line, commands=commands, negated=negated)
            self.take()
            self.lines()
            commands.append(self.command())

    def command(self):
        self.blanks()
        line, name = self.line, self.next_word()
        if self.peek() == "(":
            self.take()
            node = Node("group", line, lists=[self.list()])
            self.want(")")
        elif name == "{":
            self.take()
            node = Node("group", line, lists=[self.list()])
            self.want("}")
        elif name in ("if", "while", "until", "for", "case"):
            self.take(len(name))
            node = getattr(self, {"if": "if_", "for": "for_", "case": "case"}.get(name, "while_"))(line)
        else:
            return self.simple(line)
        node.words = []
        self.blanks()
        while (target := self.redirection()):
            node.words.append(target)
            self.blanks()
        return node

    def if_(self, line):
        conditions, branches = [self.list()], []
        self.want("then")
        branches.append(self.list())
        while self.next_word() == "elif":
            self.want("elif")
            conditions.append(self.list())
            self.want("then")
            branches.append(self.list())
        if self.next_word() == "else":
            self.want("else")
            branches.append(self.list())
        self.want("fi")
        return Node("if", line, conditions=conditions, lists=branches)

    def while_(self, line):
        condition = self.list()
        self.want("do")
        body = self.list()
        self.want("done")
        return Node("loop", line, conditions=[condition], lists=[body])

    def for_(self, line):
        header = Node("simple", line, words=[])
        self.blanks()
        while self.peek() not in (";", "\n"):
            header.words.append(self.word())
            self.blanks()
        if self.peek() == ";":
            self.take()
        self.want("do")
        body = self.list()
        self.want("done")
        return Node("loop", line, conditions=[], lists=[body], header=header)

    def case(self, line):
        self.blanks()
        self.word()
        self.want("in")
        branches = []
        self.lines()
        while self.next_word() != "esac":
            while self.take() != ")":
                pass
            branches.append(self.list())
            self.lines()
            if self.peek(2) == ";;":
                self.take(2)
            self.lines()
        self.want("esac")
        return Node("case", line, conditions=[], lists=branches)

    def simple(self, line):
        words = []
        while True:
            self.blanks()
            target = self.redirection()
            if target:
                words += [target] if target.lists else []
                continue
            if self.peek() == "(" and len(words) == 1:
                self.take()
                self.want(")")
                self.lines()
                return Node("function", line, name=words[0].text, body=self.command(), words=[], lists=[])
            if not self.peek() or self.peek() in "\n;&|)":
                break
            if self.peek() == "(":
                self.fail("a parenthesis")
            words.append(self.word())
        if not words:
            self.fail("no command")
        return Node("simple", line, words=words)


def command_name(node):
    """'' for an assignment; what cannot be known is a program."""
    for word in node.words:
        if not re.match(r"[A-Za-z_][A-Za-z0-9_]*=", word.raw):
            return word.text if re.fullmatch(r"[A-Za-z_0-9.:\[-]+", word.raw) else "PROGRAM"
    return ""


def all_simple(lists):
    """Every simple command in lists, also in compound ones, not in functions."""
    for chain in (chain for items in lists for chain in items):
        for pipeline in chain.parts:
            for node in pipeline.commands:
                if node.kind == "simple":
                    yield node
                elif node.kind != "function":
                    yield from all_simple(node.lists + getattr(node, "conditions", []))


class Checker:
    def __init__(self, name, shared):
        self.name, self.findings = name, []
        self.functions = dict(shared)
        # Functions that declare tests, those made of tools, and those whose second argument is a body.
        self.declaring, self.tools, self.takers = {"test_skip", "skip_rest", "test_done"} | BODY_TAKERS, set(TOOLS), set(BODY_TAKERS)

    def learn(self, items):
        """Which functions there are."""
        for chain in items:
            for node in (node for pipeline in chain.parts for node in pipeline.commands):
                if node.kind == "function":
                    self.functions[node.name] = node.body
                elif node.kind in ("if", "group", "loop", "case"):
                    for items_in in node.lists:
                        self.learn(items_in)

    def classify(self):
        """Until nothing is new, because functions call each other."""
        calls = {name: list(all_simple(body.lists)) for name, body in self.functions.items()}
        known = -1
        while known != len(self.declaring) + len(self.takers) + len(self.tools):
            known = len(self.declaring) + len(self.takers) + len(self.tools)
            for name, nodes in calls.items():
                names = {command_name(node) for node in nodes}
                if names & self.declaring:
                    self.declaring.add(name)
                if any(command_name(n) in self.takers and n.words[1:] and n.words[1].text == "$@" for n in nodes):
                    self.takers.add(name)
                if names <= self.tools | {""}:
                    self.tools.add(name)

    def find(self, line, what):
        self.findings.append("%s:%d: the status of %s goes nowhere" % (self.name, line, what))

    def check_list(self, items, used, setup):
        for i, item in enumerate(items):
            last = i == len(items) - 1
            if item.background:
                counts = "$!" in item.after
            else:
                counts = used if last else "$?" in items[i + 1].source
            self.check_chain(item, counts, setup)

    def check_chain(self, chain, used, setup):
        for i, part in enumerate(chain.parts):
            counts = used or "||" in chain.operators[i:]
            self.check_pipeline(part, counts, setup)

    def check_pipeline(self, pipeline, used, setup):
        if pipeline.negated and not used:
            self.find(pipeline.line, "what follows !")
            used = True
        for node in pipeline.commands[:-1]:
            self.check_command(node, False, setup, TOOLS)
        self.check_command(pipeline.commands[-1], used, setup, TOOLS if setup else HARMLESS)

    def check_command(self, node, used, setup, allowed):
        if node.kind == "function":
            name = node.name
            self.check_command(node.body, True, name in self.declaring, TOOLS)
            return
        for items in (items for word in node.words for items in word.lists):
            self.check_list(items, used and node.kind == "simple" and command_name(node) == "", True)
        for items in getattr(node, "conditions", []):
            self.check_list(items, True, setup)
        if node.kind == "simple":
            self.check_simple(node, used, allowed)
        else:
            if hasattr(node, "header"):
                self.check_simple(node.header, True, allowed)
            for items in node.lists:
                self.check_list(items, used and node.kind != "loop", setup or allowed is TOOLS)

    def check_simple(self, node, used, allowed):
        name = command_name(node)
        for i, word in enumerate(node.words):
            if name in self.takers and i == 2 and word.text != "$@":
                parser = Parser(word.text, word.line)
                self.check_list(parser.list(), True, False)
        if not used and name and name not in self.declaring and name not in allowed \
                and not (allowed is TOOLS and name in self.tools) and name != "exec":
            self.find(node.line, " ".join(word.raw for word in node.words[:3]))


def parse(path):
    parser = Parser(open(path, encoding="utf-8").read())
    items = parser.list()
    if parser.peek():
        parser.fail("more")
    return items


def main(paths):
    shared, found = {}, 0
    for path in paths:
        if path.endswith("testlib.sh"):
            library = Checker(path, {})
            library.learn(parse(path))
            shared = library.functions
    for path in paths:
        checker = Checker(path, shared)
        try:
            items = parse(path)
            checker.learn(items)
            checker.classify()
            checker.check_list(items, True, True)
        except SyntaxError as error:
            checker.findings.append("%s: %s" % (path, error))
        found += len(checker.findings)
        print("".join(finding + "\n" for finding in checker.findings), end="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
