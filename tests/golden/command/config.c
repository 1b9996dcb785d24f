/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files as the original's `config update` leaves them (config.json) against ours: the bytes of YAML and
 * of JSON, and which files are refused.  What we write must say the same when it is read again, and stay as it is when
 * it is updated again.
 *
 * Differences on purpose are in config_differences.tsv.  WHAT is "fails" (we refuse and the original does not), "works"
 * (the reverse), "yaml" and "json" (other content), "yaml/form" and "json/form" (other bytes, the same content). */
#include <config.h>

#include "config/file.h"
#include "config/text/tree.h"
#include "config/update.h"
#include "tests/golden/command/differences.h"
#include "tests/scratch.h"
#include "util/io.h"

#include <jansson.h>
#include <stdarg.h>
#include <unistd.h>

static struct strbuf wrong; /* of this case: what differs without a reason */

__attribute__ ((format (printf, 3, 4))) static void
differ (const char *name, const char *what, const char *format, ...)
{
    char text[3000];
    va_list args;
    if (has_reason (name, what))
        return;
    va_start (args, format);
    vsnprintf (text, sizeof text, format, args);
    va_end (args);
    strbuf_printf (&wrong, "%s%s: ", wrong.length ? "\n# " : "", what);
    for (const char *at = text; *at; at++)
        strbuf_add (&wrong, *at == '\n' ? "\n#   " : (char[]){ *at, '\0' });
}

static int
read_bytes (struct filedoc *doc, bool as_json, const struct strbuf *text, struct fail *fail)
{
    doc->path = as_json ? "written.json" : "written.yaml";
    return (as_json ? json_read : yaml_read) (doc, text->text ? text->text : "", text->length, fail);
}

static int
write_bytes (struct filedoc *doc, bool as_json, struct strbuf *text)
{
    return (as_json ? node_write_json : node_write_yaml) (&doc->root, text);
}

/* All settings of a file, with where each comes from but for the line. */
static void
explain (struct filedoc *doc, struct strbuf *out)
{
    struct config config;
    struct fail fail = { 0 };
    if (config_init (&config, &fail) || filedoc_apply (&config, doc, &fail))
        strbuf_add (out, fail.text);
    for (size_t i = 0; i < option_count; i++) {
        strbuf_printf (out, "\n%s: ", options[i].key);
        option_types[options[i].type].format (option_field_const (&options[i], &config.settings), out);
    }
    config_release (&config);
}

static void
compare_written (const char *name, struct filedoc *doc, bool as_json, json_t *wanted)
{
    const char *what = as_json ? "json" : "yaml", *theirs = json_string_value (wanted);
    AUTO_STRBUF struct strbuf ours = { 0 }, again = { 0 }, before = { 0 }, after = { 0 }, original = { 0 };
    struct filedoc read = { 0 }, other = { 0 };
    struct fail fail = { 0 };
    char form[16];
    snprintf (form, sizeof form, "%s/form", what);
    explain (doc, &before);
    if (write_bytes (doc, as_json, &ours) || read_bytes (&read, as_json, &ours, &fail)) {
        differ (name, what, "unreadable: %s", fail.text);
    } else {
        explain (&read, &after);
        if (!before.text || !after.text || strcmp (before.text, after.text))
            differ (name, "settings", "before%s\nafter%s", before.text, after.text);
    }
    strbuf_add (&original, theirs ? theirs : "");
    if (!theirs) /* a date, which JSON has not */
        differ (name, what, "written, the original cannot");
    else if (read_bytes (&other, as_json, &original, &fail))
        differ (name, what, "the original's is unreadable: %s", fail.text);
    else if (!node_equal (&read.root, &other.root))
        differ (name, what, "%s\nthe original\n%s", ours.text, theirs);
    else if (strcmp (ours.text, theirs))
        differ (name, form, "%s\nthe original\n%s", ours.text, theirs);
    if (filedoc_update (&read, &fail) || write_bytes (&read, as_json, &again) || strcmp (ours.text, again.text))
        differ (name, "again", "%s\nthen\n%s%s", ours.text, again.text ? again.text : "", fail.text);
    filedoc_release (&read);
    filedoc_release (&other);
}

static void
run_case (json_t *row)
{
    const char *name = json_string_value (json_object_get (row, "name"));
    const char *file = json_string_value (json_object_get (row, "file"));
    json_t *text = json_object_get (row, "text"), *error = json_object_get (row, "error");
    struct filedoc doc = { 0 };
    struct config config = { 0 };
    struct fail fail = { 0 };
    strbuf_truncate (&wrong, 0);
    if (json_is_string (text))
        io_write_file (file, json_string_value (text), json_string_length (text), 0644, &fail);
    bool failed = config_init (&config, &fail) || filedoc_read (&doc, file, &fail)
                  || filedoc_apply (&config, &doc, &fail) || filedoc_update (&doc, &fail);
    if (failed && !error)
        differ (name, "fails", "%s", fail.text);
    else if (!failed && error)
        differ (name, "works", "the original says: %s: %s", json_string_value (json_object_get (error, "type")),
                json_string_value (json_object_get (error, "message")));
    else if (!failed) {
        compare_written (name, &doc, false, json_object_get (row, "yaml"));
        compare_written (name, &doc, true, json_object_get (row, "json"));
    }
    ok (!wrong.length, "%s%s%s", name, failed ? ": " : "", failed ? fail.text : "");
    if (wrong.length)
        diag ("%s", wrong.text);
    filedoc_release (&doc);
    config_release (&config);
    unlink (file);
}

/* What `config default` writes where there is no GPU. */
static void
run_default (json_t *row)
{
    const char *name = json_string_value (json_object_get (row, "name"));
    const char *set[][2] = { { "mixed_precision", json_string_value (json_object_get (row, "default")) },
                             { "distributed_type", "NO" }, { "use_cpu", "true" }, { "num_processes", "1" } };
    AUTO_STRBUF struct strbuf yaml = { 0 }, json = { 0 };
    struct config config;
    struct fail fail = { 0 };
    int failed = config_init (&config, &fail);
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        failed = failed || config_set (&config, option_find (set[i][0]), set[i][1], (struct origin){ ORIGIN_FLAG, 0 },
                                       &fail);
    ok (!failed && !config_default_text (&config, false, &yaml, &fail)
            && !config_default_text (&config, true, &json, &fail), "%s %s", name, fail.text);
    is_text (yaml.text, json_string_value (json_object_get (row, "yaml")), "  the YAML file");
    is_text (json.text, json_string_value (json_object_get (row, "json")), "  the JSON file");
    config_release (&config);
}

static void
run_row (json_t *row)
{
    (json_object_get (row, "default") ? run_default : run_case) (row);
}

int
main (int argc, char **argv)
{
    const size_t flags = JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL; /* integers of any length */
    int status = compare_goldens ("config.json", "config_differences.tsv", flags, argc > 1 ? argv[1] : NULL, run_row);
    strbuf_release (&wrong);
    return status;
}
