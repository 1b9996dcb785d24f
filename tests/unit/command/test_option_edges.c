/* SPDX-License-Identifier: Apache-2.0 */
/* Values of options, files of settings and executables at their edges, and what is left of them in memory. */
#include <config.h>

#include "config/emit/emit.h"
#include "config/pep440.h"
#include "config/table/opt_argv.h"
#include "config/table/options.h"
#include "config/text/tree.h"
#include "config/values.h"
#include "launch/machine/executable.h"
#include "tests/balance.h"
#include "tests/scratch.h"
#include "tests/tap.h"

#include <jansson.h>
#include <stdlib.h>
#include <sys/stat.h>

static struct fail fail;

static void
test_numbers (void)
{
    const struct option decimals = { .key = "x", .decimals = true, .min = 0 }, whole = { .key = "x", .min = 1 };
    char *field = NULL;
    const struct option_type_info *number = &option_types[OPTION_NUMBER];
    ok (number->parse (&decimals, "-0.5", false, &field, &fail) && strstr (fail.text, ">= 0"), "too small: %s",
        fail.text);
    ok (number->parse (&whole, "0", true, &field, &fail) && !field, "too small, whole: %s", fail.text);
    ok (!number->parse (&decimals, "0.5", false, &field, &fail) && field && !strcmp (field, "0.5"), "0.5: %s",
        field ? field : "(none)");
    free (field);
    const struct option *text = option_find ("main_process_ip");
    field = NULL;
    bool good = !option_types[text->type].parse (text, "one", false, &field, &fail);
    long before = blocks;
    good = good && !option_types[text->type].parse (text, "another", false, &field, &fail);
    ok (good && field && !strcmp (field, "another") && blocks == before,
        "a text takes the place of another: %ld blocks", blocks - before);
    free (field);
}

static void
test_is_on (void)
{
    struct config config;
    const struct option *row = option_find ("cpu");
    const struct origin origin = { .kind = ORIGIN_FLAG };
    bool good = !config_init (&config, &fail) && !config_set (&config, row, "true", origin, &fail);
    ok (good && config_is_on (&config, "cpu", ORIGIN_FLAG) && !config_is_on (&config, "cpu", ORIGIN_FILE),
        "a flag is on");
    good = good && !config_set (&config, row, "false", origin, &fail);
    ok (good && !config_is_on (&config, "cpu", ORIGIN_FLAG), "a flag that says no is not on");
    config_release (&config);
}

/* Rows of the table as JSON: all choices, ranges of integers, and which are flags. */
static void
test_json (void)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    bool good = !emit_json (&out, &fail);
    json_t *all = good ? json_loads (out.text, 0, NULL) : NULL, *rows = all;
    const char *name;
    if (json_is_object (all))
        json_object_foreach (all, name, rows)
            if (json_is_array (rows))
                break;
    size_t choices = 0, ranges = 0, hidden = 0;
    for (size_t i = 0; i < option_count; i++) {
        const struct option *row = &options[i];
        const json_t *found = NULL;
        for (size_t j = 0; j < json_array_size (rows) && !found; j++) {
            const char *key = json_string_value (json_object_get (json_array_get (rows, j), "key"));
            found = key && !strcmp (key, row->key) ? json_array_get (rows, j) : NULL;
        }
        size_t count = 0;
        while (row->choices && row->choices[count])
            count++;
        choices += json_array_size (json_object_get (found, "choices")) == count;
        ranges += json_integer_value (json_object_get (found, "max")) == (row->type == OPTION_INT ? row->max : 0)
                  && !!json_object_get (found, "min") == (row->type == OPTION_INT);
        hidden += json_is_true (json_object_get (found, "flag")) == !(row->properties & PROPERTY_NO_FLAG);
    }
    ok (choices == option_count, "choices of %zu of %zu rows", choices, option_count);
    ok (ranges == option_count, "ranges of %zu of %zu rows", ranges, option_count);
    ok (hidden == option_count, "%zu of %zu rows say whether they are flags", hidden, option_count);
    json_decref (all);
}

static void
test_tree (void)
{
    long before = blocks;
    struct filedoc doc = { .root = { .kind = NODE_MAP } };
    struct node *list = node_add (&doc.root, "list"), *item;
    list->kind = NODE_LIST;
    bool good = (item = node_add (list, NULL)) && !node_set (item, NODE_TEXT, "one");
    good = good && !node_set (item, NODE_TEXT, "two");
    good = good && (item = node_add (list, NULL)) && !node_set (item, NODE_INT, "3");
    good = good && !node_set (&doc.root.items[0], NODE_TEXT, "no list any more");
    good = good && (item = node_add (&doc.root, "more")) && !node_set (item, NODE_TEXT, "more");
    filedoc_release (&doc);
    ok (good && blocks == before, "what is replaced and released goes: %ld blocks", blocks - before);
}

static void
test_executables (void)
{
    char *found = NULL;
    FILE *file = fopen ("program", "w");
    if (!file || fclose (file) || chmod ("program", 0755) || mkdir ("folder", 0755))
        abort ();
    ok (executable_is ("./program") && !executable_is ("./folder") && !executable_is ("./nothing"),
        "a folder is not a program");
    setenv ("PATH", "/nowhere:", 1);
    ok (!executable_find ("program", &found, &fail) && found && !strcmp (found, "./program"),
        "an empty entry of PATH is the current folder: %s", found ? found : "(none)");
    free (found);
}

/* What packaging.version.parse() of Python says of each. */
static void
test_versions (void)
{
    static const char *const good[]
        = { "1", "1.0", "12.0.0", "v1.0", "V2", "1!2.3", "2026.11", "1.0a1", "1.0.alpha-2", "1.0B", "1.0_beta_3",
            "1.0c1", "1.0-rc.1", "1.0pre", "1.0preview4",
            "1.0.post1", "1.0-1", "1.0r5", "1.0.rev", "1.0.dev0", "1.0dev",
            "0.30.0.dev0", "1.0a1.post2.dev3", "1.0a.", "1.0+local", "1.0+ubuntu-1.2_x", "1.0RC1+A.1" };
    static const char *const bad[]
        = { "", "v", "x", "1.", "1..0", ".1", "1.x", "1.0x", "!1", "1!", "1.0a1b2", "1.0+", "1.0+a..b", "1.0+a.",
            "1.0+a b", "1.0.dev0.post1", "1.0--", "1.0-x", "1.0.alpha.beta", "lates", "1.0; rm -r data", "1.0\n" };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        ok (pep440_is_version (good[i]), "'%s' is a version", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ok (!pep440_is_version (bad[i]), "text %zu is not a version", i);
}

/* A flag with PROPERTY_WORDS takes what is not an option; `--key=value` takes nothing more. */
static void
test_several_words (void)
{
    static const char *const words[] = { "--command", "a", "-1", "b c", "--debug", "x", "--command=d", "y" };
    static const struct {
        enum argv_item item;
        const char *key, *value;
    } wanted[] = {
        { ARGV_OPTION, "command", "a" }, { ARGV_OPTION, "command", "-1" }, { ARGV_OPTION, "command", "b c" },
        { ARGV_OPTION, "debug", "true" }, { ARGV_POSITIONAL, NULL, "x" }, { ARGV_OPTION, "command", "d" },
        { ARGV_POSITIONAL, NULL, "y" }, { ARGV_END, NULL, NULL },
    };
    struct argv_scan scan = { .command = COMMAND_TPU_CONFIG, .argc = 8, .argv = (char **) (uintptr_t) words };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        enum argv_item item = argv_next (&scan, &fail);
        ok (item == wanted[i].item && (!wanted[i].key || !strcmp (scan.row->key, wanted[i].key))
            && (!wanted[i].value || !strcmp (scan.value, wanted[i].value)), "item %zu of several words", i);
    }
}

int
main (void)
{
    scratch_enter ();
    test_versions ();
    test_several_words ();
    test_numbers ();
    test_is_on ();
    test_json ();
    test_tree ();
    test_executables ();
    return done_testing ();
}
