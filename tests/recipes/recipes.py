#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The recipes of HACKING.md, each followed with a small example in a copy of the sources: with all its steps every lint
passes, and without any one of them a lint, the compiler or a test names what is missing.  Speaks TAP.

recipes.py TOP          what can be seen without building
recipes.py TOP --build  the whole: builds the examples, runs their tests (make check-recipes)

The steps of an example are in the order of the recipe.  When HACKING.md gets another recipe, add its example here."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

top = pathlib.Path(sys.argv[1]).resolve()
building = "--build" in sys.argv
count = failures = 0


def ok(good, title, output=""):
    global count, failures
    count += 1
    failures += not good
    print(f"{'' if good else 'not '}ok {count} - {title}", flush=True)
    for line in "" if good else output.splitlines()[-40:]:
        print(f"# {line}")


class Step:
    """One step of a recipe: edits, and what is said if it is left out.

    lint     who says it: a script of tests/lint/; or with a build, "build", or a test ("tests/unit/core/test_laps")
    message  a regular expression, or None if another recipe has the same step"""

    def __init__(self, title, edits, lint, message):
        self.title, self.edits, self.lint, self.message = title, edits, lint, message


def new(path, text):
    return lambda tree: tree.write(path, text.lstrip("\n"))


def after(path, line, text):
    """Insert `text` after the only line that begins with `line`."""
    return lambda tree: tree.insert(path, line, text.lstrip("\n"), True)


def before(path, line, text):
    return lambda tree: tree.insert(path, line, text.lstrip("\n"), False)


def replace(path, old, text):
    return lambda tree: tree.replace(path, old, text)


def append(path, text):
    return lambda tree: tree.write(path, (tree.read(path) or "") + text)


def fill(path, anchor, text):
    """Insert before a line of the example's own file, if other steps have made both."""
    return lambda tree: "\n" + anchor in (tree.edited.get(path) or "") and before(path, anchor, text)(tree)


def copy(path, source, *pairs):
    """A file that is like another one, with other names."""
    def edit(tree):
        text = tree.read(source)
        for old, text_of_it in pairs:
            text = text.replace(old, text_of_it)
        tree.write(path, text)
    return edit


class Tree:
    """A copy of the sources.  Edits are kept beside it, until flush() writes what is different from the files."""

    def __init__(self, folder):
        self.folder = folder
        self.original = {}  # text, or None where there is no file
        self.edited = {}
        leave_out = shutil.ignore_patterns("*.o", "*.lo", "*.la", ".libs", ".deps", "__pycache__")
        # Makefile.am names the folders that it includes a part of.
        folders = re.findall(r"^include ([^/\n]+)/", (top / "Makefile.am").read_text(), re.M)
        files = ("docs scripts m4 build-aux Makefile.am Makefile.in NEWS.md HACKING.md README.md LICENSE configure configure.ac "
                 "aclocal.m4 config.h.in bootstrap run-demo run-tests .ci .shellcheckrc libaccel.pc.in accel-config.cmake.in "
                 "accel-config-version.cmake.in")
        for name in [*dict.fromkeys(folders), *files.split()]:
            source = top / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=leave_out)
            elif source.exists():
                shutil.copy2(source, folder / name)
        for path in [folder, *folder.rglob("*")]:  # that of a tarball may be read-only
            path.chmod(path.stat().st_mode | 0o200)

    def on_disk(self, path):
        target = self.folder / path
        return target.read_text() if target.exists() else None

    def read(self, path):
        return self.edited[path] if path in self.edited else (self.folder / path).read_text()

    def write(self, path, text):
        self.original.setdefault(path, self.on_disk(path))
        self.edited[path] = text

    def flush(self):
        for path, original in self.original.items():
            text, target = self.edited.get(path, original), self.folder / path
            if text is None and target.exists():
                target.unlink()
                if not any(target.parent.iterdir()):
                    target.parent.rmdir()
            elif text is not None and text != self.on_disk(path):
                target.parent.mkdir(exist_ok=True)
                target.write_text(text)

    def restore(self):
        """As it was; of files that were edited, read() would see the edited ones until flush()."""
        self.edited = dict(self.original)

    def insert(self, path, anchor, text, is_after):
        lines = self.read(path).splitlines(True)
        places = [i for i, line in enumerate(lines) if line.startswith(anchor)]
        if len(places) != 1:
            sys.exit(f"Bail out! {path}: {len(places)} lines begin with {anchor!r}; mend tests/recipes/recipes.py")
        lines.insert(places[0] + is_after, text)
        self.write(path, "".join(lines))

    def replace(self, path, old, text):
        if self.read(path).count(old) != 1:
            sys.exit(f"Bail out! {path}: {old!r} is not there once; mend tests/recipes/recipes.py")
        self.write(path, self.read(path).replace(old, text))


LICENCE = "/* SPDX-License-Identifier: Apache-2.0 */\n"
TEST = '#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n# %s\n. "${srcdir:-.}/tests/testlib.sh"\n\n%s\ntest_done\n'

OPTION = [
    Step("the row", [before("src/config/table/options.c", '    { .key = "label"', '''
    { .key = "niceness", OPT_INT (niceness, 0, 19), .dflt = "0", .group = GROUP_OURS, .commands = COMMAND_LAUNCH,
      .properties = PROPERTY_FILE | PROPERTY_EXTENSION, .metavar = "N",
      .help = "niceness of the processes",
      .doc = "Start the processes with this niceness, as nice(1) does." },

''')], "recipes option", "option niceness: src/config/settings.h has the field, but no row of the option table"),
    Step("the field", [after("src/config/settings.h", "    bool no_python;", "    int64_t niceness;\n")],
         "recipes option", "option niceness: no field in src/config/settings.h"),
    Step("make regen", ["regen"], "generated.sh", r"not ok .*man/accelerate-launch\.1 .*make regen"),
]

QUESTION = [
    Step("the row", [before("src/cli/questions/machine_rows.h", '    { .id = "same_network"', '''
    { .id = "niceness", .kind = ASK_VALUE, .dflt = "0", .when = with_launchers_by_hand,
      .text = "What niceness should the processes have?" },
''')], "tests/cli/config_ask.sh", "no line 'niceness: 5'"),
    Step("the answer in ask_golden.py", [
        before("tests/cli/ask_golden.py", '        if re.match(r"How many (processes|', '''
        if asked["question"].startswith("Are all the machines"):
            lines.append("")  # the question before it is not the original's
'''), after("tests/cli/ask_golden.py", '    wanted = dict(case["file"])', '''
    if machines_of(case) > 1 and wanted["compute_environment"] == "LOCAL_MACHINE":
        wanted["niceness"] = 0
''')], "tests/cli/config_golden.sh", r"(?s)not ok .*niceness"),
    Step("the answer in config_ask.sh", [
        replace("tests/cli/config_ask.sh", r"\n2\n\n1\nnode0\n29501\nno\nc10d", r"\n2\n\n1\nnode0\n29501\n5\nno\nc10d"),
        replace("tests/cli/config_ask.sh", "'rdzv_backend: c10d' 'mpirun", "'rdzv_backend: c10d' 'niceness: 5' 'mpirun"),
        replace("tests/cli/config_ask.sh", r"\n1\n2\n\n2\n1\nnode0\n1\n", r"\n1\n2\n\n2\n1\nnode0\n1\n\n"),
        replace("tests/cli/config_ask.sh", r"none\n2\nnode0\n", r"none\n2\nnode0\n\n")],
         "tests/cli/config_ask.sh", r"(?s)not ok .*niceness"),
    Step("the answer in cli_config.sh", [
        replace("tests/cli/cli_config.sh", r"\nmulti-CPU\n2\n\n1\nnode0\n29501\n", r"\nmulti-CPU\n2\n\n1\nnode0\n29501\n5\n"),
        replace("tests/cli/cli_config.sh", "\tmixed_precision: bf16\n\tnum_machines: 2\n",
                "\tmixed_precision: bf16\n\tniceness: 5\n\tnum_machines: 2\n"),
        replace("tests/cli/cli_config.sh", "head -n 14 |", "head -n 15 |")],
         "tests/cli/cli_config.sh", r"(?s)not ok .*niceness"),
    Step("the answer in config_terminal.py", [
        replace("tests/cli/config_terminal.py", '"TCP port", "local', '"TCP port", "niceness", "local'),
        replace("tests/cli/config_terminal.py", 'f"{8:4}  yes"', 'f"{9:4}  yes"'),
        replace("tests/cli/config_terminal.py", 'f"{11:4}  {path}"', 'f"{12:4}  {path}"')],
         "tests/cli/config_terminal.sh", r"(?s)not ok .*niceness"),
]

WHERE = LICENCE + '''/* accelerate where: the name of the default configuration file. */
#include <config.h>

#include "cli/command.h"
#include "config/load.h"
#include "config/paths.h"
#include "util/cleanup.h"

int
cmd_where (int argc, char **argv, struct fail *fail)
{
    AUTO_FREE char *path = NULL;
    struct config config = { 0 };
    int result = config_load_command (&config, COMMAND_WHERE, argc, argv, 0, fail)
                         || path_of_default_file (&path, fail) ? -1 : 0;
    if (!result)
        puts (config.settings.config_file ? config.settings.config_file : path);
    config_release (&config);
    return result;
}
'''
WHERE_PAGE = '''.\\" SPDX-License-Identifier: Apache-2.0
.Dd November 22, 2026
.Dt ACCELERATE-WHERE 1
.Os
.Sh NAME
.Nm accelerate-where
.Nd print the name of the configuration file
.Sh SYNOPSIS
.Nm accelerate where
.Op Fl \\-config_file Ar FILE
.Sh DESCRIPTION
Prints the name of the configuration file.
.Sh OPTIONS
@man-where@
.Sh SEE ALSO
.Xr accelerate 1
'''
SUBCOMMAND = [
    Step("the source", [new("src/cli/cmd_where.c", WHERE)],
         "recipes subcommand", r"accelerate where: no source src/cli/cmd_where\.c"),
    Step("the row", [append("src/config/table/rows_commands.h", '''
    COMMAND (WHERE, where, "where", .summary = "print the name of the configuration file")
'''), replace("src/config/table/options.c", "| COMMAND_TPU_CONFIG, .metavar",
              "| COMMAND_TPU_CONFIG | COMMAND_WHERE, .metavar")],
         "recipes subcommand", r"src/cli/cmd_where\.c: no row in src/config/table/rows_commands\.h"),
    Step("its line in src/cli/Makefile.inc", [after("src/cli/Makefile.inc", "\t%D%/cmd_to_fsdp2.c",
                                                    "\t%D%/cmd_where.c \\\n")],
         "listed", r"src/cli/cmd_where\.c: not listed in src/cli/Makefile\.inc"),
    Step("the manual page", [new("man/accelerate-where.1.in", WHERE_PAGE), new("man/accelerate-where.1", WHERE_PAGE)],
         "recipes subcommand", r"accelerate-where\(1\): no man page man/accelerate-where\.1\.in"),
    Step("its line in man/Makefile.inc", [after("man/Makefile.inc", "\t%D%/accelerate-test.1",
                                                "\t%D%/accelerate-where.1 \\\n")],
         "listed", r"man/accelerate-where\.1\.in: not listed in man/Makefile\.inc"),
    Step("the test", [new("tests/cli/cli_where.sh", TEST % ("accelerate where: the configuration file's name.", '''
test_expect_success 'the name' '"$accelerate" where >out && grep -x "$HOME/.*/default_config.yaml" out'
'''.lstrip()))], "recipes subcommand", r"accelerate where: no test tests/cli/cli_where\.sh"),
    Step("its line in tests/cli/Makefile.inc", [after("tests/cli/Makefile.inc", "\t%D%/cli_to_fsdp2.sh",
                                                      "\t%D%/cli_where.sh \\\n")],
         "listed", r"tests/cli/cli_where\.sh: not listed in tests/cli/Makefile\.inc"),
    Step("NEWS.md", [after("NEWS.md", "- `accelerate to-fsdp2`", "- `accelerate where` prints a name.\n")],
         "recipes subcommand", r"accelerate where: not mentioned in NEWS\.md"),
    Step("make regen", ["regen", after("man/accelerate.1", ".Xr accelerate-tpu-config 1 ,", ".Xr accelerate-where 1 ,\n")],
         "generated.sh", r"not ok .*man/accelerate\.1 .*make regen"),
]

SOLO = ("self", "solo"), ("SELF", "SOLO")
ENGINE = [
    Step("the folder", [copy("src/lib/engines/solo/solo.c", "src/lib/engines/self/self.c", *SOLO)],
         "recipes engine", "engine solo: no folder src/lib/engines/solo"),
    Step("its name in ENGINE_BUILT_IN_MAP", [replace("src/util/engine_files.h", "    X (shm)", "    X (shm)                    \\\n"
                                                     "    X (solo)")],
         "recipes engine", r"src/lib/engines/solo: not in ENGINE_BUILT_IN_MAP"),
    Step("its sources in src/lib/Makefile.inc", [after("src/lib/Makefile.inc", "\t%D%/engines/self/self.c",
                                                       "\t%D%/engines/solo/solo.c \\\n")],

         "listed", r"src/lib/engines/solo/solo\.c: not listed in src/lib/Makefile\.inc"),
    Step("its item in accel_engine(3)", [after("man/accel_engine.3.in", "The processes of one host, through",
                                               ".It Dq solo\nA job of one process, again.\n")],
         "recipes engine", r"engine solo: no item in man/accel_engine\.3\.in"),
]

LAPS_H = LICENCE + '''/* Laps that a job counts. */
#ifndef LIB_UTILITY_LAPS_H
#define LIB_UTILITY_LAPS_H

#include "lib/state/part.h"

extern const struct part_kind part_laps;

#endif
'''
LAPS_C = LICENCE + '''/* Laps that a job counts. */
#include <config.h>

#include "lib/utility/laps.h"

#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/comm/comm_private.h"

#include <accel/utility.h>

struct laps {
    struct part part;
    uint64_t count;
};

const struct part_kind part_laps = { .size_bytes = sizeof (struct laps) };
'''
PART = [
    Step("the table of functions", [new("src/lib/utility/laps.c", LAPS_C), new("src/lib/utility/laps.h", LAPS_H)],
         "build", r"utility/laps\.h: No such file"),
    Step("its line in src/lib/Makefile.inc", [after("src/lib/Makefile.inc", "\t%D%/utility/check.c",
                                                    "\t%D%/utility/laps.c %D%/utility/laps.h \\\n")],
         "listed", r"src/lib/utility/laps\.c: not listed in src/lib/Makefile\.inc"),
    Step("its place in the list of parts", [
        after("src/lib/job/open.c", '#include "lib/train/precision.h"', '#include "lib/utility/laps.h"\n'),
        after("src/lib/job/open.c", "    &part_checkpoint,", "    &part_laps,\n")],
         "recipes part", r"part_laps: not in the list of parts in src/lib/job/open\.c"),
]

COUNTER = "src/lib/utility/counter.c"
COUNTER_C = LICENCE + '''/* Lap counters. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/state/prepared.h"
#include "lib/state/state_dict.h"

#include <accel/utility.h>

#include <stdlib.h>

struct accel_lap_counter {
    uint64_t laps;
};

static const struct object_kind kind_counter = {
    .name = "lap counter",
};

struct accel_lap_counter *
accel_lap_counter_create (void)
{
    struct accel_lap_counter *counter = calloc (1, sizeof *counter);
    if (counter)
        counter->object = (struct object) OBJECT_INIT (&kind_counter);
    return counter;
}

void
accel_lap_counter_destroy (struct accel_lap_counter *counter)
{
    object_destroy (counter ? &counter->object : NULL);
}
'''
KIND, NAME = "static const struct object_kind", '    .name = "lap counter"'
OBJECT = [
    Step("the source", [new(COUNTER, COUNTER_C)], "listed", r"utility/counter\.c: is listed in a makefile, but is missing"),
    Step("its line in src/lib/Makefile.inc", [after("src/lib/Makefile.inc", "\t%D%/utility/check.c",
                                                    "\t%D%/utility/counter.c \\\n")],
         "listed", r"src/lib/utility/counter\.c: not listed in src/lib/Makefile\.inc"),
    Step("the struct object", [fill(COUNTER, "    uint64_t laps;", "    struct object object;\n")],
         "build", "counter\\.c.*no member named .object"),
    Step("`end`", [fill(COUNTER, KIND, '''static void
end_counter (struct object *object)
{
    struct accel_lap_counter *counter = (struct accel_lap_counter *) (void *) object;
    counter->laps = 0;
}

'''), fill(COUNTER, NAME, "    .end = end_counter,\n")],
         "recipes object", "kind_counter: its struct object_kind has no `end`"),
    Step("prepared_remove in `end`", [fill(COUNTER, "    counter->laps = 0;", "    prepared_remove (object);\n")],
         "recipes object", "kind_counter: its `end` does not call prepared_remove"),
    Step("`prepare`", [fill(COUNTER, KIND, '''static enum accel_status
prepare_counter (struct object *object, struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    (void) object, (void) acc, (void) site, (void) err;
    return ACCEL_OK;
}

'''), fill(COUNTER, NAME, "    .prepare = prepare_counter,\n")],
         "tests/unit/core/test_counter", "not ok .*a lap counter can be prepared"),
    Step("`save`", [fill(COUNTER, KIND, '''static void
save_counter (const struct object *object, struct accel_state_dict *state)
{
    state_dict_set_uint64 (state, ((const struct accel_lap_counter *) (const void *) object)->laps, "laps");
}

'''), fill(COUNTER, NAME, "    .save = save_counter,\n")],
         "recipes object", "kind_counter: .*go together: no `save`"),
    Step("`load`, `file` and `floor`", [fill(COUNTER, KIND, '''static enum accel_status
load_counter (struct object *object, const struct accel_state_dict *state, struct accel_error *err)
{
    return state_dict_get_uint64 (state, &((struct accel_lap_counter *) (void *) object)->laps, err, "laps");
}

'''), fill(COUNTER, NAME, '    .load = load_counter,\n    .file = "counter",\n    .floor = OBJECT_LOADER,\n')],
         "recipes object", "kind_counter: .*go together: no `load`"),
    Step("its public functions", [before("include/accel/utility.h", "/** A line on standard error that shows", '''
/** Counts laps. */
struct accel_lap_counter;

/** @return for accel_lap_counter_destroy(); NULL without memory */
ACCEL_API struct accel_lap_counter *accel_lap_counter_create (void);
/** Accepts NULL. */
ACCEL_API void accel_lap_counter_destroy (struct accel_lap_counter *counter);

'''), after("man/accel_utility.3.in", ".Nm accel_set_log_level", '''
.Nm accel_lap_counter ,
.Nm accel_lap_counter_create ,
.Nm accel_lap_counter_destroy ,
'''), before("include/accel/hpp/accelerator.hpp", "    /** One number of each process. */", '''
    static void lap_counter () { accel_lap_counter_destroy (accel_lap_counter_create ()); }
''')], None, None),
    Step("its test", [new("tests/unit/core/test_counter.c", LICENCE + '''/* Lap counters. */
#include <config.h>

#include "tests/tap.h"

#include <accel/accel.h>

int
main (void)
{
    struct accel *acc = NULL;
    struct accel_lap_counter *counter = accel_lap_counter_create ();
    ok (!accel_open (&acc, NULL, NULL) && !accel_prepare (acc, NULL, counter), "a lap counter can be prepared");
    accel_lap_counter_destroy (counter);
    accel_close (acc);
    return done_testing ();
}
'''), before("tests/unit/core/Makefile.inc", "test_programs +=", "core_tests += %D%/test_counter\n")],
         "recipes function", "accel_lap_counter_create: no test calls it"),
]

FUNCTION = [
    Step("the declaration", [before("include/accel/utility.h", "/** A line on standard error that shows", '''
/** Count a lap.  @return how many there have been in this job */
ACCEL_API uint64_t accel_lap (struct accel *acc);

''')], "build", "no previous (prototype|declaration).*accel_lap"),
    Step("the definition", [append("src/lib/utility/laps.c", '''
uint64_t
accel_lap (struct accel *acc)
{
    return acc ? ++((struct laps *) (void *) part_find (acc, &part_laps))->count : 0;
}
''')], "exports.sh", r"(?s)not ok .*exports equal declarations.*accel_lap"),
    Step("the NAME section of its page", [after("man/accel_utility.3.in", ".Nm accel_set_log_level", '''
.Nm accel_lap ,
.Nm accel_lap_begin ,
.Nm accel_lap_sum ,
''')], "man.sh", r"(?s)not ok .*in the NAME section of one page.*accel_lap"),
    Step("accel.hpp", [before("include/accel/hpp/accelerator.hpp", "    /** One number of each process. */", '''
    /** Laps. @{ */
    std::uint64_t lap () { return accel_lap (get ()); }
    void
    lap_begin (const accel_lap_options &options = {})
    {
        detail::attempt call;
        call (accel_lap_begin (get (), &options, call.err ()));
    }
    [[nodiscard]] double
    lap_sum (site at = site::here ())
    {
        double sum = 0;
        must (at, accel_lap_sum_at, &sum);
        return sum;
    }
    /** @} */
''')], "functions", r"accel\.hpp does not call accel_lap"),
    Step("a test", [new("tests/unit/core/test_laps.c", LICENCE + '''/* Laps. */
#include <config.h>

#include "tests/tap.h"

#include <accel/accel.h>

int
main (void)
{
    struct accel *acc = NULL;
    ok (!accel_open (&acc, NULL, NULL) && accel_lap (acc) == 1, "one lap");
    accel_close (acc);
    return done_testing ();
}
'''), before("tests/unit/core/Makefile.inc", "test_programs +=", "core_tests += %D%/test_laps\n")],
         "recipes function", "accel_lap: no test calls it"),
]
COLLECTIVE = [
    Step("the function", [before("include/accel/utility.h", "/** A line on standard error that shows", '''
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_lap_sum_at (const char *file, int line, struct accel *acc, double *sum, struct accel_error *err);

'''), append("src/lib/utility/laps.c", '''
enum accel_status
accel_lap_sum_at (const char *file, int line, struct accel *acc, double *sum, struct accel_error *err)
{
    const struct comm_site site = { .file = file, .line = line, .call = JOBSEG_CALL_LAP_SUM };
    double own = acc ? (double) ((struct laps *) (void *) part_find (acc, &part_laps))->count : 0;
    return comm_all_reduce (accel_world (acc), &site, &own, sum, 1, ACCEL_FLOAT64, ACCEL_SUM, err);
}
''')], None, None),
    Step("the macro", [replace("include/accel/utility.h", "ACCEL_API ACCEL_NODISCARD enum accel_status\naccel_lap_sum_at",
                               '''
/** The laps of all processes.  Collective. */
#define accel_lap_sum(...) accel_lap_sum_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_lap_sum_at'''.lstrip())], "recipes function", "accel_lap_sum: no macro passes ACCEL_HERE to accel_lap_sum_at"),
    Step("its row in JOBSEG_CALL_MAP", [before("src/util/jobseg.h", '    X (BARRIER_START, "accel_comm_barrier_start")',
                                               '    X (LAP_SUM, "accel_lap_sum") \\\n')],
         "recipes function", "accel_lap_sum: is a collective, but has no row in JOBSEG_CALL_MAP"),
    Step("a step of the selftest", [replace("src/selftest/steps_comm.c", "const struct step comm_steps[] = {\n", '''
static void
check_laps (struct self *self)
{
    double laps = -1;
    if (CALL (self, accel_lap_sum (self->acc, &laps, &self->err)))
        expect_near (self, "the laps of all processes", 0, laps, 0);
}

const struct step comm_steps[] = {
    { "laps", check_laps },
'''.lstrip())], "recipes function", r"accel_lap_sum: is a collective, but no step of src/selftest/ calls it"),
]
SIZED = [
    Step("the function", [before("include/accel/utility.h", "/** A line on standard error that shows", '''
/** 0 is each field's default. */
struct accel_lap_options {
    uint64_t first; /**< the number of laps before the first; 0: none */
    uint64_t last_lap; /**< 0: any number */
};

ACCEL_API ACCEL_NODISCARD enum accel_status
accel_lap_begin_sized (size_t options_size, struct accel *acc, const struct accel_lap_options *options,
                       struct accel_error *err);

'''), append("src/lib/utility/laps.c", '''
enum accel_status
accel_lap_begin_sized (size_t options_size, struct accel *acc, const struct accel_lap_options *options,
                       struct accel_error *err)
{
    struct accel_lap_options room;
    enum accel_status status;
    options = SIZED (options, options_size, room, &status, err);
    if (status)
        return status;
    if (!acc)
        return accel_fail_null (err, "accel_lap_begin", "acc");
    ((struct laps *) (void *) part_find (acc, &part_laps))->count = options ? options->first : 0;
    return ACCEL_OK;
}
''')], None, None),
    Step("the macro", [replace("include/accel/utility.h",
                               "ACCEL_API ACCEL_NODISCARD enum accel_status\naccel_lap_begin_sized", '''
/** Begin to count anew.  @param options  NULL: the defaults */
#define accel_lap_begin(...) accel_lap_begin_sized (sizeof (struct accel_lap_options), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_lap_begin_sized'''.lstrip())], "sized", "accel_lap_begin_sized: expected a macro accel_lap_begin that passes the size"),
    Step("its row in test_sized", [before("tests/unit/core/test_sized.c", "CALL (profile)", '''
CALL (lap)
{
    return accel_lap_begin_sized (size, acc, given, &err);
}

'''), before("tests/unit/core/test_sized.c", "    ROW (send_to_device", "    ROW (lap_begin, lap_options, last_lap, lap, .first = 1),\n")],
         "sized", r"tests/unit/core/test_sized\.c has no row for accel_lap_begin, accel_lap_options"),
    Step("its class in options.hpp", [before("include/accel/hpp/options.hpp", "struct idx_options : accel_idx_options {", '''
struct lap_options : accel_lap_options {
    ACCEL_OPTIONS_ (lap_options, accel_lap_options)
    ACCEL_SET_ (first) ACCEL_SET_ (last_lap)
};

''')], "options", "accel_lap_options has no setters"),
    Step("the NAME section of its page", [after("man/accel_utility.3.in", ".Nm accel_set_log_level", ".Nm accel_lap_options ,\n")],
         "man.sh", r"(?s)not ok .*in the NAME section of one page.*accel_lap_options"),
]
FIELD = [
    Step("the field", [after("include/accel/dataset.h", "    int label_column;", "    uint64_t skipped_rows; /**< at the beginning */\n")],
         "options", "csv_options: fields .*setters .*skipped_rows"),
    Step("its setter", [replace("include/accel/hpp/options.hpp", "ACCEL_SET_ (dtype)\n    ACCEL_SET_ (label_column)\n",
                                "ACCEL_SET_ (dtype)\n    ACCEL_SET_ (label_column) ACCEL_SET_ (skipped_rows)\n")],
         "options", "csv_options: fields .*skipped_rows.*setters"),
]
BUG = [
    Step("the test", [new("tests/issues/laps.sh", TEST % ("A bug.", "test_expect_success 'none' true\n"))],
         "listed", r"tests/issues/laps\.sh: is listed in a makefile, but is missing"),
    Step("its place in Makefile.inc", [replace("tests/issues/Makefile.inc", "%D%/slow_reader.sh",
                                               "%D%/slow_reader.sh %D%/laps.sh")],
         "listed", r"tests/issues/laps\.sh: not listed in tests/issues/Makefile\.inc"),
]

OPTIMIZER = [
    Step("the constant", [before("include/accel/train.h", "    ACCEL_OPTIMIZER_KINDS,", "    ACCEL_SIGNSGD,\n")],
         "build", ".ACCEL_SIGNSGD. undeclared"),
    Step("its line in the comment", [before("include/accel/train.h", " *   RMSprop  lr ", " *   SignSGD  lr 1e-3, weight_decay\n")],
         "recipes optimizer", "SignSGD: no line in the comment on struct accel_optimizer_options"),
    Step("the row", [replace("src/lib/train/optimizer/optimizer_kinds.c", "        .begin = begin_rmsprop,\n    },\n", '''
        .begin = begin_rmsprop,
    },
    [ROW (ACCEL_SIGNSGD)] = {
        .name = "SignSGD",
        .has = ALL_HAVE,
        .defaults = { [GROUP_LR] = 1e-3 },
        .begin = begin_signsgd,
    },
'''.lstrip("\n")), before("src/lib/train/optimizer/optimizer_kinds.c", "/* ---- the table ---- */", '''
static enum rule
begin_signsgd (struct optimizer_group *group)
{
    begin (group);
    decouple (group);
    return RULE_SIGNSGD;
}

''')], "build", "one row for each kind"),
    Step("the rule", [replace("src/lib/kernels/rules_element.h", "ELEMENT float\nrule_lion", '''
ELEMENT float
rule_signsgd (struct rule_numbers n, float parameter, float grad)
{
    return parameter * n.keep + n.minus_size * ((float) (grad > 0) - (float) (grad < 0));
}

ELEMENT float
rule_lion'''.lstrip("\n"))], "build", "rule_signsgd"),
    Step("its line in RULES", [replace("src/lib/kernels/rules.h", "    X (LION, lion, 1) ", "    X (SIGNSGD, signsgd, 0) \\\n    X (LION, lion, 1) ")],
         "build", ".RULE_SIGNSGD. undeclared"),
    Step("its item in accel_optimizer(3)", [before("man/accel_optimizer.3.in", ".It Dv ACCEL_ADAGRAD",
                                                   ".It Dv ACCEL_SIGNSGD\nSteps of constant size.\n")],
         "recipes optimizer", r"ACCEL_SIGNSGD: no item in man/accel_optimizer\.3"),
    Step("its name in golden_kind()", [replace("tests/golden/golden.h", '{ "rmsprop", ACCEL_RMSPROP }',
                                               '{ "rmsprop", ACCEL_RMSPROP },\n                  { "signsgd", ACCEL_SIGNSGD }')],
         "recipes optimizer", r"ACCEL_SIGNSGD: no name in golden_kind\(\)"),
]
SCHEDULE = [
    Step("the constant", [before("include/accel/scheduler.h", "    ACCEL_SCHEDULE_KINDS,", "    ACCEL_SCHEDULE_HARMONIC,\n")],
         "build", ".ACCEL_SCHEDULE_HARMONIC. undeclared"),
    Step("the formula", [before("src/lib/train/scheduler/schedules.c", "/* ---- the table ---- */", '''
UNFUSED static double
harmonic_factor (const struct schedule *part)
{
    return 1 / (1 + (double) part->step);
}

''')], "build", ".harmonic_factor. undeclared"),
    Step("the row", [replace("src/lib/train/scheduler/schedules.c", "    X (LAMBDA, ", '''
    X (HARMONIC, "a harmonic schedule", factor, harmonic_factor, .warms_up = true) \\
    X (LAMBDA, '''.lstrip("\n"))], "build", "one row for each schedule"),
    Step("its item in accel_scheduler(3)", [before("man/accel_scheduler.3.in", ".It Dv ACCEL_SCHEDULE_LAMBDA",
                                                   ".It Dv ACCEL_SCHEDULE_HARMONIC\nFalls.\n")],
         "recipes schedule", r"ACCEL_SCHEDULE_HARMONIC: no item in man/accel_scheduler\.3"),
    Step("its name in test_scheduler", [replace("tests/unit/train/test_scheduler.c", '"lambda", "wsd" };', '"lambda", "wsd",\n            "harmonic" };')],
         "tests/unit/train/test_scheduler", "not ok .*a name for every schedule"),
]
DTYPE = [
    Step("its line in ACCEL_DTYPE_MAP", [
        replace("include/accel/tensor.h", '"float8_e5m2")\n', '"float8_e5m2") \\\n    X (FLOAT8_E5M2FNUZ, 13, 8, "float8_e5m2fnuz")\n')],
         "build", "ACCEL_FLOAT8_E5M2FNUZ. undeclared"),
    Step("the row", [
        replace("src/lib/kernels/dtypes.h", "e5m2_of_float, 57344)\n",
                "e5m2_of_float, 57344) \\\n    NARROW (FLOAT8_E5M2FNUZ, uint8_t, float_of_e5m2fnuz, e5m2fnuz_of_float, 57344)\n")],
         "build", "DTYPE_ROW_FLOAT8_E5M2FNUZ. undeclared"),
    Step("its functions", [replace("src/lib/kernels/half_element.h", "ELEMENT float\nfloat_of_e5m2 ", '''
/* Like E5M2, but 0x80 is the only NaN, nothing is infinite, and exponents are less by one. */
ELEMENT uint8_t
e5m2fnuz_of_float (float value)
{
    uint32_t bits = narrow (value, 2, -15, 0x7fu, 0x7fu);
    bits = bits == 0x80u ? 0 : bits;
    return (uint8_t) ((bits_of (value) & 0x7fffffffu) > 0x7f800000u ? 0x80u : bits);
}

ELEMENT float
float_of_e5m2fnuz (uint8_t value)
{
    uint32_t sign = (uint32_t) (value & 0x80u) << 24, rest = value & 0x7fu;
    uint32_t scaled = bits_of (float_of (rest << 21) * 0x1p111F);
    return float_of (value == 0x80u ? 0xffc00000u : sign | scaled);
}

ELEMENT float
float_of_e5m2 '''.lstrip("\n"))], "build", "(float_of_e5m2fnuz|e5m2fnuz_of_float)"),
    Step("its name in safetensors files", [replace("src/files/safetensors.h", "X (F8_E5M2FNUZ, 8, 13, ACCEL_DTYPE_COUNT) ",
                                                   "X (F8_E5M2FNUZ, 8, 13, ACCEL_FLOAT8_E5M2FNUZ) ")],
         "recipes dtype", "ACCEL_FLOAT8_E5M2FNUZ: no row of SAFETENSORS_DTYPE_MAP has it"),
    Step("its row in test_half", [after("tests/unit/core/test_half.c", '    { "e5m2", ACCEL_FLOAT8_E5M2, 8 },',
                                        '    { "e5m2fnuz", ACCEL_FLOAT8_E5M2FNUZ, 8 },\n')],
         "tests/unit/core/test_half", "not ok .*a row for every narrow float"),
]
PRECISION = [
    Step("the row", [replace("src/util/precisions.h", "BFLOAT16, false, 1, 2)\n",
                             'BFLOAT16, false, 1, 2) \\\n    X ("fp12", FLOAT16, true, 2, 2)\n')],
         "tests/unit/train/test_precision", "mixed_precision='fp12' is invalid"),
    Step("its case in test_precision", [replace("tests/unit/train/test_precision.c", '{ "fp8", ACCEL_BFLOAT16 } };',
                                                '{ "fp8", ACCEL_BFLOAT16 }, { "fp12", ACCEL_FLOAT16 } };')],
         "tests/unit/train/test_precision", "not ok .*a case for every mode"),
    Step("make regen", ["regen"], None, None),
]

# A recipe may need another one's example.
RECIPES = {
    "Add an option": [OPTION],
    "Add a question": [OPTION, QUESTION],
    "Add a subcommand": [SUBCOMMAND],
    "Add an engine": [ENGINE],
    "Add a kind of object that accel_prepare takes": [OBJECT],
    "Add an optimizer": [OPTIMIZER],
    "Add a schedule": [SCHEDULE],
    "Add an element type": [DTYPE],
    "Add a precision mode": [PRECISION],
    "Add a part of each job": [PART],
    "Add a public function": [PART, FUNCTION, COLLECTIVE, SIZED],
    "Add a field to a public struct": [FIELD],
    "Fix a bug": [BUG],
}
PARTS = [OPTION, QUESTION, SUBCOMMAND, ENGINE, OBJECT, OPTIMIZER, SCHEDULE, DTYPE, PRECISION, PART, FUNCTION, COLLECTIVE, SIZED, FIELD, BUG]


def run(command, folder, **environment):
    done = subprocess.run(command, cwd=folder, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    return done.returncode == 0, re.sub(r"^  (CC|CCLD|GEN) .*\n", "", done.stdout, flags=re.M)


def lint(name, tree):
    """One of tests/lint/*.py, with arguments."""
    script, *arguments = name.split()
    return run([sys.executable, f"tests/lint/{script}.py", ".", *arguments], tree.folder)


BY_READING = "listed", "recipes", "functions", "options", "sized"


def follow(tree, steps, left_out=None):
    for step in steps:
        for edit in step.edits if step is not left_out else []:
            if edit != "regen":
                edit(tree)
    tree.flush()


def all_steps(recipe):
    return [step for part in RECIPES[recipe] for step in part]


def check_names():
    """Each recipe of HACKING.md has an example here."""
    text = (top / "HACKING.md").read_text().split("\n## Recipes\n")[1].split("\n## ")[0]
    named = re.findall(r"^\*\*(.*?)\.\*\*", text, re.M)
    ok(sorted(named) == sorted(RECIPES), "HACKING.md has the recipes that have examples here, and no others",
       "\n".join(sorted(set(named) ^ set(RECIPES))))


def check_all(tree):
    """Without a build: all examples at once."""
    follow(tree, [step for part in PARTS for step in part])
    for name in BY_READING:
        good, output = lint(name, tree)
        ok(good, f"all recipes followed: {name}.py", output)
    ok(*named(run(["sh", "tests/lint/style.sh"], tree.folder, srcdir=str(tree.folder), builddir=os.environ.get("builddir", ".")),
              "all recipes followed: style.sh"))
    tree.restore()


def check_left_out(tree):
    """Leave out one step after the other, and look for the message of a lint that only reads the sources."""
    for recipe, parts in RECIPES.items():
        for step in all_steps(recipe):
            if not step.lint or step.lint.split()[0] not in BY_READING or (len(parts) > 1 and step in parts[0]):
                continue
            follow(tree, all_steps(recipe), step)
            good, output = lint(step.lint, tree)
            ok(not good and re.search(step.message, output), f"{recipe}: {step.title} left out: {step.lint} reports it",
               output)
            tree.restore()


def check_build(tree, build):
    """All examples at once: they are built, every lint passes, and their tests do; then the steps that only this shows."""
    make = ["make", "-s", f"-j{os.cpu_count()}"]
    programs = """accelerate libaccel.la src/selftest/accel_selftest tests/unit/core/test_laps tests/unit/core/test_counter tests/unit/core/test_sized
        tests/unit/command/test_options tests/unit/core/test_half tests/unit/train/test_scheduler tests/unit/train/test_precision tests/free_port tests/conformance/conformance""".split()
    places = {"srcdir": str(tree.folder), "builddir": str(build)}
    build.mkdir()
    follow(tree, [step for part in PARTS for step in part])
    ok(*named(run(["../tree/configure", "-q", "--enable-werror", "CFLAGS=-O0 -Wno-format-truncation"], build), "configure"))
    ok(*named(run(make + programs, build), "all recipes followed: build"))
    if failures:
        return
    ok(*named(run(make + ["regen"], build), "all recipes followed: make regen"))
    written = run(["git", "diff", "--no-index", "--name-only", str(top / "man"), "man"], tree.folder)[1]
    generated = [path for path in written.split() + ["completions/accelerate." + shell for shell in ("bash", "fish", "zsh")]
                 if (tree.folder / path).exists() and not path.endswith(".in")]
    stale = {path: (top / path).read_text() for path in generated if (top / path).exists()}
    for path in generated:
        tree.write(path, tree.on_disk(path))
    for script in "generated man exports abi recipes style layering".split():
        ok(*named(run(["sh", f"tests/lint/{script}.sh"], tree.folder, **places), f"all recipes followed: {script}.sh"))
    scripts = ("cli_where", "config_golden", "config_ask", "cli_config", "config_terminal")
    units = [name for name in programs if name.startswith("tests/unit/")]
    for command in (*(["sh", f"tests/cli/{name}.sh"] for name in scripts),
                    *([str(build / name)] for name in units),
                    [str(build / "accelerate"), "test", "--cpu", "--num_processes", "2"]):
        name = pathlib.Path(command[-1] if len(command) < 3 else "accelerate test").name
        ok(*named(run(command, tree.folder, **places), f"all recipes followed: {name}"))
    ok(*named(run([str(build / "tests/conformance/conformance")], build, ACCEL_ENGINE="solo"),
              "all recipes followed: conformance on the engine"))
    done = dict(tree.edited)
    for recipe, parts in RECIPES.items():
        for step in all_steps(recipe):
            if not step.lint or step.lint.split()[0] in BY_READING or (len(parts) > 1 and step in parts[0]):
                continue
            tree.restore()
            if "regen" in step.edits:
                tree.edited = {**done, **stale}
                tree.flush()
            else:
                follow(tree, [each for part in PARTS for each in part], step)
            test = step.lint if step.lint.startswith("tests/") else "tests/lint/" + step.lint
            is_script = test.endswith(".sh")
            targets = ["libaccel.la" if not step.lint.startswith("tests/") else "accelerate" if is_script else test]
            good, output = run(make + ["-k", *targets] + (["accelerate"] if "regen" in step.edits else []), build)
            if step.lint != "build":
                good, output = run(["sh", test] if is_script else [str(build / test)], tree.folder, **places)
            ok(not good and re.search(step.message, output), f"{recipe}: {step.title} left out: {step.lint} reports it", output)


def named(result, title):
    return result[0], title, result[1]


with tempfile.TemporaryDirectory(prefix="accel-recipes.") as scratch:
    copied = Tree(pathlib.Path(scratch, "tree"))
    if building:
        check_build(copied, pathlib.Path(scratch, "build"))
    else:
        check_names()
        check_all(copied)
        check_left_out(copied)
print(f"1..{count}")
sys.exit(failures > 0)
