#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The recipes of HACKING.md were followed to their ends: what one place of the sources names is in the other places too.

recipes.py TOP [CHECK...]: prints a line for each step that is missing.  What compilers, headers.sh, man.sh, exports.sh,
listed.py and generated.sh see is left to them."""
import pathlib
import re
import sys

top = pathlib.Path(sys.argv[1])
wrong = []


def read(*patterns, comments=False):
    """The text of all files that match, without C's comments unless they do not matter."""
    text = "".join(path.read_text() for pattern in patterns for path in sorted(top.glob(pattern)))
    return text if comments else re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def expect(condition, message):
    if not condition:
        wrong.append(message)


def exists(name):
    return any(top.glob(name))


def option():
    """A field of struct settings for each row, and a row for each field."""
    fields = re.search(r"^struct settings \{\n(.*?)^\};", read("src/config/settings.h"), re.M | re.S)[1]
    fields = re.findall(r"(\w+);", fields)
    rows = re.findall(r"\bOPT_[A-Z_]+ \(([a-z]\w*)[,)]", read("src/config/table/options.c", "src/config/table/rows_*.h"))
    for field in fields:
        expect(field in rows, f"option {field}: src/config/settings.h has the field, but no row of the option table "
                              "(src/config/table/options.c, rows_*.h) does")
    for row in rows:
        expect(row in fields + ["field"], f"option {row}: no field in src/config/settings.h")
    return len(rows)


def subcommand():
    rows = re.findall(r'^    COMMAND \((\w+), (\w+), "([^"]+)"', read("src/config/table/rows_commands.h"), re.M)
    news = (top / "NEWS.md").read_text()
    options = read("src/config/table/options.c", "src/config/table/rows_*.h")
    for bit, function, name in rows:
        expect(exists(f"src/cli/cmd_{function}.c"), f"accelerate {name}: no source src/cli/cmd_{function}.c")
        page = top / f"man/accelerate-{name}.1.in"
        expect(page.exists(), f"accelerate-{name}(1): no man page man/accelerate-{name}.1.in")
        expect(not page.exists() or f"\n@man-{name}@\n" in page.read_text() or f" COMMAND_{bit}" not in options,
               f"accelerate-{name}(1): no line @man-{name}@, for its options")
        expect(exists(f"tests/cli/cli_{function}.sh") or exists(f"tests/cli/{function}_*.sh"),
               f"accelerate {name}: no test tests/cli/cli_{function}.sh")
        expect(f"accelerate {name}" in news, f"accelerate {name}: not mentioned in NEWS.md")
    functions = [function for _, function, _ in rows]
    for path in sorted(top.glob("src/cli/cmd_*.c")):
        expect(path.stem[4:] in functions, f"src/cli/{path.name}: no row in src/config/table/rows_commands.h")
    return len(rows)


def engine():
    named = re.search(r"#define ENGINE_BUILT_IN_MAP\(X\)(.*?[^\\])\n", read("src/util/engine_files.h"), re.S)[1]
    named = re.findall(r"X \((\w+)\)", named)
    folders = sorted(path.parent.name for path in top.glob("src/lib/engines/*/*.c"))
    page = (top / "man/accel_engine.3.in").read_text()
    for name in named:
        expect(name in folders, f"engine {name}: no folder src/lib/engines/{name}")
        expect(re.search(rf"^\.It Dq {name}\b", page, re.M), f"engine {name}: no item in man/accel_engine.3.in")

    for name in sorted(set(folders)):
        expect(name in named, f"src/lib/engines/{name}: not in ENGINE_BUILT_IN_MAP (src/util/engine_files.h)")
    return len(named)


def part():
    listed = re.search(r"^static const struct part_kind \*const parts\[\]\s*= \{(.*?)\};", read("src/lib/job/open.c"),
                       re.M | re.S)[1]
    kinds = re.findall(r"^(?:static )?const struct part_kind (\w+)\s*=", read("src/lib/**/*.c", comments=True), re.M)
    for kind in kinds:
        expect(re.search(rf"&{kind}\b", listed), f"{kind}: not in the list of parts in src/lib/job/open.c")
    return len(kinds)


def object():
    """The functions of a kind of object go together: what can be prepared leaves its job's list at its end, and what is
    saved can be loaded."""
    found = 0
    for path in sorted(top.glob("src/lib/**/*.c")):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
        for kind, body in re.findall(r"^static const struct object_kind (\w+)\s*= \{(.*?)\};", text, re.M | re.S):
            has = dict(re.findall(r"\.(\w+) = ([\w\"]+)", body))
            found += 1
            for member in "name", "end":
                expect(member in has, f"{kind}: its struct object_kind has no `{member}`")
            for member in "release", "let_go", "stop", "save":
                expect(member not in has or "prepare" in has, f"{kind}: `{member}` is never called without `prepare`")
            for member in "save", "load", "file", "floor":
                expect(member in has or not {"save", "load", "file"} & set(has),
                       f"{kind}: `save`, `load`, `file` and `floor` go together: no `{member}`")
            end = re.search(rf"^{has.get('end')} \(struct object \*\w+\)\n\{{(.*?)^\}}", text, re.M | re.S)
            expect("prepare" not in has or not end or "prepared_remove (" in end[1],
                   f"{kind}: its `end` does not call prepared_remove, so the job's list would keep what is gone")
    return found


def function():
    """What other lints do not look for: a test for each function, and what collectives need besides."""
    declared = re.findall(r"^ACCEL_API[^;]*?\b(accel_\w+) \(", read("include/accel/*.h"), re.M)
    tested = set(re.findall(r"\baccel_\w+", read("tests/**/*.[ch]", "tests/*/*.cc", "examples/*.c", "src/selftest/*.c")))
    callers = {}
    for macro, body in re.findall(r"^#define (\w+)((?:.*\\\n)*.*)", read("include/accel/*.h"), re.M):
        for name in re.findall(r"\baccel_\w+", body):
            callers.setdefault(name, set()).update({macro} | callers.get(macro, set()))
    in_selftest = set(re.findall(r"\baccel_\w+", read("src/selftest/*.c")))
    calls = re.findall(r'X \(\w+, "(accel_\w+)"\)', read("src/util/jobseg.h"))
    for name in declared:
        public = re.sub(r"_(at|sized)$", "", name)
        expect(({name} | callers.get(name, set())) & tested, f"{public}: no test calls it")
        expect(not name.endswith("_at") or public in calls + ["accel_check"],
               f"{public}: is a collective, but has no row in JOBSEG_CALL_MAP (src/util/jobseg.h)")
    for name in declared:
        public = re.sub(r"_at$", "", name)
        expect(name == public or public in callers.get(name, ()), f"{public}: no macro passes ACCEL_HERE to {name}")
    for name in calls:
        expect(name in in_selftest, f"{name}: is a collective, but no step of src/selftest/ calls it")
        expect({name, name + "_at", name + "_sized"} & set(declared),
               f"{name}: JOBSEG_CALL_MAP names it, but no header declares it")
    return len(declared)


def constants(header, enum):
    body = re.search(rf"^enum {enum} \{{(.*?)^\}};", read(f"include/accel/{header}"), re.M | re.S)[1]
    return [name for name in re.findall(r"\bACCEL_\w+", body) if not name.endswith("_KINDS")]


def optimizer():
    kinds = constants("train.h", "accel_optimizer_kind")
    page, tests = (top / "man/accel_optimizer.3.in").read_text(), read("tests/golden/golden.h")
    lines = re.findall(r"^ \*   (\w+) +lr ", (top / "include/accel/train.h").read_text(), re.M)
    for kind in kinds:
        expect(re.search(rf"^\.It Dv {kind}$", page, re.M), f"{kind}: no item in man/accel_optimizer.3.in")
        expect(re.search(rf"\b{kind}\b", tests), f"{kind}: no name in golden_kind() (tests/golden/golden.h)")
    for name in re.findall(r'^        \.name = "(\w+)"', read("src/lib/train/optimizer/optimizer_kinds.c"), re.M):
        expect(name in lines, f"{name}: no line in the comment on struct accel_optimizer_options")
    return len(kinds)


def schedule():
    kinds, page = constants("scheduler.h", "accel_schedule"), (top / "man/accel_scheduler.3.in").read_text()
    for kind in kinds:
        expect(re.search(rf"^\.It Dv {kind}$", page, re.M), f"{kind}: no item in man/accel_scheduler.3.in")
    return len(kinds)


def dtype():
    named = re.findall(r"^    X \((\w+), \w+, \d+, \"", read("include/accel/tensor.h"), re.M)
    formats = read("src/files/safetensors.h")
    for name in named:
        expect(re.search(rf"\bACCEL_{name}\)", formats), f"ACCEL_{name}: no row of SAFETENSORS_DTYPE_MAP has it")
    return len(named)


def header():
    for kind, umbrella, folder in ("h", "accel.h", ""), ("hpp", "accel.hpp", "hpp/"):
        text = (top / "include/accel" / umbrella).read_text()
        for path in sorted((top / "include/accel" / folder).glob("*." + kind)):
            # engine.h is for those who write engines, and plain.h for bindings, not for programs in C.
            expect(path.name in (umbrella, "engine.h", "plain.h") or f"<accel/{folder}{path.name}>" in text,
                   f"include/accel/{folder}{path.name}: accel/{umbrella} does not include it")
    return 1


def page():
    """Each manual page can be reached from accelerate(1) or libaccel(3)."""
    pages = {re.sub(r"\.in$", "", path.name): path.read_text()
             for pattern in ("*.[1-9]", "*.3.in") for path in sorted((top / "man").glob(pattern))}
    aliases = {alias: name for name, text in pages.items() for alias in re.findall(r"^\.Nm (accel_\w+)", text, re.M)}
    reached, ahead = set(), ["accelerate.1", "libaccel.3"]
    while ahead:
        name = ahead.pop()
        if name in reached:
            continue
        reached.add(name)
        for title, section in re.findall(r"^\.Xr (\S+) (\d)", pages[name], re.M):
            if re.match(r"accel|libaccel", title):
                target = aliases.get(title, f"{title}.{section}")
                expect(target in pages, f"man/{name}: .Xr {title} {section}, but there is no such page")
                ahead += [target] if target in pages else []
    for name in pages:
        expect(name in reached, f"man/{name}: no page that accelerate(1) or libaccel(3) leads to refers to it")
    return len(pages)


def hacking():
    """HACKING.md and the READMEs of src/ and tests/ name files and words that exist; the rules name lints, on one screen."""
    files = [str(path.relative_to(top)) for path in top.rglob("*") if not re.match(r"\.git/|build", str(path.relative_to(top)))]
    ends = {file[at:] for file in files for at in [0, *(found.end() for found in re.finditer("/", file))]}
    words = set(re.findall(r"\w+", read("src/**/*.[ch]", "include/**/*.h*", "tests/**/*.[ch]", "tests/*/*.py", "tests/**/*.sh",
                                        "**/Makefile.*", "configure.ac", comments=True)))
    later = "tests/abi/libaccel.abi"  # made at a release
    for page, folder in ("HACKING.md", ""), ("src/README.md", "src/"), ("tests/README.md", "tests/"):
        for name in re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", (top / page).read_text(), flags=re.S)):
            if re.search(r"NAME|thing|[*$ ]|^[./]", name):
                continue
            file = re.fullmatch(r"[\w.-]*/[\w./-]*|\w+\.(c|h|sh|py|md|in)", name)
            expect(not file or {name.rstrip("/"), name + ".c"} & ends or name == later, f"{page}: {name} does not exist")
            expect(file or not re.fullmatch(r"[a-z]+_\w+", name) or name in words, f"{page}: no source has {name}")
    rules = (top / "HACKING.md").read_text().split("\n## Rules\n")[1].split("\n## ")[0]
    named, lints = set(re.findall(r"\[(\w+)\]", rules)), {path.stem for path in top.glob("tests/lint/*.sh")}
    expect(named == lints, f"HACKING.md, Rules: these are lints, or are named, but not both: {' '.join(sorted(named ^ lints))}")
    expect(rules.count("\n") <= 50, f"HACKING.md, Rules: {rules.count(chr(10))} lines, but one screen has 50")
    return len(named)


checks = [hacking, option, subcommand, engine, part, object, optimizer, schedule, dtype, function, header, page]
checks = [check for check in checks if check.__name__ in sys.argv[2:] or len(sys.argv) == 2]
empty = [check.__name__ for check in checks if not check()]
wrong += [f"{name}: nothing was found, so nothing was checked" for name in empty]
print("\n".join(dict.fromkeys(wrong)))
sys.exit(bool(wrong))
