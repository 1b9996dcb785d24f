#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each file is in a makefile, and each test in TESTS: what is in none is neither built nor run nor in the tarball.

listed.py TOP; reads Makefile.am and each Makefile.inc as far as their lists go."""
import pathlib
import re
import sys

top = pathlib.Path(sys.argv[1])
FOLDERS = "src include man completions examples bench docs scripts tests".split()
# What an editor, a build in the source tree or Python leaves there.
NOT_OURS = re.compile(r"(~|\.(o|lo|la|a|so|log|trs|pyc|orig|rej|gcno|gcda|swp))$|(^|/)(\.libs|\.deps|__pycache__|\.dirstamp)(/|$)")
# Other tests and targets run these.
NOT_ALONE = ("tests/abi/dump.sh tests/conformance/near.sh tests/engines/engine.sh "
             "tests/engines/under_mpirun.sh tests/fuzz/run.sh tests/hand.sh tests/standin/module.sh "
             "tests/testlib.sh tests/unit/command/test_probe.c").split()

lists = {}


def read(path):
    """The lists of one makefile, with %D% replaced as automake does, as the texts of its assignments."""
    folder = path.parent.relative_to(top)
    text = path.read_text().replace("\\\n", " ").replace("%D%", str(folder))
    text = text.replace("%C%", re.sub(r"\W", "_", str(folder)))
    for name, value in re.findall(r"^(\w+) *\+?= *(.*)$", text, re.M):
        lists.setdefault(name, []).extend(value.split())


def expand(words, seen=()):
    for word in words:
        variable = re.fullmatch(r"\$[({](\w+)(?::=([^)}]*))?[)}]", word)
        if variable and variable[1] not in seen:
            for each in expand(lists.get(variable[1], []), (*seen, variable[1])):
                yield each + (variable[2] or "")
        else:
            yield re.sub(r"^\$\((top_)?srcdir\)/", "", word)


makefiles = [top / "Makefile.am", *sorted(path for folder in FOLDERS for path in (top / folder).rglob("Makefile.inc"))]
for makefile in makefiles:
    read(makefile)
listed = {word for name in lists for word in expand(lists[name])}
tests = set(expand(lists["TESTS"]))
# Automake's source of a program, if no other is given.
listed |= {f"{program}.c" for program in expand(lists["test_programs"]) if (top / f"{program}.c").exists()}
whole = tuple(f"{word}/" for word in listed if re.match("|".join(FOLDERS), word) and (top / word).is_dir())
included = set(re.findall(r"^include (\S+)", "".join(path.read_text() for path in makefiles), re.M))


def home(name):
    """The makefile where a file belongs."""
    folder = top / name
    while not (folder.parent / "Makefile.inc").exists() and folder.parent != top:
        folder = folder.parent
    return (folder.parent / ("Makefile.inc" if folder.parent != top else "Makefile.am")).relative_to(top)


wrong = []
for path in sorted(path for folder in FOLDERS for path in (top / folder).rglob("*")):
    name = str(path.relative_to(top))
    if not path.is_file() or NOT_OURS.search(name) or name.startswith(whole):
        continue
    if path.name == "Makefile.inc":
        if name not in included:
            wrong.append(f"{name}: no makefile includes it")
    elif name not in listed:
        wrong.append(f"{name}: not listed in {home(name)}")
    elif (re.match(r"tests/(.*\.sh|unit/\w+/test_\w+\.c)$", name) and name not in NOT_ALONE
          and re.sub(r"\.c$", "", name) not in tests):
        wrong.append(f"{name}: not in TESTS, see {home(name)}")
wrong += [f"{word}: is listed in a makefile, but is missing" for word in sorted(listed)
          if re.match(r"(%s)/.*\.(c|h|cc|hpp|sh|py|txt|md)$" % "|".join(FOLDERS), word) and not (top / word).exists()]
wrong += [f"{name}: test_programs and test_modules are built only if they are needed" for name in lists
          if re.match("check_(PROGRAMS|LTLIBRARIES)", name)]
print("\n".join(wrong))
sys.exit(bool(wrong) or len(listed) < 500)
