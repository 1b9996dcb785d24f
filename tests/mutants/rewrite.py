# SPDX-License-Identifier: Apache-2.0
"""The table of mutants, and C sources in which each of them can be chosen at run time.

A mutant is a piece of text of one function and what takes its place.  The text is found wherever the function is, so
that a table outlives moved lines; a text that is missing, or not unique, is an error that names the mutant.  The
smallest complete piece around it (a statement, a condition, an initialiser) is written twice, once with the change:

    if (mutant_on (7)) { changed } else { original }        (mutant_on (7) ? (changed) : (original))
"""

import hashlib
import functools
import re


class BadTable(Exception):
    pass


class Mutant:
    def __init__(self, file, function, title, line):
        self.file, self.title, self.line = file, title, line
        self.old, self.new, self.note, self.number, self.state = [], [], '', 0, ''
        self.drawn, self.rule, self.span = False, '', None  # what draw.py says of those that it makes
        occurrence = re.fullmatch(r'(.*) \[(\d+)\]', function)
        self.occurrence = int(occurrence.group(2)) if occurrence else 0
        self.function = occurrence.group(1) if occurrence else function

    def finish(self):
        self.old, self.new = '\n'.join(self.old), '\n'.join(self.new)
        text = '\0'.join((self.file, self.function, self.old, self.new, str(self.occurrence), self.rule))
        self.key = hashlib.sha256(text.encode()).hexdigest()[:16]
        self.folder = folder_of(self.file)
        self.name = f'{self.file.removeprefix("src/")} {self.function}: {self.title}'
        self.equivalent = self.note.startswith('equivalent')


def folder_of(file):
    """The group that a file's mutants are counted in: launch, cli, lib/data, lib/engines/shm ..."""
    return file.removeprefix('src/').rpartition('/')[0]


def read_table(path):
    """The mutants of a table, whose form README.md beside this file describes."""
    mutants, file, mutant = [], None, None
    with open(path, encoding='utf-8') as table:
        for number, line in enumerate(table, 1):
            line = line.rstrip('\n')
            mark, _, rest = line.partition(' ')
            if not line or mark == '#':
                continue
            if mark == '==':
                file, mutant = rest, None
            elif mark == '@' and file:
                function, colon, title = rest.partition(': ')
                if not colon:
                    raise BadTable(f'{path}:{number}: expected "@ function: what goes wrong"')
                mutant = Mutant(file, function, title, number)
                mutants.append(mutant)
            elif mark == '-' and mutant and not mutant.new:
                mutant.old.append(rest)
            elif mark == '+' and mutant and mutant.old:
                mutant.new.append(rest)
            elif mark == '=' and mutant and mutant.new:
                mutant.note = (mutant.note + ' ' + rest).strip()
            else:
                raise BadTable(f'{path}:{number}: unexpected line: {line}')
    names = {}
    for mutant in mutants:
        if not mutant.new:
            raise BadTable(f'{path}:{mutant.line}: this mutant changes nothing')
        mutant.finish()
        for key in mutant.key, mutant.name:
            if key in names:
                raise BadTable(f'{path}:{mutant.line}: the same as line {names[key]}')
            names[key] = mutant.line
    return mutants


@functools.lru_cache(maxsize=None)
def mask(text):
    """The text with comments, strings, characters and directives blanked: as long, but with nothing to trip over."""
    def blank(match):
        piece = match.group(0)
        inner = re.sub(r'[^\n]', ' ', piece)
        return piece[0] + inner[1:-1] + piece[-1] if piece[0] in '"\'' else inner
    code = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:\\\n|[^\n])*',
                  blank, text, flags=re.S | re.M)
    for head in re.finditer(r'\bfor \(', code):
        end = forward(code, head.end() - 1)
        code = code[:head.end()] + code[head.end():end].replace(';', FOR_STOP) + code[end:]
    return code


SPACE = re.compile(r'\s*')
PAIRS = {'(': ')', '[': ']', '{': '}'}
CLOSERS = {closer: opener for opener, closer in PAIRS.items()}
BRACKET = re.compile(r'[][(){}]')


def forward(text, start):
    """After the bracket that closes the one at start."""
    depth = 0
    for match in BRACKET.finditer(text, start):
        depth += 1 if match.group() in PAIRS else -1
        if depth == 0:
            return match.end()
    raise BadTable('a bracket is not closed')


HEAD = re.compile(r'^(\w+) ?\(', re.M)
BODY = re.compile(r'\s*\{')


@functools.lru_cache(maxsize=None)
def find_heads(code):
    """{name: [where its arguments begin]} of what may be functions, which begin their lines."""
    heads = {}
    for match in HEAD.finditer(code):
        heads.setdefault(match[1], []).append(match.end() - 1)
    return heads


@functools.lru_cache(maxsize=None)
def find_function(code, name):
    """(start, end) of the body, with its braces; None if it is missing, or not unique."""
    found = []
    for head in find_heads(code).get(name, ()):
        after = forward(code, head)
        rest = BODY.match(code, after)
        if rest:
            start = rest.end() - 1
            found.append((start, forward(code, start)))
    return found[0] if len(found) == 1 else None


def find_words(text, words, start, end):
    """The (start, end) of each place in text[start:end] that has the words, whatever the white space between them.  A
    regular expression for each mutant would take longer to compile than the search does."""
    found, at = [], start
    while (at := text.find(words[0], at, end)) >= 0:
        here = at + len(words[0])
        for word in words[1:]:
            after = SPACE.match(text, here, end).end()
            if after == here or not text.startswith(word, after, end):
                break
            here = after + len(word)
        else:
            found.append((at, here))
            at = here - 1
        at += 1
    return found


def find_text(text, code, mutant):
    """(start, end) of the mutant's text in its function, whatever the white space."""
    body = find_function(code, mutant.function)
    if not body:
        raise BadTable(f'{mutant.file}: no function {mutant.function}, or more than one')
    found = find_words(text, mutant.old.split(), *body)
    if not balanced(code[found[0][0]:found[0][1]] if found else ''):
        raise BadTable(f'{mutant.file}: {mutant.function}: brackets are not balanced: {mutant.old}')
    if mutant.occurrence and mutant.occurrence <= len(found):
        return found[mutant.occurrence - 1]
    if len(found) != 1:
        how = 'is not there' if not found else f'is there {len(found)} times'
        raise BadTable(f'{mutant.file}: {mutant.function}: this text {how}: {mutant.old}')
    return found[0]


def balanced(code):
    depth = 0
    for character in code:
        depth += (character in PAIRS) - (character in CLOSERS)
        if depth < 0:
            return False
    return depth == 0


FOR_STOP = '\x01'  # what mask() makes of a semicolon in the head of a for
CONTROL = re.compile(r'\b(?:if|while|for|switch)\s*\($')
PREFIX = re.compile(r"""\s*(?:else\b | do\b | case\b[^:?]*: | default\s*: | (?!default\b)[A-Za-z_]\w*\s*:(?!:)
                             | (?=(?:if|while|for|switch)\b))""", re.X)
DECLARATION = re.compile(r"""\s*(?!return\b|goto\b|else\b)
    (?:(?:AUTO_[A-Z]+|const|volatile|static|struct|enum|union|unsigned|signed|long|short|_Atomic)\s+)*
    [A-Za-z_]\w*[\s*]+(?:(?:const|volatile)\s+)?[A-Za-z_]\w*\s*(?:\[[^]]*\]\s*)*(?:=|;|,)""", re.X)


def statement_start(code, position):
    """Where the statement, or the bracket without an end, begins that position is in."""
    depth = 0
    for i in range(position - 1, -1, -1):
        if code[i] in ')]':
            depth += 1
        elif code[i] in '([':
            if depth == 0:
                return i
            depth -= 1
        elif code[i] == '}' and depth:
            depth += 1
        elif code[i] == '{' and depth:
            depth -= 1
        elif code[i] in ';{}' and depth == 0:
            return i
    raise BadTable('no statement')


def split_end(code, start, stops):
    """The first of the characters stops from start on that is not inside brackets."""
    i = start
    while i < len(code):
        if code[i] in stops:
            return i
        if code[i] in CLOSERS:
            return i
        i = forward(code, i) if code[i] in PAIRS else i + 1
    raise BadTable('no end')


def skip_prefixes(code, start, limit):
    """Over labels, else, and the heads of if, for and while that stand before limit."""
    while True:
        match = PREFIX.match(code, start)
        if not match:
            return start
        end = match.end()
        control = re.match(r'\s*(?:if|while|for|switch)\s*\(', code[end:])
        if control:
            end = forward(code, end + control.end() - 1)
        if end > limit:
            return start
        if end == start:
            return start
        start = end


def piece_around(code, start, end):
    """(start, end, is_statement) of the smallest piece around code[start:end] that can be written twice."""
    while True:
        before = statement_start(code, start)
        if code[before] == '[':
            start, end = before, forward(code, before)
            continue
        if code[before] != '(':
            break
        close = forward(code, before)
        if CONTROL.search(code[max(0, before - 20):before + 1]):
            if re.search(r'\bfor\s*\($', code[max(0, before - 20):before + 1]):
                first = split_end(code, before + 1, FOR_STOP)
                second = split_end(code, first + 1, FOR_STOP)
                for part in (before + 1, first), (first + 1, second), (second + 1, close - 1):
                    if part[0] <= start and end <= part[1]:
                        return initialiser(code, part[0], start, end) + (False,) if DECLARATION.match(
                            code[part[0]:part[1]] + ';') else part + (False,)
                raise BadTable('more than one part of a for')
            return before + 1, close - 1, False
        start, end = before, max(end, close)
    if code[before] == '{' and re.search(r'(?:=|\)|,|\{)\s*$', code[:before]) and not is_block(code, before):
        return element(code, before + 1, start, end) + (False,)
    begin = skip_prefixes(code, before + 1, start)
    if code[start:end].rstrip().endswith((';', '}')) and not code[begin:start].strip():
        if DECLARATION.match(code, begin):
            raise BadTable('a declaration: name only what is after its =')
        return start, end, True
    if ';' in code[start:end] or '{' in code[start:end] and is_block(code, start + code[start:end].index('{')):
        raise BadTable('more than one statement, and not whole ones')
    finish = split_end(code, end, ';')
    if code[finish] != ';':
        raise BadTable('the text crosses the end of a statement')
    if DECLARATION.match(code, begin):
        return initialiser(code, begin, start, end) + (False,)
    return begin + len(code[begin:]) - len(code[begin:].lstrip()), finish + 1, True


def is_block(code, brace):
    """Whether a brace after a bracket opens a block: of a function, a control statement, a macro of a loop such as
    json_array_foreach() and FOR_EACH(), or a lambda expression of C++."""
    before = code[:brace].rstrip()
    if code[:brace].endswith('\n'):
        return True
    if not before.endswith(')'):
        return not before.endswith(('=', ',')) and not (before.endswith('{') and not is_block(code, len(before) - 1))
    depth = 0
    for i in range(len(before) - 1, -1, -1):
        depth += (before[i] == ')') - (before[i] == '(')
        if depth == 0:
            return bool(CONTROL.search(before[max(0, i - 20):i + 1])
                        or re.search(r'(?:_foreach|\bFOR_[A-Z_]+|\])\s*\($', before[max(0, i - 40):i + 1]))
    return False


def element(code, begin, start, end):
    """The value of an element of a list in braces."""
    i = begin
    while True:
        stop = split_end(code, i, ',')
        if i <= start and end <= stop:
            equals = re.match(r'\s*(?:\.\w+|\[[^]]*\])+\s*=', code[i:stop])
            return (i + equals.end() if equals else i), stop
        if code[stop] != ',':
            raise BadTable('more than one element of a list')
        i = stop + 1


def initialiser(code, begin, start, end):
    """What is after the = of the declarator that start is in."""
    if re.match(r'\s*static\b', code[begin:]):
        raise BadTable('a static initialiser cannot be chosen at run time')
    i = begin
    while True:
        stop = split_end(code, i, ',;' + FOR_STOP)
        equals = code.find('=', i, stop)
        if 0 <= equals < start and end <= stop:
            return equals + 1, stop
        if code[stop] != ',':
            raise BadTable('not inside of one initialiser')
        i = stop + 1


def has_else(code, start, end):
    """Whether a statement begins with else, or is an if whose else is not part of it."""
    statement = code[start:end].strip()
    return bool(re.match(r'else\b', statement)
                or re.match(r'if\b', statement) and re.match(r'\s*else\b', code[end:]))


class Piece:
    def __init__(self, start, end, is_statement):
        self.start, self.end, self.is_statement, self.mutants, self.inner = start, end, is_statement, [], []


def skip_name(text, mutant, start):
    """The name that both texts of a designated initialiser (.count = 1) begin with is not part of what is chosen."""
    name = text[mutant.span[0]:start]
    if mutant.span[0] >= start:
        return
    if not mutant.new.startswith(name):
        raise BadTable(f'the replacement does not begin with {name.strip()}, as the text does')
    mutant.span, mutant.new = (start, mutant.span[1]), mutant.new[len(name):]


def pieces_of(text, code, mutants, errors):
    pieces = {}
    for mutant in mutants:
        try:
            mutant.span = mutant.span if mutant.drawn else find_text(text, code, mutant)
            span = piece_around(code, *mutant.span)
            if span[2] and has_else(code, *span[:2]):
                raise BadTable('an if that has an else: name its condition, without if and brackets')
            skip_name(text, mutant, span[0])
            if mutant.span[1] > span[1]:
                raise BadTable('the text is more than the value that it should be part of')
            pieces.setdefault(span, Piece(*span)).mutants.append(mutant)
        except BadTable as error:
            errors.append(f'table:{mutant.line}: {error}')
    top, open_pieces = [], []
    for span in sorted(pieces, key=lambda span: (span[0], -span[1])):
        piece = pieces[span]
        while open_pieces and open_pieces[-1].end <= piece.start:
            open_pieces.pop()
        if open_pieces and piece.end > open_pieces[-1].end:
            other = open_pieces[-1].mutants[0].line
            errors.append(f'table:{piece.mutants[0].line}: cuts across what line {other} changes')
            continue
        (open_pieces[-1].inner if open_pieces else top).append(piece)
        open_pieces.append(piece)
    return top


def written(text, start, end, pieces):
    """text[start:end] with its pieces written twice."""
    result, at = [], start
    for piece in pieces:
        result.append(text[at:piece.start])
        original = written(text, piece.start, piece.end, piece.inner)
        lines = original.count('\n')
        chain = ''
        for mutant in piece.mutants:
            changed = text[piece.start:mutant.span[0]] + mutant.new + text[mutant.span[1]:piece.end]
            changed = re.sub(r'\s*\n\s*', ' ', re.sub(r'/\*.*?\*/', ' ', changed, flags=re.S))
            changed = f'/*<{mutant.number}*/{changed}/*>*/'  # for culprits()
            if piece.is_statement:
                chain += f'if (mutant_on ({mutant.number})) {{ {changed} ; }} else '
            else:
                chain += f'mutant_on ({mutant.number}) ? ({changed}) : '
        result.append(f'{{ {chain}{{ {original} }} }}' if piece.is_statement else f' ({chain}({original}))')
        at = piece.end
    result.append(text[at:end])
    return ''.join(result)


def culprits(text, places):
    """The numbers of the mutants that the compiler complains of, at these (line, column) of a rewritten source: the one
    whose text is there, or else those that begin in the line, such as the values of an initialiser."""
    lines, numbers = text.splitlines(), set()
    for line, column in places:
        stack = []
        for mark in re.finditer(r'/\*(?:<(\d+)|>)\*/', '\n'.join(lines[:line - 1] + [lines[line - 1][:column]])):
            if mark[1]:
                stack.append(int(mark[1]))
            else:
                stack.pop()
        numbers |= set(stack[-1:] or map(int, re.findall(r'/\*<(\d+)\*/', lines[line - 1])))
    return numbers


def rewrite(text, mutants, errors):
    """The source with all its mutants in; what is wrong with some of them is added to errors."""
    code = mask(text)
    return written(text, 0, len(text), pieces_of(text, code, mutants, errors))
