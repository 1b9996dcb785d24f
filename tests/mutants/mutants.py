#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many deliberate faults do the tests see?  See README.md beside this file.

    mutants.py --check                                  every text of the table is where it should be, and every C file
                                                        has mutants
    mutants.py --source DIR --work DIR [OPTION]...      build them all in, run the tests that reach each, keep score
"""

import argparse
import collections
import fcntl
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
from rewrite import BadTable, read_table, rewrite  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
CONTROL_BYTES = 8192  # two for the number, one for each mutant
LEFT_OUT = re.compile(r'^tests/lint/(?!generated|man)')  # they look at the sources, which are not the real ones here
KILLED, SURVIVED, NOT_REACHED = 'killed', 'survived', 'not reached'
NO_END = 'no end after'


def say(text):
    print(text, flush=True)


def digest(*parts):
    return hashlib.sha256('\0'.join(parts).encode()).hexdigest()[:16]


def digest_of_folder(folder):
    files = sorted(path for path in folder.rglob('*')
                   if path.is_file() and not {'__pycache__', 'mutants'} & set(path.relative_to(folder).parts))
    return digest(*(f'{path}\0{hashlib.sha256(path.read_bytes()).hexdigest()}' for path in files))


def all_files(source, mutants):
    """{file: (text, rewritten)} of the files that have mutants; ends the program where the table does not fit."""
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
        result[file] = (text, rewrite(text, its, errors))
    if errors:
        sys.exit('\n'.join(errors))
    return result


def check_files(source, covered, exempt):
    """End the program where a C file has no mutants and no reason for that, or has both."""
    files = {str(path.relative_to(source)) for path in (source / 'src').rglob('*.c')}
    errors = [f'{file}: add mutants to the table (tests/mutants/README.md says how), or "= no mutants: reason"'
              for file in sorted(files - covered - set(exempt))]
    errors += [f'{file}: the table says that it has no mutants, but it has some'
               for file in sorted(covered & set(exempt))]
    errors += [f'{file}: does not exist; the table says that it has no mutants' for file in sorted(set(exempt) - files)]
    if errors:
        sys.exit('\n'.join(errors))


def those_that_fit(source, mutants):
    """Leave out mutants whose text has changed, and say how many."""
    errors = []
    by_file = collections.defaultdict(list)
    for mutant in mutants:
        mutant.number = 2
        by_file[mutant.file].append(mutant)
    for file, its in by_file.items():
        rewrite((source / file).read_text(encoding='utf-8'), its, errors)
    stale = {int(error.split(':')[1]) for error in errors}
    if stale:
        say(f'{len(stale)} mutants do not fit the sources and are left out; --check names them')
    return [mutant for mutant in mutants if mutant.line not in stale]


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
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            shutil.copymode(path, target)
            if not text:
                shutil.copystat(path, target)

    def make(self, *arguments, jobs=1):
        command = ['make', '-sk', '--no-print-directory', f'-j{jobs}', *arguments]
        result = subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                check=False)
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
            flags = f'-O1 -w -include {self.header}'
            with open(self.work / 'configure.out', 'w', encoding='utf-8') as log:
                status = subprocess.run(['../configure', '--silent', f'CFLAGS={flags}', *self.configure],
                                        cwd=self.folder, stdout=log, stderr=log, check=False).returncode
            if status:
                sys.exit(f'configure failed, see {self.work / "configure.out"}')
        self.make(jobs=jobs)
        self.make('check', 'TESTS=', jobs=jobs)
        return self.make('print-tests').split()


class Test:
    def __init__(self, name, build):
        self.name = name
        path = build.tree / name
        self.command = ['/bin/sh', str(path)] if name.endswith('.sh') else [str(build.folder / name)]
        self.seconds, self.reached, self.points, self.failure = 0.0, set(), 0, ''


class Outcome:
    def __init__(self, failure, points, seconds, reached):
        self.failure, self.points, self.seconds, self.reached = failure, points, seconds, reached


class Slot:
    """A place where one test runs at a time."""

    def __init__(self, number, build, plain):
        self.build, self.plain = build, plain
        self.control = build.control if plain else build.work / f'control-{number}'
        self.scratch = pathlib.Path(f'/tmp/accel-mutants-{os.getpid()}-{number}')  # short: sockets are made in it
        self.scratch.mkdir(mode=0o755)

    def close(self):
        shutil.rmtree(self.scratch, ignore_errors=True)

    def run(self, test, number, limit):
        """Run the test with mutant number on (0: none), until it fails, ends, or the limit in seconds is over."""
        self.control.write_bytes(bytes((number & 255, number >> 8)).ljust(CONTROL_BYTES, b'\0'))
        self.control.chmod(0o666)
        tree, folder = str(self.build.tree), str(self.build.folder)
        environment = dict(os.environ, srcdir=tree, builddir=folder, TMPDIR=str(self.scratch),
                           CC=self.build.compilers[0], CXX=self.build.compilers[1])
        for name in 'MAKEFLAGS', 'MFLAGS', 'MAKELEVEL', 'MAKEOVERRIDES':
            environment.pop(name, None)
        if self.plain:
            environment['MUTANTS_PLAIN'] = '1'
        begin = time.monotonic()
        process = subprocess.Popen([sys.executable, str(HERE / 'slot.py'), str(self.build.control), str(self.control),
                                    str(self.scratch), *test.command], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
                                   start_new_session=True)
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
        failure, points, plan = '', 0, None
        for line in process.stdout:
            line = line.decode(errors='replace').rstrip()
            if line.startswith('not ok') and '# TODO' not in line:
                failure = line
                if number:
                    break
            points += line.startswith(('ok ', 'not ok '))
            match = re.match(r'1\.\.(\d+)', line)
            plan = int(match.group(1)) if match else plan
        if failure and number or timed_out.is_set():
            stop()
        process.stdout.close()
        status = process.wait()
        timer.cancel()
        if self.plain:
            stop()
        if timed_out.is_set():
            failure = f'{NO_END} {limit:.0f} s'
        elif not failure and status:
            failure = f'exit status {status}'
        elif not failure and plan != points:
            failure = f'{points} results, {plan} planned'
        reached = {place for place, byte in enumerate(self.control.read_bytes()) if byte and place > 1}
        return Outcome(failure, points, time.monotonic() - begin, reached)


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
    """What earlier runs found, written after each result, so that a run can be interrupted."""

    def __init__(self, path):
        self.path, self.lock = path, threading.Lock()
        self.notes = json.loads(path.read_text()) if path.exists() else {}

    def get(self, key):
        return self.notes.get(key, {})

    def put(self, key, note):
        with self.lock:
            self.notes[key] = note
            beside = self.path.with_suffix('.new')
            beside.write_text(json.dumps(self.notes, indent=1))
            beside.replace(self.path)


class Examination:
    def __init__(self, options, mutants, files, build, tests, slots):
        self.options, self.mutants, self.files, self.build, self.slots = options, mutants, files, build, slots
        self.tests = [Test(name, build) for name in tests if not LEFT_OUT.match(name)]
        self.by_name = {test.name: test for test in self.tests}
        self.notebook = Notebook(build.work / 'results.json')
        self.baselines = Notebook(build.work / 'baseline.json')
        self.suites = digest_of_folder(build.tree / 'tests')
        self.lock, self.done = threading.Lock(), 0

    def baseline(self):
        """Each test without a mutant: how long it takes, and which mutants it reaches."""
        state = digest(self.suites, digest_of_folder(self.build.tree / 'src'),
                       *(f'{mutant.key}{mutant.number}' for mutant in self.mutants))

        def work(slot, test):
            note, source = self.baselines.get(test.name), self.source_of(test.name)
            kept = self.options.old_reach and note.get('source', source) == source and note
            if self.options.fresh or not kept and note.get('state') != state:
                outcome = slot.run(test, 0, 900)
                if outcome.failure:  # once more: the machine may have been busy
                    outcome = slot.run(test, 0, 900)
                note = {'state': state, 'source': source, 'seconds': outcome.seconds, 'points': outcome.points,
                        'failure': outcome.failure, 'reached': sorted(outcome.reached)}
                self.baselines.put(test.name, note)
            test.seconds, test.points, test.failure = note['seconds'], note['points'], note['failure']
            test.reached = set(note['reached'])
        in_parallel(self.slots, self.tests, work)
        for test in self.tests:
            if test.failure:
                say(f'left out, it fails without a mutant: {test.name}: {test.failure}')

    def state_of(self, mutant):
        return digest(self.files[mutant.file][0])

    def source_of(self, name):
        """A hash of what a test says: of its own file, since helpers change rarely in what they find."""
        for path in self.build.tree / name, self.build.tree / (name + '.c'):
            if path.is_file():
                return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        return ''

    def known(self, mutant):
        note = self.notebook.get(mutant.key)
        if self.options.fresh or note.get('state') != self.state_of(mutant):
            return None
        if note['result'] == KILLED:
            return note if note['test_state'] == self.source_of(note['test']) else None
        return note if note['suites'] == self.suites and not self.options.again else None

    def reaching(self, mutant):
        return [test for test in self.tests if not test.failure and mutant.number in test.reached]

    def is_likely_to_survive(self, mutant):
        return mutant.note or self.notebook.get(mutant.key).get('result') in (SURVIVED, NOT_REACHED)

    def count_kills(self):
        """How many mutants of each file each test has killed."""
        kills = collections.defaultdict(collections.Counter)
        for mutant in self.mutants:
            killer = self.notebook.get(mutant.key).get('test')
            kills[mutant.file][killer] += bool(killer)
        return kills

    def price(self, mutant, test):
        """Seconds for a kill: little for the test that has killed this mutant, or others of its file."""
        if test.name == self.notebook.get(mutant.key).get('test'):
            return test.seconds
        kills = self.kills[mutant.file]
        return test.seconds / (kills[test.name] / max(kills.total(), 1) + 0.02)

    def cost(self, mutant):
        return min((self.price(mutant, test) for test in self.reaching(mutant)), default=0)

    def examine(self, slot, mutant):
        last = self.notebook.get(mutant.key).get('test')
        reaching = sorted(self.reaching(mutant), key=lambda test: (test.name != last, self.price(mutant, test)))
        note = {'state': self.state_of(mutant), 'suites': self.suites, 'name': mutant.name,
                'result': SURVIVED if reaching else NOT_REACHED, 'tests': [test.name for test in reaching]}
        begin = time.monotonic()
        for test in reaching:
            if self.options.budget and time.monotonic() - begin + test.seconds > self.options.budget:
                with self.lock:
                    self.done += 1
                    say(f'[{self.done}/{self.total}] put off {mutant.name}')
                return
            outcome = slot.run(test, mutant.number, test.seconds * 3 + self.options.slack)
            if not outcome.failure and outcome.points != test.points:
                outcome.failure = f'{outcome.points} results, not {test.points}'
            if outcome.failure:
                note.update(result=KILLED, test=test.name, how=outcome.failure, test_state=self.source_of(test.name))
                break
        note['seconds'] = round(time.monotonic() - begin, 1)
        self.notebook.put(mutant.key, note)
        with self.lock:
            self.done += 1
            how = f' by {note["test"]}: {note["how"]}' if note['result'] == KILLED else ''
            say(f'[{self.done}/{self.total}] {note["result"]} ({note["seconds"]} s) {mutant.name}{how}')

    def run(self, chosen):
        waiting = [mutant for mutant in chosen if not mutant.equivalent and not self.known(mutant)]
        self.kills = self.count_kills()
        # Cheap ones before others, and last those that survived earlier tests: a run that is interrupted has most of
        # the results.
        waiting.sort(key=lambda mutant: (bool(self.is_likely_to_survive(mutant)), self.cost(mutant)))
        self.total = len(waiting)
        say(f'{len(chosen)} mutants, {len(chosen) - self.total} of them known or equivalent')
        in_parallel(self.slots, waiting, self.examine)


def report(mutants, files, notebook, path):
    """The score of each folder, and each mutant that the tests did not see."""
    rows, lines, results = collections.defaultdict(collections.Counter), [], {}
    for mutant in mutants:
        note = notebook.get(mutant.key)
        result = note['result'] if note.get('state') == digest(files[mutant.file][0]) else 'not run'
        results[mutant.key] = 'equivalent' if mutant.equivalent else result
        for row in mutant.folder, 'all':
            rows[row][results[mutant.key]] += 1
    lines.append('| folder | mutants | killed | survived | not reached | not run | equivalent | score |')
    lines.append('|---|---|---|---|---|---|---|---|')
    for folder in sorted(rows, key=lambda name: (name == 'all', name)):
        row = rows[folder]
        judged = row[KILLED] + row[SURVIVED] + row[NOT_REACHED]
        score = f'{100 * row[KILLED] / judged:.0f} %' if judged else '-'
        lines.append(f'| {folder} | {sum(row.values())} | {row[KILLED]} | {row[SURVIVED]} | {row[NOT_REACHED]} '
                     f'| {row["not run"]} | {row["equivalent"]} | {score} |')
    lines.append('')
    for result in SURVIVED, NOT_REACHED:
        for mutant in mutants:
            if results[mutant.key] == result:
                lines.append(f'{result}: {mutant.name}' + (f' ({mutant.note})' if mutant.note else ''))
    lines.append('')
    for mutant in mutants:
        note = notebook.get(mutant.key)
        if results[mutant.key] == KILLED and note['how'].startswith(NO_END):
            lines.append(f'killed, but only by a test that did not end: {mutant.name} ({note["test"]})')
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
    parser.add_argument('--table', type=pathlib.Path, default=HERE / 'table', help='another table')
    parser.add_argument('--only', default='', metavar='REGEX', help='mutants whose name matches')
    parser.add_argument('--folder', default='', metavar='NAME', help='mutants of this folder, such as lib/data')
    parser.add_argument('--jobs', type=int, default=os.cpu_count() or 1, help='tests at a time [number of CPUs]')
    parser.add_argument('--slack', type=float, default=20, help='seconds beyond three times the usual [20]')
    parser.add_argument('--budget', type=float, default=0, metavar='SECONDS', help='put off mutants that take longer')
    parser.add_argument('--again', action='store_true', help='run those again that were not killed')
    parser.add_argument('--old-reach', action='store_true', help='only measure what changed tests reach; mutants that '
                        'are new since the last run count as not reached')
    parser.add_argument('--fresh', action='store_true', help='forget earlier results')
    parser.add_argument('--fitting', action='store_true', help='leave out mutants that do not fit the sources')
    parser.add_argument('--report', action='store_true', help='only print what is known')
    parser.add_argument('--build-only', action='store_true', help='build, and stop')
    parser.add_argument('configure', nargs='*', help='arguments of configure, after --')
    return parser.parse_args()


def main():
    options = parse_options()
    exempt = {}
    try:
        mutants = read_table(options.table, exempt)
    except BadTable as error:
        sys.exit(str(error))
    source, work = options.source.resolve(), options.work.resolve()
    if options.check:
        for number, mutant in enumerate(mutants, 2):
            mutant.number = number
        all_files(source, mutants)
        check_files(source, {mutant.file for mutant in mutants}, exempt)
        say(f'{len(mutants)} mutants fit the sources')
        return
    if options.fitting:
        mutants = those_that_fit(source, mutants)
    if options.report:
        for mutant in mutants:
            mutant.number = 2
        report(mutants, all_files(source, mutants), Notebook(work / 'results.json'), None)
        return
    build = Build(source, work, options.configure)
    lock = open(work / 'lock', 'w', encoding='utf-8')
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f'another run is at work in {work}')
    for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        signal.signal(number, lambda *_: sys.exit('interrupted; the next run goes on from here'))
    build.number(mutants)
    files = all_files(source, mutants)
    begin = time.monotonic()
    tests = build.build(files, options.jobs)
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
              and (not options.folder or mutant.folder == options.folder)]
    examination = Examination(options, mutants, files, build, tests, slots)
    try:
        examination.baseline()
        examination.run(chosen)
    finally:
        for slot in slots:
            slot.close()
        report(chosen, files, examination.notebook, work / 'report.md')


if __name__ == '__main__':
    main()
