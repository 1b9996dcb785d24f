# SPDX-License-Identifier: Apache-2.0
"""Which of all mutants a run looks at: draw.py makes them, a seed chooses, and the compiler has its say."""

import collections
import hashlib
import json
import re
import sys

from draw import can_be_built_in, enumerate_mutants, in_lot_order, read_equivalents
from rewrite import culprits, find_function, mask


def digest(*parts):
    return hashlib.sha256('\0'.join(parts).encode()).hexdigest()[:16]


def state_of(mutant, files):
    """A hash of the function that the mutant changes: its verdict holds until that changes."""
    if not mutant.state:
        text, _, code = files[mutant.file]
        start, end = find_function(code, mutant.function)
        mutant.state = digest(text[start:end])
    return mutant.state


class Lot:
    """Mutants drawn from each folder by a seed, in place of those that do not compile the next ones."""

    def __init__(self, options, source, work):
        self.options, self.path, self.sources = options, work / 'broken.json', {}
        self.notes = read_equivalents(options.equivalent)
        self.broken = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.folders = {folder: in_lot_order(mutants, options.seed)
                        for folder, mutants in enumerate_mutants(source, options.folder, options.file).items()}
        for file in {mutant.file for mutants in self.folders.values() for mutant in mutants}:
            text = (source / file).read_text(encoding='utf-8')
            self.sources[file] = (text, '', mask(text))
        missing = set(options.folder) - set(self.folders)
        if missing:
            sys.exit(f'no C sources in src/{min(missing)}')

    def draw(self):
        """N of each folder; those that are noted as equivalent come on top."""
        drawn = []
        for mutants in self.folders.values():
            count = 0
            for mutant in mutants:
                if count == self.options.draw:
                    break
                if self.broken.get(mutant.key) == state_of(mutant, self.sources) or not can_be_built_in(
                        mutant, self.sources[mutant.file][2]):
                    continue
                mutant.note = self.notes.get(mutant.name, '')
                mutant.equivalent = bool(mutant.note)
                count += not mutant.equivalent
                drawn.append(mutant)
        return drawn

    def leave_out(self, mutants):
        for mutant in mutants:
            self.broken[mutant.key] = state_of(mutant, self.sources)
        self.path.write_text(json.dumps(self.broken))


def complained_of(output, files, mutants):
    """The mutants whose text a compiler, or rewrite(), has found something wrong with, also by way of a macro or, which
    is said before the error, of a template."""
    places, numbers = collections.defaultdict(set), {mutant.number: mutant for mutant in mutants}
    is_error, before = False, []
    for file, line, column, kind in re.findall(r'([\w/.+-]+):(\d+):(\d+): +'
                                               r'(error|warning|note: in expansion|required from)', output):
        file = file[max(file.find('src/'), 0):]
        if kind == 'required from':
            before.append((file, line, column))
            continue
        is_error = kind == 'error' or (is_error and kind != 'warning')
        for name, *place in (*before, (file, line, column)) if is_error else ():
            if name in files:
                places[name].add(tuple(map(int, place)))
        before = []
    found = set().union(*(culprits(files[file][1], spots) for file, spots in places.items()))
    return [numbers[number] for number in sorted(found)]
