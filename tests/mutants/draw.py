# SPDX-License-Identifier: Apache-2.0
"""All mutants that a few rules make of C sources, and a lot that draws some of them.

    python3 draw.py FILE...             how many mutants each rule makes of these files
    python3 draw.py --all FILE...       each of them

enumerate_mutants() goes through the functions of a file.  Mutants that do not compile are found later, by the build.
The lot gives each mutant the place that a hash of the seed and of the mutant's own text has: a drawing without
replacement in which each mutant of a folder has the same chance, and which changes little when the sources do.
"""

import collections
import hashlib
import math
import pathlib
import re
import sys

sys.dont_write_bytecode = True
from rewrite import (BODY, BadTable, CLOSERS, DECLARATION, FOR_STOP, HEAD, Mutant, PAIRS, find_function, forward,  # noqa: E402
                     mask, piece_around, skip_prefixes, split_end)

RELATIONS = {'<': ('<=', '>='), '<=': ('<', '>'), '>': ('>=', '<='), '>=': ('>', '<'), '==': ('!=',), '!=': ('==',)}
ARITHMETIC = {'+': '-', '-': '+', '*': '/', '/': '*', '%': '*', '<<': '>>', '>>': '<<', '&': '|', '|': '&', '^': '&',
              '+=': '-=', '-=': '+=', '*=': '/=', '/=': '*=', '%=': '*=', '<<=': '>>=', '>>=': '<<=', '&=': '|=',
              '|=': '&=', '^=': '&=', '++': '--', '--': '++'}
LOGIC = {'&&': '||', '||': '&&'}
TOKEN = re.compile(r"""\s+ | (?P<string>["'][^"']*["']) | (?P<number>(?:0[xX][\da-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\w*)
                     | (?P<name>[A-Za-z_]\w*) | (?P<operator><<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\.\.\.|.)""", re.X | re.S)
NOT_CALLED = {'if', 'while', 'for', 'switch', 'return', 'sizeof', 'defined', '_Alignof', 'alignof', 'offsetof', 'typeof',
              '__typeof__', 'va_arg', 'va_start', 'va_end', 'static_assert', '_Static_assert', '__attribute__', 'case'}
DECLARES = re.compile(r'VISIT|DEVICE_GUARD|SHARED')  # macros of variables, as in src/cuda/gpu.h
NOT_DELETED = re.compile(r'(?:return|if|else|for|while|do|switch|case|default|goto|static|typedef|struct|union|enum|'
                         r'AUTO_\w+|va_start|va_end|__attribute__)\b')
UNUSED = re.compile(r'\(void\) \w+(?:, \(void\) \w+)*$')  # says to the compiler that parameters are not used
# Whether memory is freed is what the leak sanitizer looks for, in CI.
FREES = re.compile(r'(?:free|json_decref|\w+_(?:free|destroy))\s*\(')
SAME_BOTH_WAYS = re.compile(r'(?:str(?:n|case|ncase)?cmp|memcmp|json_equal|is_same_gpu|calloc)$')  # as far as equality goes
SUFFIXES = '.c', '.h', '.cu'
RULES = 'relation', 'arithmetic', 'logic', 'constant', 'condition', 'argument', 'statement', 'error path', 'return'


class Source:
    """A file, and what is known of its tokens."""

    def __init__(self, file, text):
        self.file, self.text, self.code, self.found = file, text, mask(text), []

    def functions(self):
        """(name, start, end) of each body; a duplicate name (under #if) is left out."""
        for match in HEAD.finditer(self.code):
            try:
                if BODY.match(self.code, forward(self.code, match.end() - 1)) and find_function(self.code, match[1]):
                    yield match[1], *find_function(self.code, match[1])
            except BadTable:  # brackets that only the preprocessor closes
                continue

    def add(self, rule, start, end, new):
        """The text from start to end may become new; but what declares variables cannot be written twice."""
        begin = max(self.code.rfind(stop, 0, start) for stop in ';{}') + 1
        if DECLARES.match(self.code[begin:end].lstrip()):
            return
        while start < end and self.code[start].isspace():
            start += 1
        while start < end and self.text[end - 1].isspace():
            end -= 1
        old = self.text[start:end]
        if start < end and new and ' '.join(old.split()) != ' '.join(new.split()):
            self.found.append((rule, start, end, new))

    def mutants(self):
        result = []
        for name, start, end in self.functions():
            self.found = []
            tokens = [match for match in TOKEN.finditer(self.code, start, end) if match.lastgroup]
            self.tokens_of(tokens)
            self.chains_of(tokens, start, end)
            self.statements_of(start, end)
            self.heads_of(start, end)
            result += self.named(name)
        return result

    def named(self, function):
        """Mutants of what was found in a function, each with its place among those that have the same texts."""
        seen, result = collections.Counter(), []
        changes = {(start, end, new): rule for rule, start, end, new in reversed(self.found)}
        for (start, end, new), rule in sorted(changes.items()):
            old = ' '.join(self.text[start:end].split())
            title = f'{shorten(old)} -> {shorten(new)}'
            seen[title, rule] += 1
            mutant = Mutant(self.file, function, '', 0)
            mutant.drawn, mutant.rule, mutant.span = True, rule, (start, end)
            mutant.old, mutant.new = [old], [new]
            mutant.occurrence = seen[title, rule]
            mutant.title = title + (f' [{mutant.occurrence}]' if mutant.occurrence > 1 else '') + f' ({rule})'
            mutant.finish()
            result.append(mutant)
        return result

    def tokens_of(self, tokens):
        """Operators, constants and the arguments of calls."""
        for place, match in enumerate(tokens):
            token, start, end = match.group(), match.start(), match.end()
            before = tokens[place - 1].group() if place else ''
            spaced = self.code[start - 1].isspace() and self.code[end].isspace()
            if token in RELATIONS:
                for new in RELATIONS[token]:
                    self.add('relation', start, end, new)
            elif token in LOGIC:
                self.add('logic', start, end, LOGIC[token])
            elif token in ARITHMETIC and (spaced or token in ('++', '--')):
                self.add('arithmetic', start, end, ARITHMETIC[token])
            elif token == '!' and (before != '(' or self.code[self.right_of(end, '&&', len(self.code))] != ')'):
                self.add('logic', start, end, '!!')
            elif match.lastgroup == 'number' and before not in ('case', '.') and self.is_value(tokens, place):
                if before != '-' or token != '1':  # -2 says what -1 says
                    if before != '(' or tokens[place - 2].group() != 'calloc':  # one more is not used
                        self.add('constant', start, end, f'({token} + 1)')
                    self.add('constant', start, end, '' if before == 'return' else f'({token} - 1)')
            elif token in ('true', 'false') and before != 'case':
                self.add('constant', start, end, 'false' if token == 'true' else 'true')
            elif token == '(' and re.fullmatch(r'[A-Za-z_]\w*|\)|\]', before) and before not in NOT_CALLED and (
                    not FREES.match(self.code, tokens[place - 1].start())):
                self.arguments_of(start)

    @staticmethod
    def is_value(tokens, place):
        """Not a length in a declaration (char name[32]), which is in the tokens a name and '[' after a type."""
        return not (tokens[place - 1].group() == '[' and tokens[place + 1].group() == ']' and place > 2
                    and tokens[place - 2].lastgroup == 'name'
                    and re.fullmatch(r'(?!return)[A-Za-z_]\w*|\*', tokens[place - 3].group()))

    def split(self, start, end, stop):
        """The (start, end) of what is between the characters stop, outside of brackets."""
        parts, at = [], start
        while True:
            try:
                here = min(split_end(self.code, at, stop), end)
            except BadTable:
                here = end
            parts.append((start, here))
            if here >= end or self.code[here] not in stop:
                return parts
            start = at = here + 1

    def arguments_of(self, bracket):
        end = forward(self.code, bracket) - 1
        if not self.code[bracket + 1:end].strip():
            return
        parts, name = self.split(bracket + 1, end, ','), re.search(r'\w*\s*$', self.code[max(0, bracket - 80):bracket])[0].strip()
        if DECLARES.match(name) or any(re.search(r'[;{}]', self.code[a:b]) for a, b in parts):
            return
        for a, b in parts:
            text = self.code[a:b].strip()
            if text not in ('0', 'NULL', 'false', 'true') and not re.fullmatch(r'&.*|-?\d\w*|(?:"[^"]*"\s*)+', text, re.S):
                self.add('argument', a, b, '0')
        for (a, b), (c, d) in zip(parts, parts[1:]):
            first, second = self.text[a:b].strip(), self.text[c:d].strip()
            if first != second and not ((a, b) == parts[0] and SAME_BOTH_WAYS.match(name)):
                self.add('argument', a, d, f'{second}, {first}')

    def chains_of(self, tokens, start, end):
        """Operands of && and ||, one left out at a time, and the conditions of ?:."""
        for match in tokens:
            token = match.group()
            if token in LOGIC:
                neutral = 'true' if token == '&&' else 'false'
                left, right = self.left_of(match.start(), token, start), self.right_of(match.end(), token, end)
                self.add('condition', left, match.start(), neutral)
                self.add('condition', match.end(), right, neutral)
            elif token == '?':
                left = self.left_of(match.start(), token, start)
                for new in 'true', 'false':
                    self.add('condition', left, match.start(), new)

    def left_of(self, at, operator, start):
        """Where the operand before an operator begins."""
        depth, i = 0, at - 1
        stops = {'&&': r'&&|\|\||\?|:|,', '||': r'\|\||\?|:|,', '?': r'\?|:|,'}[operator]
        stops = re.compile(rf'(?:{stops}|\breturn|(?<![=!<>])=|[-+*/%&|^]=)$')
        while i > start:
            character = self.code[i]
            if character in ')]}' and (depth or character != '}'):
                depth += 1
            elif character in '([{' and depth:
                depth -= 1
            elif not depth and (character in '([{};' + FOR_STOP or self.code[i + 1] != '=' and stops.search(
                    self.code, max(start, i - 8), i + 1)):
                break
            i -= 1
        return i + 1

    def right_of(self, at, operator, end):
        """Where the operand after an operator ends."""
        stops, i = ({'&&', '||'} if operator == '&&' else {'||'}), at
        while i < end:
            if self.code[i] in CLOSERS or self.code[i] in ';,?:' + FOR_STOP or self.code[i:i + 2] in stops:
                return i
            i = forward(self.code, i) if self.code[i] in PAIRS else i + 1
        return end

    def statements_of(self, start, end):
        """Calls, assignments, break and continue are left out; what is returned becomes 0."""
        for match in re.finditer(r'[;{}]', self.code[start:end - 1]):
            begin = start + match.end()
            while True:  # over labels, else and heads
                after = skip_prefixes(self.code, begin, end)
                if after == begin:
                    break
                begin = after
            begin += len(self.code[begin:]) - len(self.code[begin:].lstrip())
            try:
                stop = split_end(self.code, begin, ';')
            except BadTable:
                continue
            code = self.code[begin:stop]
            if self.code[stop] != ';' or not code.strip() or code[0] in '{}' or stop > end:
                continue
            if re.match(r'return\b', code):
                value = code[6:].strip()
                if value and value not in ('0', 'false', 'NULL', 'true', 'ACCEL_OK', 'STATUS_OK'):
                    self.add('return', begin + 6, stop, '0')
            elif not (DECLARATION.match(self.code, begin) or DECLARES.match(code) or NOT_DELETED.match(code)
                      or FREES.match(code) or UNUSED.match(code)):
                self.add('statement', begin, stop + 1, ';')

    def heads_of(self, start, end):
        """Conditions that are the other way round, always true or never."""
        for match in re.finditer(r'\b(if|while|for) \(', self.code[start:end]):
            opening = start + match.end() - 1
            closing = forward(self.code, opening) - 1
            first, last = opening + 1, closing
            if match[1] == 'for':
                parts = self.split(first, last, FOR_STOP)
                if len(parts) != 3:
                    continue
                first, last = parts[1]
            condition = self.text[first:last].strip()
            if not condition or condition in ('true', 'false', '1'):
                continue
            leaves = re.match(r'\s*\{?\s*(?:return|goto)\b', self.code[closing + 1:])
            self.add('condition', first, last, f'!({condition})')
            self.add('error path' if leaves else 'condition', first, last, 'false')
            if match[1] == 'if':  # a loop that never ends is found by any test
                self.add('condition', first, last, 'true')


def shorten(text):
    return text if len(text) <= 60 else text[:40] + '...' + text[-17:]


def enumerate_mutants(source, folders=(), files=''):
    """All mutants of the C files and kernels under src/ (of some folders, and files whose name matches), by folder."""
    result = collections.defaultdict(list)
    for path in sorted((source / 'src').rglob('*')):
        file = str(path.relative_to(source))
        folder = file.removeprefix('src/').rpartition('/')[0]
        if path.suffix in SUFFIXES and (not folders or folder in folders) and re.search(files, file):
            result[folder] += Source(file, path.read_text(encoding='utf-8')).mutants()
    return result


def in_lot_order(mutants, seed):
    return sorted(mutants, key=lambda mutant: hashlib.sha256(f'{seed}\0{mutant.key}'.encode()).digest())


def can_be_built_in(mutant, code):
    """Whether there is a complete piece around it that can be written twice."""
    try:
        piece_around(code, *mutant.span)
        return True
    except BadTable:
        return False


def wilson(good, count, z=1.96):
    """The 95 % interval of a share, in percent."""
    if not count:
        return 0.0, 100.0
    share = good / count
    middle = share + z * z / (2 * count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return tuple(100 * (middle + sign * half) / (1 + z * z / count) for sign in (-1, 1))


def read_equivalents(path):
    """{(file, function, change): reason}: a line "file function: change" and, indented, the reason why no test can tell
    the change from the original."""
    result, name = {}, None
    for number, line in enumerate(path.read_text(encoding='utf-8').splitlines(), 1):
        if not line or line.startswith('#'):
            continue
        if line.startswith(' ') and name:
            result[name] = (result[name] + ' ' + line.strip()).strip()
        elif re.match(r'\S+ \w+: .*\)$', line) and (name is None or result[name]):
            name = line
            result[name] = ''
        else:
            raise BadTable(f'{path}:{number}: expected "FILE FUNCTION: CHANGE (RULE)", then an indented reason: {line}')
    return result


def main(arguments):
    counts = collections.Counter()
    for file in arguments:
        if file != '--all':
            for mutant in Source(file, pathlib.Path(file).read_text(encoding='utf-8')).mutants():
                counts[mutant.rule] += 1
                if '--all' in arguments:
                    print(f'{mutant.function}: {mutant.title}')
    for rule in RULES:
        print(f'{rule}: {counts[rule]}')


if __name__ == '__main__':
    main(sys.argv[1:])
