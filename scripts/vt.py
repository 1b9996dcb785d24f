# SPDX-License-Identifier: Apache-2.0
"""A terminal's screen, as far as ncurses and the commands here use one: what is on it, in which style, and which modes
are set.  For pictures (terminal-picture) and tests (tests/cli/on_terminal.py)."""
import codecs
import re

ESCAPE = re.compile(r'\x1b(?:\[([<-?]?)([0-9;]*)([@-~])|[()#][0-9A-Za-z]|[=>78Mcg])')
PARTIAL = re.compile(r'\x1b(?:\[[<-?]?[0-9;]*|[()#])?$')
ALTERNATE, HIDDEN, UNWRAPPED, KEYPAD = 'alternate screen', 'cursor hidden', 'no wrapping', 'keypad'
MODES = {'1049': ALTERNATE, '1047': ALTERNATE, '47': ALTERNATE, '1': KEYPAD, '25': HIDDEN, '7': UNWRAPPED}
ENDS = {22: {1, 2}, 24: {4}, 27: {7}, 39: {*range(30, 38), *range(90, 98)}}  # what these take away from a style


class Terminal:
    def __init__(self, lines, columns):
        self.decoder = codecs.getincrementaldecoder('utf-8')('replace')
        self.rest, self.modes, self.style = '', set(), frozenset()
        self.main, self.closed = None, []  # lines of the main screen, and of the other one when it was left
        self.lines, self.columns, self.cells = lines, columns, []
        self.row = self.column = 0
        self.resize(lines, columns)

    def resize(self, lines, columns):
        self.lines, self.columns = lines, columns
        self.cells = [(row + self.blank(columns))[:columns] for row in self.cells[:lines]]
        self.cells += [self.blank(columns) for _ in range(lines - len(self.cells))]
        self.row, self.column = min(self.row, lines - 1), min(self.column, columns - 1)
        self.top, self.bottom = 0, lines - 1  # of what scrolls

    @staticmethod
    def blank(count):
        return [(' ', frozenset())] * count

    def text(self):
        """@return the lines, without blanks at their ends and empty lines at the end"""
        return '\n'.join(''.join(c for c, _ in row).rstrip() for row in self.cells).rstrip('\n')

    def styled(self):
        """@return the same with SGR escapes, as a list"""
        lines = []
        for row in self.cells:
            line, before = '', frozenset()
            for character, style in row:
                if style != before:
                    line += '\x1b[' + ';'.join(['0', *map(str, sorted(style))]) + 'm'
                line, before = line + character, style
            lines.append(line.rstrip() + ('\x1b[0m' if before else ''))
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def left(self):
        """@return what a program should not leave behind, as a sorted list"""
        return sorted(self.modes) + (['a style'] if self.style else [])

    def feed(self, data):
        text, at = self.rest + self.decoder.decode(data), 0
        self.rest = ''
        while at < len(text):
            escape = ESCAPE.match(text, at)
            if escape:
                self.obey(escape)
                at = escape.end()
            elif text[at] == '\x1b' and PARTIAL.match(text, at):
                self.rest = text[at:]
                return
            else:
                self.put(text[at])
                at += 1

    def put(self, character):
        if character == '\r':
            self.column = 0
        elif character == '\n':
            self.line_feed()
        elif character == '\b':
            self.column = max(min(self.column, self.columns - 1) - 1, 0)
        elif character == '\t':
            self.column = min(self.column // 8 * 8 + 8, self.columns - 1)
        elif character >= ' ':
            if self.column >= self.columns:
                self.column = 0
                self.line_feed()
            self.cells[self.row][self.column] = (character, self.style)
            self.column += 1

    def line_feed(self):
        if self.row == self.bottom:
            self.scroll(self.top, 1)
        else:
            self.row = min(self.row + 1, self.lines - 1)

    def scroll(self, first, count):
        """Move the lines from `first` on up by `count`, or down by -count"""
        part = self.cells[first:self.bottom + 1]
        blank = [self.blank(self.columns) for _ in range(min(abs(count), len(part)))]
        kept = part[len(blank):] if count > 0 else part[:len(part) - len(blank)]
        self.cells[first:self.bottom + 1] = kept + blank if count > 0 else blank + kept

    def obey(self, escape):
        private, argument, letter = escape.groups()
        if escape[0] in ('\x1b=', '\x1b>'):
            self.mode(KEYPAD, escape[0] == '\x1b=')
        elif escape[0] == '\x1bM':
            if self.row == self.top:
                self.scroll(self.top, -1)
            else:
                self.row = max(self.row - 1, 0)
        elif letter in ('h', 'l') and private == '?':
            for number in argument.split(';'):
                if number in MODES:  # cursor and wrapping are on as a rule
                    self.mode(MODES[number], (letter == 'h') != (number in ('7', '25')))
        elif letter == 'm' and not private:
            self.restyle(argument)
        elif letter and not private:
            self.move_or_erase(letter, [int(n or 0) for n in argument.split(';')])

    def mode(self, name, is_set):
        if name == ALTERNATE and is_set != (name in self.modes):
            if is_set:
                self.main = (self.cells, self.row, self.column)
                self.cells = [self.blank(self.columns) for _ in range(self.lines)]
            else:
                self.closed = self.styled()
                self.cells, self.row, self.column = self.main
                self.resize(self.lines, self.columns)
        (self.modes.add if is_set else self.modes.discard)(name)

    def restyle(self, argument):
        for number in [int(n or 0) for n in argument.split(';')]:
            if number == 0:
                self.style = frozenset()
            elif number in ENDS:
                self.style -= ENDS[number]
            elif number not in (10, 11, 49):
                self.style |= {number}

    def move_or_erase(self, letter, numbers):
        count, row = max(numbers[0], 1), self.cells[self.row]
        column = min(self.column, self.columns - 1)
        if letter in 'Hf':
            self.row, self.column = count - 1, max(numbers[1] if len(numbers) > 1 else 1, 1) - 1
        elif letter in 'ABCDGd':
            self.row += {'A': -count, 'B': count, 'd': count - 1 - self.row}.get(letter, 0)
            self.column = column + {'C': count, 'D': -count, 'G': count - 1 - column}.get(letter, 0)
        elif letter == 'K':
            begin, end = [(column, self.columns), (0, column + 1), (0, self.columns)][numbers[0]]
            row[begin:end] = self.blank(end - begin)
        elif letter == 'J':
            for i in range(self.lines):
                begin = 0 if numbers[0] or i > self.row else column if i == self.row else self.columns
                end = column + 1 if numbers[0] == 1 and i == self.row else self.columns
                if numbers[0] != 1 or i <= self.row:
                    self.cells[i][begin:end] = self.blank(end - begin)
        elif letter == 'X':
            row[column:column + count] = self.blank(min(count, self.columns - column))
        elif letter == 'P':
            self.cells[self.row] = (row[:column] + row[column + count:] + self.blank(count))[:self.columns]
        elif letter == '@':
            self.cells[self.row] = (row[:column] + self.blank(count) + row[column:])[:self.columns]
        elif letter in 'STLM':
            self.scroll(self.row if letter in 'LM' else self.top, count if letter in 'SM' else -count)
        elif letter == 'r':
            self.top, self.bottom = count - 1, (numbers[1] if len(numbers) > 1 else self.lines) - 1
            self.row = self.column = 0
        elif letter == 'b' and column:
            for _ in range(count):
                self.put(row[self.column - 1][0])
        elif letter not in 'chlt':
            raise ValueError(f'an escape sequence that is not expected: {letter!r}')
        self.row = max(min(self.row, self.lines - 1), 0)
        self.column = max(min(self.column, self.columns), 0)
