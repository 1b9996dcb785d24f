/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of a program's arguments: defaults, command lines, JSON files, and what is refused. */
#include <config.h>

#include "tests/scratch.h"
#include "tests/tap.h"

#include <accel/arguments.h>
#include <math.h>
#include <stdlib.h>

static struct accel_error err;
static struct numbers {
    int steps, any, precision, kind;
    double lr;
    const char *data, *model;
} numbers;

#define AT(field) offsetof (struct numbers, field)
static const struct accel_argument rows[] = {
    { "steps", ACCEL_ARGUMENT_INT, true, AT (steps), "10", "steps in all", 1, 1000, NULL },
    { "any", ACCEL_ARGUMENT_INT, false, AT (any), NULL, NULL, 0, 0, NULL },
    { "lr", ACCEL_ARGUMENT_DOUBLE, false, AT (lr), "1e-3", "learning rate", 0, 2, NULL },
    { "precision", ACCEL_ARGUMENT_WORD, false, AT (precision), "fp16", "of weights", 0, 0, "no fp16 bf16" },
    { "data", ACCEL_ARGUMENT_TEXT, false, AT (data), "digits.csv", "file", 0, 0, NULL },
    { "model", ACCEL_ARGUMENT_TEXT, false, AT (model), NULL, "folder", 0, 0, NULL },
    { "kind", ACCEL_ARGUMENT_WORD, false, AT (kind), NULL, "of data", 0, 0, "text image" },
};
enum { ROWS = sizeof rows / sizeof *rows };

/* @param line  words separated by blanks */
static enum accel_status
parse (char **help, const char *line)
{
    static char text[256], program[] = "program";
    char *argv[16] = { program };
    int argc = 1;
    snprintf (text, sizeof text, "%s", line);
    for (char *rest = NULL, *word = strtok_r (text, " ", &rest); word; word = strtok_r (NULL, " ", &rest))
        argv[argc++] = word;
    memset (&numbers, 0x55, sizeof numbers);
    return accel_arguments_parse (help, &numbers, rows, ROWS, argc, argv, &err);
}

static void
test_values (void)
{
    char *help = (char *) &numbers;
    ok (!parse (&help, "") && !help && numbers.steps == 10 && numbers.any == 0 && numbers.lr == 1e-3
            && numbers.precision == 1 && !strcmp (numbers.data, "digits.csv") && !numbers.model,
        "defaults");
    ok (!parse (&help, "--steps 5 --lr=0.5 --precision bf16 --data x --model=a=b --steps 7 --any -3") && !help
            && numbers.steps == 7 && numbers.any == -3 && numbers.lr == 0.5 && numbers.precision == 2
            && !strcmp (numbers.data, "x") && !strcmp (numbers.model, "a=b"),
        "values, in both forms; the last one counts");
    ok (!accel_arguments_parse (&help, &numbers, rows, ROWS, 0, NULL, &err) && numbers.steps == 10, "no command line");
}

static void
test_help (void)
{
    char *help = NULL;
    ok (!parse (&help, "--steps 5 --help --nonsense") && help
            && strstr (help, "  --steps                steps in all [10]\n")
            && strstr (help, "  --precision            of weights: no fp16 bf16 [fp16]\n")
            && strstr (help, "  --model                folder [none]\n")
            && strstr (help, "  --any                   [0]\n")
            && strstr (help, "  --kind                 of data: text image [text]\n"),
        "--help");
    free (help);
}

static void
refuse (const char *line, const char *expected)
{
    char *help = (char *) &numbers;
    ok (parse (&help, line) == ACCEL_ERR_INVALID && !help && !strcmp (err.text, expected), "'%s': %s", line, err.text);
}

static void
test_bad (void)
{
    refuse ("--steps 0", "--steps: expected a whole number from 1 to 1000, got '0'");
    refuse ("--steps 5x", "--steps: expected a whole number from 1 to 1000, got '5x'");
    refuse ("--steps=", "--steps: expected a whole number from 1 to 1000, got ''");
    refuse ("--any 99999999999", "--any: expected a whole number, got '99999999999'");
    refuse ("--lr 2.5", "--lr: expected a number from 0 to 2, got '2.5'");
    refuse ("--lr nan", "--lr: expected a number from 0 to 2, got 'nan'");
    refuse ("--precision fp", "--precision: expected no, fp16, bf16, got 'fp'");
    refuse ("--steps", "--steps: missing value");
    refuse ("--stebs 3", "unknown option '--stebs' (did you mean '--steps'?); see --help");
    refuse ("steps 3", "unknown option 'steps' (did you mean '--steps'?); see --help");
    refuse ("--step 3", "unknown option '--step' (did you mean '--steps'?); see --help");
}

static void
test_bad_rows (void)
{
    struct accel_argument row = rows[0];
    char *help;
    row.kind = (enum accel_argument_kind) 9;
    ok (accel_arguments_parse (&help, &numbers, &row, 1, 0, NULL, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "invalid accel_argument_kind 9"), "an invalid kind: %s", err.text);
    row = rows[0];
    row.value = "0";
    ok (accel_arguments_parse (&help, &numbers, &row, 1, 0, NULL, &err) == ACCEL_ERR_INVALID
            && !strncmp (err.text, "steps: expected", 15), "an invalid default: %s", err.text);
    row.name = NULL;
    ok (accel_arguments_parse (&help, &numbers, &row, 1, 0, NULL, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "row 0 has no name"), "a row without a name: %s", err.text);
    ok (accel_arguments_parse (&help, NULL, &row, 1, 0, NULL, &err) == ACCEL_ERR_INVALID
            && accel_arguments_parse (NULL, &numbers, &row, 1, 0, NULL, &err) == ACCEL_ERR_INVALID
            && accel_arguments_read_json (&numbers, rows, ROWS, NULL, &err) == ACCEL_ERR_INVALID, "NULL");
}

/* In the scratch folder. */
static const char *
config_path (void)
{
    static char path[SCRATCH_SIZE + 16];
    snprintf (path, sizeof path, "%s/config.json", scratch_folder ());
    return path;
}

/* @param text  of the file */
static enum accel_status
read_text (const char *text)
{
    const char *path = config_path ();
    FILE *file = fopen (path, "w");
    if (!file || fputs (text, file) < 0 || fclose (file))
        exit (99);
    return accel_arguments_read_json (&numbers, rows, ROWS, path, &err);
}

static void
refuse_text (const char *text, enum accel_status status, const char *words)
{
    ok (read_text (text) == status && strstr (err.text, "/config.json: ") && strstr (err.text, words), "%s", err.text);
}

static void
test_json (void)
{
    char *help;
    if (parse (&help, "--model m"))
        exit (99);
    ok (!read_text ("{\"other\": [1, {\"steps\": 4}], \"steps\": 3, \"lr\": 5e-1, \"precision\": \"bf16\", "
                    "\"any\": null, \"data\": \"ignored\"}\n")
            && numbers.steps == 3 && numbers.lr == 0.5 && numbers.precision == 2 && numbers.any == 0
            && !strcmp (numbers.data, "digits.csv") && !strcmp (numbers.model, "m"),
        "values of a file: %s", err.text);
    refuse_text ("{\"lr\": 1}", ACCEL_ERR_INVALID, "\"steps\" is missing");
    refuse_text ("{\"steps\": 5000}", ACCEL_ERR_INVALID, "steps: expected a whole number from 1 to 1000, got '5000'");
    refuse_text ("{\"steps\": [5]}", ACCEL_ERR_INVALID, "got '[5]'");
    refuse_text ("{\"steps\": 5, \"precision\": true}", ACCEL_ERR_INVALID, "got 'true'");
    refuse_text ("[5]", ACCEL_ERR_FORMAT, "expected an object");
    refuse_text ("{\"steps\": 5} 6", ACCEL_ERR_FORMAT, "byte 13");
    refuse_text ("{\"steps\": 5", ACCEL_ERR_FORMAT, "byte 11");
    refuse_text ("", ACCEL_ERR_FORMAT, "byte 0");
    ok (accel_arguments_read_json (&numbers, rows, ROWS, "/nowhere/x", &err) == ACCEL_ERR_SYSTEM
            && strstr (err.text, "/nowhere/x"), "no file: %s", err.text);
}

/* Write the fields of some rows.  @return the file */
static const char *
write_text (const struct accel_argument *some, size_t count)
{
    static char text[256];
    if (accel_arguments_write_json (&numbers, some, count, config_path (), &err))
        return err.text;
    memset (text, 0, sizeof text);
    FILE *file = fopen (config_path (), "r");
    if (!file || !fread (text, 1, sizeof text - 1, file) || fclose (file))
        exit (99);
    return text;
}

static void
test_written (void)
{
    static const struct accel_argument word
        = { "tied", ACCEL_ARGUMENT_WORD, false, AT (precision), NULL, NULL, 0, 0, "no true false null" };
    char *help;
    if (parse (&help, "--steps 5 --any -3 --lr 0.1 --precision bf16"))
        exit (99);
    const char *text = write_text (rows, ROWS);
    ok (!strcmp (text, "{\n  \"steps\": 5,\n  \"any\": -3,\n  \"lr\": 0.1,\n  \"precision\": \"bf16\",\n"
                       "  \"kind\": \"text\"\n}\n"),
        "a file is written");
    numbers.lr = 1.0 / 3;
    const struct numbers written = numbers;
    write_text (rows, ROWS);
    ok (!parse (&help, "") && !accel_arguments_read_json (&numbers, rows, ROWS, config_path (), &err)
            && numbers.steps == written.steps && numbers.any == written.any && numbers.lr == written.lr
            && numbers.precision == written.precision,
        "and has the same values when it is read: %s", err.text);
    for (numbers.precision = 1; numbers.precision < 4; numbers.precision++) {
        static const char *const expected[] = { NULL, "true", "false", "null" };
        text = write_text (&word, 1);
        ok (strstr (text, expected[numbers.precision]) == text + strlen ("{\n  \"tied\": "), "%s is not a string",
            expected[numbers.precision]);
    }
    text = write_text (&rows[4], 1);
    ok (!strcmp (text, "{}\n"), "texts are left out");
}

static void
refuse_to_write (const char *expected)
{
    ok (accel_arguments_write_json (&numbers, rows, ROWS, config_path (), &err) == ACCEL_ERR_INVALID
            && !strcmp (err.text, expected), "not written: %s", err.text);
}

static void
test_not_written (void)
{
    char *help;
    struct accel_argument row = rows[0];
    if (parse (&help, ""))
        exit (99);
    numbers.lr = INFINITY;
    refuse_to_write ("lr: inf is not finite");
    numbers.lr = 1;
    numbers.precision = 3;
    refuse_to_write ("precision: word 3 of 'no fp16 bf16'");
    numbers.precision = -1;
    refuse_to_write ("precision: word -1 of 'no fp16 bf16'");
    row.kind = (enum accel_argument_kind) 9;
    ok (accel_arguments_write_json (&numbers, &row, 1, config_path (), &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "invalid accel_argument_kind 9"), "an invalid kind: %s", err.text);
    ok (accel_arguments_write_json (&numbers, rows, 1, "/nowhere/x", &err) == ACCEL_ERR_SYSTEM
            && strstr (err.text, "/nowhere/x"), "no folder: %s", err.text);
    ok (accel_arguments_write_json (NULL, rows, 1, "x", &err) == ACCEL_ERR_INVALID && strstr (err.text, "from is NULL")
            && accel_arguments_write_json (&numbers, rows, 1, NULL, &err) == ACCEL_ERR_INVALID, "NULL: %s", err.text);
}

int
main (void)
{
    test_values ();
    test_help ();
    test_bad ();
    test_bad_rows ();
    test_json ();
    test_written ();
    test_not_written ();
    return done_testing ();
}
