#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The table of mutants and the notes about equivalent ones fit the sources, and draw.py makes the mutants that it should.
. "${srcdir:-.}/tests/testlib.sh"

if ! command -v python3 >/dev/null; then
    skip_rest 'needs python3'
fi
mutants=$srcdir/tests/mutants/mutants.py
test_expect_success 'the table of mutants fits the sources' 'python3 "$mutants" --check'

# What a table may get wrong, and how it is reported.
mkdir -p src/util
printf '%s\n' 'int' 'twice (int n)' '{' '    for (int i = 0; i < n; i++)' '        if (n > 9 || i == 3)' \
    '            n += i;' '    return n + n;' '}' >src/util/twice.c
# check_one TITLE OLD NEW: a table of one mutant; what is said of it goes to `out`
touch notes
check_one () {
    printf '== src/util/twice.c\n@ %s\n- %s\n+ %s\n' "$1" "$2" "$3" >table
    python3 "$mutants" --check --source . --table table --equivalent notes >out 2>&1
    status=$?
    cat out
    return $status
}
test_expect_success 'statements, conditions and parts of for are found' '
    check_one "twice: t" "n += i;" ";" && check_one "twice: t" "n > 9 ||" "" &&
    check_one "twice: t" "i < n" "i <= n" && check_one "twice: t" "0" "1" &&
    check_one "twice: t" "return n + n;" "return n;"'
test_expect_success 'a missing text' '
    ! check_one "twice: t" "n -= i;" ";" &&
    grep -F "table:2: src/util/twice.c: twice: this text is not there: n -= i;" out'
test_expect_success 'a text that is there more than once, and its second place' '
    ! check_one "twice: t" "n" "m" && grep "this text is there [0-9]* times: n" out && check_one "twice [2]: t" "n" "m"'
test_expect_success 'a missing function' '
    ! check_one "four: t" "n" "m" && grep -F "no function four, or more than one" out'
test_expect_success 'a piece of two statements' '
    ! check_one "twice: t" "i; return n" "i" && grep "more than one statement" out'
printf '%s\n' 'int' 'thrice (int n)' '{' '    if (n > 9)' '        n++;' '    else if (n < 0)' '        n--;' '    return n;' '}' \
    >>src/util/twice.c
test_expect_success 'an if without its else, and an else without its if' '
    for text in "if (n > 9)" "else if (n < 0)"; do
        ! check_one "thrice: t" "$text" ";" && grep "an if that has an else" out || return 1
    done && check_one "thrice: t" "n > 9" "n > 8" && check_one "thrice: t" "n < 0" "false"'

# What the rules make of a small file, counted by hand: nothing of the comment, the strings, the table, the length of
# `room`, what is freed, or the macro; -1 becomes 0, but not -2.
cat >src/util/small.c <<'EOF'
/* if (a < b) return 7; */
static const int table[] = { 1, 2 };

static int
first (const char *text, size_t count, int limit)
{
    char room[16];
    int sum = 0;
    for (size_t i = 0; i < count; i++) {
        if (text[i] == ':' && limit)
            break;
        sum = sum * 2 + (limit ? table[1] : count & 7);
    }
    if (!read_it (room, sum))
        return -1;
    free (room);
    return give (sum, limit, "a < b");
}

#define MACRO(x) ((x) < 3)
EOF
python=$srcdir/tests/mutants
test_expect_success 'each rule makes its mutants' '
    python3 "$python/draw.py" src/util/small.c >out && cat >expected <<EOF &&
relation: 3
arithmetic: 4
logic: 1
constant: 10
condition: 11
argument: 7
statement: 2
error path: 1
return: 2
EOF
    diff expected out'
test_expect_success 'mutants have names, by which notes find them' '
    python3 "$python/draw.py" --all src/util/small.c >out && for name in "< -> <= (relation)" "&& -> || (logic)" \
        "limit -> true [2] (condition)" "sum, limit -> limit, sum (argument)" "break; -> ; (statement)" \
        "!read_it (room, sum) -> false (error path)" "-1 -> 0 (return)" "7 -> (7 - 1) (constant)"; do
        grep -Fx "first: $name" out || return 1
    done && sort out | uniq -d >twice && ! grep . twice'
cat >lots.py <<'EOF'
import argparse, collections, os, pathlib, sys
sys.path.insert(0, os.environ["python"])
import draw, lot, rewrite
top, work = pathlib.Path("."), pathlib.Path("work")
work.mkdir(exist_ok=True)

def drawn(seed, count, note=""):
    pathlib.Path("notes").write_text(note)
    options = argparse.Namespace(seed=seed, draw=count, folder=["util"], file="", equivalent=pathlib.Path("notes"))
    return lot.Lot(options, top, work)

def names(mutants):
    return [mutant.name for mutant in mutants if not mutant.equivalent]

first = drawn("1", 12).draw()
assert names(first) == names(drawn("1", 12).draw()) != names(drawn("2", 12).draw()) and len(set(names(first))) == 12
every = draw.enumerate_mutants(top, ["util"])["util"]
places = collections.Counter(draw.in_lot_order(every, seed)[0].name for seed in range(40 * len(every)))
assert len(places) == len(every) and min(places.values()) > 15 and max(places.values()) < 75, places
# The next ones take the place of what does not compile, and of what is noted as equivalent.
again = drawn("1", 12, first[0].name + "\n    a reason\n")
again.leave_out([first[1]])
after = names(again.draw())
assert len(after) == 12 and after[:10] == names(first)[2:] and again.draw()[0].note == "a reason", after
# The compiler's line and column lead to the mutant, also inside of another, and to all that begin in the line.
text = "int\nf (int a)\n{\n    int b = 1;\n    return g (a < b, 2);\n}\n"
mutants = draw.Source("src/f.c", text).mutants()
for number, mutant in enumerate(mutants, 10):
    mutant.number = number
new = rewrite.rewrite(text, mutants, [])
for number, mutant in enumerate(mutants, 10):
    line, column = next((i, row.index(f"/*<{number}*/")) for i, row in enumerate(new.split("\n"), 1) if f"/*<{number}*/" in row)
    assert rewrite.culprits(new, [(line, column + 9)]) == {number}
assert rewrite.culprits(new, [(4, 5)]) == {mutant.number for mutant in mutants if mutant.old == "1"}
# What an error of a macro leads to is where the macro is used; a warning leads nowhere.
spot = next(f"{i}:{row.index('/*<10*/') + 9}" for i, row in enumerate(new.split("\n"), 1) if "/*<10*/" in row)
files = {"src/f.c": (text, new, "")}
for kind, wanted in ("error", mutants[:1]), ("warning", []):
    words = f"src/f.h:1:1: {kind}: x\n  1 | y\nsrc/f.c:{spot}: note: in expansion of macro 'Y'\n"
    assert lot.complained_of(words, files, mutants) == wanted, (kind, lot.complained_of(words, files, mutants))
# Of a template, what it is instantiated by.
for kind, wanted in ("error", mutants[:1]), ("warning", []):
    words = f"tests/t.h: In instantiation of x:\nsrc/f.c:{spot}:   required from here\ntests/t.h:1:1: {kind}: x\n"
    assert lot.complained_of(words, files, mutants) == wanted, (kind, lot.complained_of(words, files, mutants))
# Kernels: loops of macros and lambda expressions have statements; what declares shared memory is left alone.
kernel = ("__global__ void\nk (float *x, unsigned n)\n{\n    SHARED (float, s, [1]);\n    FOR_EACH_BLOCK (i, n) {\n"
          "        x[i] = x[i] * 2;\n    }\n    for_all (n, [&] (unsigned i) {\n        found |= x[i] < 0;\n    });\n}\n")
(top / "src/gpu").mkdir()
(top / "src/gpu/k.cu").write_text(kernel)
its = draw.enumerate_mutants(top, files=r"\.cu$")
assert list(its) == ["gpu"] and {"x[i] = x[i] * 2; -> ; (statement)", "< -> <= (relation)", "* -> / (arithmetic)"} <= {
    mutant.title for mutant in its["gpu"]} and not any("SHARED" in mutant.title for mutant in its["gpu"])
for number, mutant in enumerate(its["gpu"], 2):
    mutant.number = number
rewritten = rewrite.rewrite(kernel, [m for m in its["gpu"] if m.rule in ("relation", "statement", "arithmetic")], [])
assert "if (mutant_on" in rewritten.split("[&]")[1] and "if (mutant_on" in rewritten.split("FOR_EACH_BLOCK (i, n) {")[1]
assert [round(x, 1) for x in draw.wilson(36, 40)] == [76.9, 96.0]
EOF
test_expect_success 'the lot: seeds, equal chances, what does not compile, and equivalent ones' '
    python=$python python3 lots.py'
test_expect_success 'a note without its mutant, one without a reason, and one that fits' '
    printf "== src/util/twice.c\n@ twice: t\n- n > 9\n+ n > 8\n" >table &&
    { check_notes () { printf "%s\n" "$@" >notes && python3 "$mutants" --check --source . --table table --equivalent notes >out 2>&1; }; } &&
    ! check_notes "util/small.c first: gone -> here (logic)" "    reason" && grep "no such mutant.*gone -> here" out &&
    ! check_notes "util/small.c first: && -> || (logic)" && grep "no reason: util/small.c first: &&" out &&
    check_notes "util/small.c first: && -> || (logic)" "    reason" && grep "1 notes of equivalent" out'
test_done
