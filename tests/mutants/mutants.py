#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many deliberate faults do the tests see?  See README.md beside this file.

    mutants.py --check                                  every text of the table, and each mutant that a note calls
                                                        equivalent, is where it should be
    mutants.py --source DIR --work DIR [OPTION]...      draw some, build them in, run the tests that reach each
"""

import argparse
import collections
import fcntl
import functools
import hashlib
import json
import os
import pathlib
import queue
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True  # the sources may be read-only
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from draw import SUFFIXES, enumerate_mutants, read_equivalents, wilson  # noqa: E402
from lot import Lot, complained_of, digest, state_of  # noqa: E402
from rewrite import BadTable, mask, read_table, rewrite  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
CONTROL_BYTES = 8192  # two for the number, one for each mutant
LONG = r'^tests/hosts/(?!random)'  # most of what they look at is in their long forms only
LEFT_OUT = re.compile(r'^tests/lint/(?!generated|man)')  # they look at the sources, which are not the real ones here
KILLED, SURVIVED, NOT_REACHED, EQUIVALENT = 'killed', 'survived', 'not reached', 'equivalent'
NOT_FINISHED, NOT_RUN = 'not finished', 'not run'
RESULTS = KILLED, SURVIVED, NOT_REACHED, NOT_FINISHED, NOT_RUN, EQUIVALENT
NO_END = 'no end after'


def say(text):
    print(text, flush=True)


def digest_of_folder(folder):
    files = sorted(path for path in folder.rglob('*')
                   if path.is_file() and path.suffix != '.md'
                   and not {'__pycache__', 'mutants'} & set(path.relative_to(folder).parts))
    return digest(*(f'{path}\0{hashlib.sha256(path.read_bytes()).hexdigest()}' for path in files))


def all_files(source, mutants):
    """{file: (text, rewritten, masked)} of the files with mutants; ends the program where the table does not fit."""
    result, errors = {}, []
    by_file = collections.defaultdict(list)
    for mutant in mutants:
        by_file[mutant.file].append(mutant)
    for file, its in by_file.items():
        try:
            text = (source / file).read_text(encoding='utf-8')
        except OSError as error:
            errors.append(f'table:{its[0].line}: {file}: {error.strerror}')
            continue
        result[file] = (text, rewrite(text, its, errors), mask(text))
    if errors:
        sys.exit('\n'.join(errors))
    return result


class BuildFailed(Exception):
    pass


class Build:
    """A copy of the sources with all mutants in, its build folder and the control file."""

    def __init__(self, source, work, configure):
        self.source, self.work, self.configure = source, work, configure
        self.tree, self.folder, self.control = work / 'tree', work / 'tree' / 'build', work / 'control'
        work.mkdir(parents=True, exist_ok=True)

    def number(self, mutants):
        """Each mutant keeps its number from run to run, so that few files need to be compiled again."""
        path = self.work / 'numbers.json'
        known = json.loads(path.read_text()) if path.exists() else {}
        known = {mutant.key: known[mutant.key] for mutant in mutants if mutant.key in known}
        free = iter(sorted(set(range(2, CONTROL_BYTES)) - set(known.values())))
        for mutant in mutants:
            if mutant.key not in known:
                known[mutant.key] = next(free)
            mutant.number = known[mutant.key]
        path.write_text(json.dumps(known))

    def copy(self, files):
        """Bring the copy up to date; what has not changed keeps its time, so that make sees what is new."""
        wanted = {}
        for folder, folders, names in os.walk(self.source):
            relative = pathlib.Path(folder).relative_to(self.source)
            folders[:] = [name for name in folders
                          if not (relative == pathlib.Path('.') and (name.startswith('build') and name != 'build-aux'))
                          and name not in ('.git', 'autom4te.cache', '__pycache__')]
            for name in names:
                wanted[relative / name] = pathlib.Path(folder) / name
        for relative, path in wanted.items():
            target = self.tree / relative
            text = files.get(str(relative))
            content = text[1].encode() if text else path.read_bytes()
            if target.exists() and target.read_bytes() == content:
                continue
            had_mutants = target.suffix in SUFFIXES and target.exists()  # its time has to be new, for make
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            shutil.copymode(path, target)
            if not text and not had_mutants:
                shutil.copystat(path, target)

    def make(self, *arguments, jobs=1, must_work=True):
        command = ['make', '-sk', '--no-print-directory', f'-j{jobs}', *arguments]
        # What nvcc makes of kernels has no mutants; what the C++ compiler makes of them for the host has.
        environment = dict(os.environ, NVCC_PREPEND_FLAGS='-Dmutant_on(number)=0')
        result = subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env=environment, check=False)
        if result.returncode and not must_work:
            raise BuildFailed(result.stdout)
        if result.returncode:
            say('\n'.join(line for line in result.stdout.splitlines() if not re.match(r' +CC', line))[-6000:])
            sys.exit(f'the build with mutants failed, see above: {shlex.join(command)} in {self.folder}')
        return result.stdout

    def build(self, files, jobs):
        self.copy(files)
        self.control.write_bytes(bytes(CONTROL_BYTES))
        self.control.chmod(0o666)
        self.header = self.work / 'mutants.h'
        text = (f'#define MUTANTS_CONTROL "{self.control}"\n#define MUTANTS_BYTES {CONTROL_BYTES}\n'
                + (HERE / 'mutants.h').read_text())
        if not self.header.exists() or self.header.read_text() != text:
            self.header.write_text(text)
        if not (self.folder / 'Makefile').exists():
            self.folder.mkdir(exist_ok=True)
            # What a compiler would tell the author of a mistake is not a mutant: arguments of other types.
            flags = ('-O1 -Wno-all -Wno-extra -Werror=incompatible-pointer-types -Werror=int-conversion '
                     f'-include {self.header}')
            with open(self.work / 'configure.out', 'w', encoding='utf-8') as log:
                status = subprocess.run(['../configure', '--silent', f'CFLAGS={flags}', f'CXXFLAGS=-O1 -w -include {self.header}',
                                         *self.configure],
                                        cwd=self.folder, stdout=log, stderr=log, check=False).returncode
            if status:
                sys.exit(f'configure failed, see {self.work / "configure.out"}')
        self.make(jobs=jobs, must_work=False)
        self.make('check', 'TESTS=', jobs=jobs, must_work=False)
        return self.make('print-tests').split()


class Test:
    """A program or a script; a script's points can be run alone."""

    def __init__(self, name, build, long):
        self.name = name
        path = build.tree / name
        self.is_script = name.endswith('.sh')
        self.command = ['/bin/sh', str(path)] if self.is_script else [str(build.folder / name)]
        self.points, self.failure, self.whole, self.parts = 0, '', None, []
        self.setup = 0.0  # seconds of a script before its points
        self.is_long = bool(long and self.is_script and re.search(long, name))

    def take(self, note):
        """What a run without a mutant found."""
        self.points, self.failure = note['points'], note['failure']
        reached = set().union(*(numbers for _, _, numbers in note['parts']))
        self.whole = Unit(self, 0, note['seconds'], reached)
        if self.is_script:
            self.parts = [Unit(self, number, seconds, set(numbers))
                          for number, (seconds, good, numbers) in enumerate(note['parts'], 1) if good]


class Unit:
    """What is run at a time: a whole test (part 0), or one point of a script."""

    def __init__(self, test, part, seconds, reached):
        self.test, self.part, self.seconds, self.reached = test, part, seconds, reached
        self.name = f'{test.name} {part}' if part else test.name
        self.passes_alone = None  # not known yet


class Outcome:
    """What a run of a test found; parts are (seconds, passed, mutants reached) of each point."""

    def __init__(self):
        self.failure, self.seconds, self.parts = '', 0.0, []


class Slot:
    """A place where one test runs at a time."""

    def __init__(self, number, build, plain):
        self.build, self.plain = build, plain
        self.control = build.control if plain else build.work / f'control-{number}'
        self.scratch = pathlib.Path(f'/tmp/accel-mutants-{os.getpid()}-{number}')  # short: sockets are made in it
        self.scratch.mkdir(mode=0o755)

    def close(self):
        shutil.rmtree(self.scratch, ignore_errors=True)

    def set_control(self, number):
        self.control.write_bytes(bytes((number & 255, number >> 8)).ljust(CONTROL_BYTES, b'\0'))
        self.control.chmod(0o666)

    def take_reached(self):
        """The mutants that were reached since the last call."""
        with open(self.control, 'r+b', buffering=0) as file:
            state = file.read(CONTROL_BYTES)
            file.seek(2)
            file.write(bytes(CONTROL_BYTES - 2))
        return [place for place, byte in enumerate(state) if byte and place > 1]

    def start(self, unit):
        tree, folder = str(self.build.tree), str(self.build.folder)
        environment = dict(os.environ, srcdir=tree, builddir=folder, TMPDIR=str(self.scratch),
                           CC=self.build.compilers[0], CXX=self.build.compilers[1])
        for name in 'MAKEFLAGS', 'MFLAGS', 'MAKELEVEL', 'MAKEOVERRIDES', 'TEST_ONLY', 'TEST_LONG':
            environment.pop(name, None)
        if unit.test.is_long:
            environment['TEST_LONG'] = 'yes'
        if unit.part:
            environment['TEST_ONLY'] = str(unit.part)
        if self.plain:
            environment['MUTANTS_PLAIN'] = '1'
        return subprocess.Popen([sys.executable, '-SE', str(HERE / 'slot.py'), str(self.build.control),
                                 str(self.control), str(self.scratch), *unit.test.command],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                env=environment, start_new_session=True)

    def run(self, unit, number, limit):
        """Run it with mutant number on (0: none), until it fails, ends, or the limit in seconds is over."""
        self.set_control(number)
        begin, outcome, plan = time.monotonic(), Outcome(), None
        # What a program reaches while this takes the marks of a point would be lost, and it is run as a whole.
        takes_parts = not number and unit.test.is_script
        process = self.start(unit)
        timed_out = threading.Event()

        def stop():
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

        def stop_late():
            timed_out.set()
            stop()

        timer = threading.Timer(limit, stop_late)
        timer.start()
        last = begin
        for line in process.stdout:
            line = line.decode(errors='replace').rstrip()
            passed = not line.startswith('not ok') or '# TODO' in line
            if not passed:
                outcome.failure = line
                if number:
                    break
            if line.startswith(('ok ', 'not ok ')):
                now = time.monotonic()
                outcome.parts.append((round(now - last, 2), passed, self.take_reached() if takes_parts else []))
                last = now
            match = re.match(r'1\.\.(\d+)', line)
            plan = int(match.group(1)) if match else plan
        if outcome.failure and number or timed_out.is_set():
            stop()
        process.stdout.close()
        status = process.wait()
        timer.cancel()
        if self.plain:
            stop()
        if not number and outcome.parts:
            outcome.parts[-1][2].extend(self.take_reached())
        if timed_out.is_set():
            outcome.failure = f'{NO_END} {limit:.0f} s'
        elif not outcome.failure and status:
            outcome.failure = f'exit status {status}'
        elif not outcome.failure and plan != len(outcome.parts):
            outcome.failure = f'{len(outcome.parts)} results, {plan} planned'
        outcome.seconds = time.monotonic() - begin
        return outcome


def in_parallel(slots, items, work):
    """work (slot, item) for each item, in as many threads as there are slots."""
    waiting, errors = queue.SimpleQueue(), []
    for item in items:
        waiting.put(item)

    def run(slot):
        while not errors:
            try:
                work(slot, waiting.get_nowait())
            except queue.Empty:
                return
            except BaseException as error:
                errors.append(error)
                raise
    threads = [threading.Thread(target=run, args=(slot,), daemon=True) for slot in slots]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(1)
    if errors:
        sys.exit(f'stopped: {errors[0]!r}')


class Notebook:
    """What earlier runs found, a line for each result, so that a run can be interrupted; the last line counts."""

    def __init__(self, path):
        self.path, self.lock, self.notes = path, threading.Lock(), {}
        lines = path.read_text().splitlines() if path.exists() else []
        for line in lines:
            try:
                key, note = json.loads(line)
            except ValueError:  # a run was killed while it wrote this
                continue
            self.notes[key] = note
        if len(lines) > 2 * len(self.notes):
            beside = path.with_suffix('.new')
            beside.write_text(''.join(json.dumps(item) + '\n' for item in self.notes.items()))
            beside.replace(path)

    def get(self, key):
        return self.notes.get(key, {})

    def put(self, key, note):
        with self.lock, open(self.path, 'a', encoding='utf-8') as file:
            self.notes[key] = note
            file.write(json.dumps((key, note)) + '\n')


class Examination:
    def __init__(self, options, mutants, files, build, tests, slots):
        self.options, self.mutants, self.files, self.build, self.slots = options, mutants, files, build, slots
        self.tests = [Test(name, build, options.long) for name in tests
                      if not LEFT_OUT.match(name) and re.search(options.tests, name)]
        self.notebook = Notebook(build.work / 'results.jsonl')
        self.baselines = Notebook(build.work / 'baseline.jsonl')
        self.lock, self.done = threading.Lock(), 0

    def baseline(self):
        """Each test without a mutant: how long its points take, and which mutants each reaches."""
        state = digest(self.options.long, digest_of_folder(self.build.tree / 'tests'),
                       digest_of_folder(self.build.tree / 'src'),
                       *(f'{mutant.key}{mutant.number}' for mutant in self.mutants))

        def work(slot, test):
            note, source = self.baselines.get(test.name), self.source_of(test.name)
            kept = self.options.old_reach and note.get('source', source) == source and note
            if self.options.fresh or not kept and note.get('state') != state:
                outcome = slot.run(Unit(test, 0, 0, ()), 0, 900)
                if outcome.failure:  # once more: the machine may have been busy
                    outcome = slot.run(Unit(test, 0, 0, ()), 0, 900)
                note = {'state': state, 'source': source, 'seconds': round(outcome.seconds, 2),
                        'points': len(outcome.parts), 'failure': outcome.failure, 'parts': outcome.parts}
                if not test.is_script:  # only the whole of it can be run
                    reached = set().union(*(numbers for _, _, numbers in outcome.parts))
                    note['parts'] = [(note['seconds'], True, sorted(reached))]
                self.baselines.put(test.name, note)
            test.take(note)
            if len(test.parts) > 1:
                test.setup = self.measure_setup(slot, test)
        in_parallel(self.slots, self.tests, work)
        for test in self.tests:
            if test.failure:
                say(f'fails without a mutant: {test.name}: {test.failure}')
        self.units = [unit for test in self.tests for unit in (test.parts or [test.whole] * (not test.failure))]
        for unit in self.units:
            note = self.baselines.get(unit.name)
            if unit.part and note.get('source') == self.source_of(unit.test.name):
                unit.passes_alone = note['passes_alone']

    def measure_setup(self, slot, test):
        """How long a script takes of which no point is run: what every point costs that is run alone."""
        name, source = f'{test.name} setup', self.source_of(test.name)
        if self.baselines.get(name).get('source') != source:
            outcome = slot.run(Unit(test, test.points + 1, 0, ()), 0, 60)
            self.baselines.put(name, {'source': source, 'setup': round(outcome.seconds, 2)})
        return self.baselines.get(name)['setup']

    @functools.lru_cache(maxsize=None)
    def source_of(self, name):
        """A hash of what a test says: of its own file, since helpers change rarely in what they find."""
        for path in self.build.tree / name, self.build.tree / (name + '.c'):
            if path.is_file():
                is_long = name.endswith('.sh') and self.options.long and re.search(self.options.long, name)
                return hashlib.sha256(path.read_bytes()).hexdigest()[:16] + (' long' if is_long else '')
        return ''

    def has_ended(self, mutant):
        """Whether an earlier run has said all that is to be said of it."""
        if mutant.equivalent or mutant.note and not self.options.again:
            return True
        note = self.notebook.get(mutant.key)
        if self.options.fresh or note.get('state') != state_of(mutant, self.files):
            return False
        if note['result'] == KILLED:
            if self.options.confirm:
                return not note['how'].startswith(NO_END) or note.get('confirmed', False)
            return note['test_state'].split()[:1] == self.source_of(note['test']).split()[:1]  # in whichever form
        return not self.options.tests and not self.remaining(mutant)

    def remaining(self, mutant):
        """The units that reach it and have not let it pass."""
        note, passed = self.notebook.get(mutant.key), {}
        if note.get('state') == state_of(mutant, self.files) and not self.options.again:
            passed = note.get('passed', {})
        units = [unit for unit in self.units if mutant.number in unit.reached]
        units += {unit.test.whole for unit in units if unit.passes_alone is False and not unit.test.failure}
        units = [unit for unit in units if unit.passes_alone is not False]
        return [unit for unit in units
                if self.source_of(unit.test.name) not in (passed.get(unit.name), passed.get(unit.test.name))]

    def with_wholes(self, units):
        """The same, and scripts as a whole where that may be quicker than their points, each with its setup."""
        by_test = collections.defaultdict(list)
        for unit in units:
            if unit.part:
                by_test[unit.test].append(unit)
        return units + [test.whole for test, points in by_test.items()
                        if test.whole not in units and not test.failure
                        and sum(point.seconds + test.setup for point in points) > test.whole.seconds]

    def count_kills(self):
        """How many mutants of each file each unit has killed."""
        kills = collections.defaultdict(collections.Counter)
        for mutant in self.mutants:
            killer = self.killer(mutant)
            kills[mutant.file][killer] += bool(killer)
        return kills

    def killer(self, mutant):
        return self.name_of(self.notebook.get(mutant.key))

    @staticmethod
    def name_of(note):
        part = note.get('part', 0)
        return note.get('test', '') + (f' {part}' if part else '')

    def price(self, mutant, unit):
        """Seconds for a kill: little for the unit that has killed this mutant, or others of its file."""
        if unit.name == self.killer(mutant):
            return 0
        kills = self.kills[mutant.file]
        points = [unit]
        if unit.test.parts and not unit.part:
            points += [point for point in unit.test.parts if mutant.number in point.reached]
        # What reaches few mutants looks at them more closely than what reaches nearly all.
        chance = sum(kills[point.name] / max(kills.total(), 1) + 2 / max(len(point.reached), 1) for point in points)
        return (unit.seconds + (unit.test.setup if unit.part else 0) + 0.2) / chance

    def cost(self, mutant):
        return min((self.price(mutant, unit) for unit in self.remaining(mutant)), default=0)

    def passes_alone(self, slot, unit):
        """Whether a point passes when the script's others are left out; seldom, a point needs what others left."""
        if unit.part and unit.passes_alone is None:
            outcome = slot.run(unit, 0, unit.seconds * 3 + 3 * self.options.slack)
            unit.passes_alone = not outcome.failure and len(outcome.parts) == unit.test.points
            source = self.source_of(unit.test.name)
            self.baselines.put(unit.name, {'source': source, 'passes_alone': unit.passes_alone})
        return not unit.part or unit.passes_alone

    def failure(self, slot, mutant, unit):
        """How the unit fails with the mutant; empty if it does not."""
        slack = self.options.slack * (3 if self.options.confirm else 1)
        outcome = slot.run(unit, mutant.number, unit.seconds * 3 + slack)
        if not outcome.failure and len(outcome.parts) != unit.test.points:
            outcome.failure = f'{len(outcome.parts)} results, not {unit.test.points}'
        return outcome.failure if outcome.failure and self.passes_alone(slot, unit) else ''

    def examine(self, slot, mutant):
        """Run what reaches it until something fails; what has passed is noted, so that a later run continues there."""
        begin, state = time.monotonic(), state_of(mutant, self.files)
        old = self.notebook.get(mutant.key)
        note = {'state': state, 'name': mutant.name, 'result': SURVIVED, 'passed': {}}
        if old.get('state') == state and not self.options.again:
            note['passed'] = dict(old.get('passed', {}))
        tried = set()
        while True:
            units = [unit for unit in self.remaining(mutant) if not tried & {unit.name, unit.test.name}]
            unit = min(self.with_wholes(units), key=lambda unit: self.price(mutant, unit), default=None)
            spent = time.monotonic() - begin
            if not unit or self.options.budget and spent and spent + unit.seconds > self.options.budget:
                break
            tried.add(unit.name)
            failure = self.failure(slot, mutant, unit)
            if failure:
                point = re.match(r'not ok (\d+)', failure) if unit.test.is_script else None
                part = int(point.group(1)) if point else unit.part
                note.update(result=KILLED, test=unit.test.name, part=part, how=failure,
                            test_state=self.source_of(unit.test.name), confirmed=self.options.confirm)
                self.kills[mutant.file][self.name_of(note)] += 1
                break
            note['passed'][unit.name] = self.source_of(unit.test.name)
            self.notebook.put(mutant.key, note)
        if note['result'] == SURVIVED and not note['passed'] and not self.options.tests:
            note['result'] = NOT_REACHED
        note['left'] = len(units) if note['result'] == SURVIVED else 0
        note['finished'] = not note['left'] and not self.options.tests
        self.finish(mutant, note, time.monotonic() - begin)

    def finish(self, mutant, note, seconds):
        self.notebook.put(mutant.key, note)
        with self.lock:
            self.done += 1
            how = f' by {note["test"]}: {note["how"]}' if note['result'] == KILLED else ''
            left = f', {note["left"]} tests left' if note['left'] else ''
            say(f'[{self.done}/{self.total}] {note["result"]} ({seconds:.1f} s{left}) {mutant.name}{how}')

    def run(self, chosen):
        waiting = [mutant for mutant in chosen if not self.has_ended(mutant)]
        if self.options.confirm:
            waiting = [mutant for mutant in waiting if self.notebook.get(mutant.key).get('result') == KILLED]
        self.kills = self.count_kills()
        # Cheap ones before others, and last those that survived earlier tests: a run that is interrupted has most of
        # the results.
        waiting.sort(key=lambda mutant: (self.notebook.get(mutant.key).get('result') in (SURVIVED, NOT_REACHED),
                                         self.cost(mutant)))
        self.total = len(waiting)
        say(f'{len(chosen)} mutants, {len(chosen) - self.total} of them known or equivalent')
        in_parallel(self.slots, waiting, self.examine)


def results_of(mutants, files, notebook):
    """{key: result}; a mutant with a reason why it survives counts as a survivor, whether it was run or not; one that
    not all tests have been run with is not finished."""
    results = {}
    for mutant in mutants:
        note = notebook.get(mutant.key)
        result = note['result'] if note.get('state') == state_of(mutant, files) else NOT_RUN
        if mutant.equivalent:
            result = EQUIVALENT
        elif result != KILLED and mutant.note:
            result = SURVIVED
        elif result == SURVIVED and not note.get('finished'):
            result = NOT_FINISHED
        results[mutant.key] = result
    return results


def scores(mutants, results):
    """[(folder, Counter of results)], all of them last."""
    rows = collections.defaultdict(collections.Counter)
    for mutant in mutants:
        for row in mutant.folder, 'all':
            rows[row][results[mutant.key]] += 1
    return sorted(rows.items(), key=lambda item: (item[0] == 'all', item[0]))


def score(row):
    """The share of killed mutants among those that were run and are not equivalent, and its 95 % interval."""
    judged = row[KILLED] + row[SURVIVED] + row[NOT_REACHED] + row[NOT_FINISHED]
    least, most = wilson(row[KILLED], judged)
    return (f'{100 * row[KILLED] / judged:.0f} %', f'{least:.0f} to {most:.0f} %') if judged else ('-', '-')


def report(mutants, files, notebook, path, title):
    """The score of each folder, and each mutant that the tests did not see."""
    results, lines = results_of(mutants, files, notebook), []
    lines += [title, '', '| Folder | n | ' + ' | '.join(RESULTS) + ' | Score | 95 % interval |', '|---' * (len(RESULTS) + 4) + '|']
    for folder, row in scores(mutants, results):
        numbers = ' | '.join(str(row[kind]) for kind in RESULTS)
        lines.append(f'| `{folder}` | {row.total() - row[EQUIVALENT] - row[NOT_RUN]} | {numbers} | {" | ".join(score(row))} |')
    lines.append('')
    for result in SURVIVED, NOT_REACHED, NOT_FINISHED, NOT_RUN:
        for mutant in mutants:
            if results[mutant.key] == result:
                lines.append(f'{result}: {mutant.name}' + (f' ({mutant.note})' if mutant.note else ''))
    lines.append('')
    for mutant in mutants:
        note = notebook.get(mutant.key)
        if results[mutant.key] == KILLED and note['how'].startswith(NO_END):
            sure = 'twice' if note.get('confirmed') else 'once; --confirm runs it alone'
            lines.append(f'killed, but only by a test that did not end ({sure}): {mutant.name} ({note["test"]})')
    text = '\n'.join(lines) + '\n'
    if path:
        path.write_text(text)
    say(text)


def can_unshare():
    """Whether namespaces are allowed here: to root outside of most containers."""
    return subprocess.run(['unshare', '--mount', '--pid', '--net', '--ipc', '--fork', '--mount-proc', 'true'],
                          stderr=subprocess.DEVNULL, check=False).returncode == 0 if shutil.which('unshare') else False


def parse_options():
    parser = argparse.ArgumentParser(description='How many deliberate faults do the tests see?')
    parser.add_argument('--check', action='store_true', help='only see whether the table fits the sources')
    parser.add_argument('--source', type=pathlib.Path, default=HERE.parent.parent, help='top folder of the sources')
    parser.add_argument('--work', type=pathlib.Path, default='build/mutants', help='folder for the build and results')
    parser.add_argument('--draw', type=int, default=40, metavar='N', help='mutants drawn from each folder [%(default)s]')
    parser.add_argument('--seed', default='', help='of the lot [another one each time]')
    parser.add_argument('--listed', action='store_true', help='run the mutants of the table instead')
    parser.add_argument('--table', type=pathlib.Path, default=HERE / 'table', help='another table')
    parser.add_argument('--equivalent', type=pathlib.Path, default=HERE / 'equivalent', help='other notes')
    parser.add_argument('--only', default='', metavar='REGEX', help='mutants whose name matches')
    parser.add_argument('--folder', action='append', default=[], metavar='NAME', help='mutants of this folder, such as '
                        'lib/data; may be repeated [all]')
    parser.add_argument('--file', default='', metavar='REGEX', help='draw only from files whose name matches')
    parser.add_argument('--jobs', type=int, default=os.cpu_count() or 1, help='tests at a time [number of CPUs]')
    parser.add_argument('--slack', type=float, default=20, help='seconds beyond three times the usual [20]')
    parser.add_argument('--budget', type=float, default=0, metavar='SECONDS', help='put off mutants that take longer')
    parser.add_argument('--tests', default='', metavar='REGEX', help='only run tests whose name matches')
    parser.add_argument('--long', default=LONG, metavar='REGEX', help='scripts that are run in their long form '
                        '[%(default)s]')
    parser.add_argument('--again', action='store_true', help='run those again that were not killed, even those with '
                        'a reason in the table')
    parser.add_argument('--confirm', action='store_true', help='run those again, with more slack, that were killed '
                        'only by a test that did not end')
    parser.add_argument('--old-reach', action='store_true', help='only measure what changed tests reach; mutants that '
                        'are new since the last run count as not reached')
    parser.add_argument('--fresh', action='store_true', help='forget earlier results')
    parser.add_argument('--report', action='store_true', help='only print what is known')
    parser.add_argument('--build-only', action='store_true', help='build, and stop')
    parser.add_argument('configure', nargs='*', help='arguments of configure, after --')
    return parser.parse_args()


def build_lot(build, lot, jobs):
    """Draw and build until all that was drawn compiles: (mutants, files, tests)."""
    while True:
        mutants, errors = lot.draw(), []
        build.number(mutants)
        by_file = collections.defaultdict(list)
        for mutant in mutants:
            mutant.line = mutant.number  # rewrite() names lines of the table
            by_file[mutant.file].append(mutant)
        files = {file: (lot.sources[file][0], rewrite(lot.sources[file][0], its, errors), lot.sources[file][2])
                 for file, its in by_file.items()}
        if errors:
            wrong = {int(error.split(':')[1]) for error in errors}
            lot.leave_out([mutant for mutant in mutants if mutant.line in wrong])
            continue
        try:
            return mutants, files, build.build(files, jobs)
        except BuildFailed as error:
            wrong = complained_of(str(error), files, mutants)
            if not wrong:
                sys.exit(str(error)[-6000:] + f'\nthe build with mutants failed, see above: {build.folder}')
            lot.leave_out(wrong)


def read_listed(options, source):
    try:
        mutants = read_table(options.table)
    except BadTable as error:
        sys.exit(str(error))
    for number, mutant in enumerate(mutants, 2):
        mutant.number = number
    return mutants, all_files(source, mutants)


def check(options, source):
    """Whether the table and the notes fit the sources."""
    mutants, _ = read_listed(options, source)
    try:
        notes = read_equivalents(options.equivalent)
    except BadTable as error:
        sys.exit(str(error))
    folders = {name.split()[0].rpartition('/')[0] for name in notes}
    names = {mutant.name for its in enumerate_mutants(source, folders).values() for mutant in its} if notes else set()
    errors = [f'{options.equivalent}: no such mutant; remove the note, or fix it: {name}' for name in notes
              if name not in names]
    errors += [f'{options.equivalent}: no reason: {name}' for name, reason in notes.items() if not reason]
    if errors:
        sys.exit('\n'.join(errors))
    say(f'{len(mutants)} mutants and {len(notes)} notes of equivalent ones fit the sources')


def title_of(options, source):
    commit = subprocess.run(['git', '-C', str(source), 'log', '-1', '--format=%h'], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True, check=False).stdout.strip() or 'unknown'
    tests = f', tests: {options.tests}' if options.tests else ''
    what = 'table' if options.listed else f'seed {options.seed}, {options.draw} of each folder'
    return f'{what}, commit {commit}{tests}'


def prepare(options, source, work):
    """(build, mutants, files, tests) of the table or of a lot."""
    build = Build(source, work, options.configure)
    if not options.listed:
        return build, *build_lot(build, Lot(options, source, work), options.jobs)
    mutants, files = read_listed(options, source)
    build.number(mutants)
    files = all_files(source, mutants)
    try:
        return build, mutants, files, build.build(files, options.jobs)
    except BuildFailed as error:
        sys.exit(str(error)[-6000:] + f'\nthe build with mutants failed, see above: {build.folder}')


def main():
    options = parse_options()
    source, work = options.source.resolve(), options.work.resolve()
    if options.check:
        check(options, source)
        return
    last = work / 'seed'
    work.mkdir(parents=True, exist_ok=True)
    if not options.listed:
        if not options.seed:
            options.seed = last.read_text() if options.report and last.exists() else str(time.time_ns() // 1000 % 10**6)
        last.write_text(options.seed)
        say(f'seed {options.seed}: --seed {options.seed} repeats this draw, or continues it')
    if options.report:
        if options.listed:
            mutants, files = read_listed(options, source)
        else:
            lot = Lot(options, source, work)
            mutants, files = lot.draw(), lot.sources
        report(mutants, files, Notebook(work / 'results.jsonl'), None, title_of(options, source))
        return
    lock = open(work / 'lock', 'w', encoding='utf-8')
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f'another run is at work in {work}')
    for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        signal.signal(number, lambda *_: sys.exit('interrupted; the next run continues from here'))
    begin = time.monotonic()
    build, mutants, files, tests = prepare(options, source, work)
    say(f'built with {len(mutants)} mutants in {time.monotonic() - begin:.0f} s')
    if options.build_only:
        return
    variables = dict(re.findall(r'^(CC|CXX) = (.*)$', (build.folder / 'Makefile').read_text(), re.M))
    build.compilers = variables.get('CC', 'cc'), variables.get('CXX', 'c++')
    plain = not can_unshare()
    if plain:
        say('namespaces are not allowed here: one test at a time, and what it leaves behind may disturb the next')
    slots = [Slot(number, build, plain) for number in range(1 if plain else options.jobs)]
    chosen = [mutant for mutant in mutants if re.search(options.only, mutant.name)
              and (not options.folder or mutant.folder in options.folder)]
    examination = Examination(options, mutants, files, build, tests, slots)
    try:
        examination.baseline()
        examination.run(chosen)
    finally:
        for slot in slots:
            slot.close()
        report(chosen, files, examination.notebook, work / 'report.md', title_of(options, source))


if __name__ == '__main__':
    main()
