/* SPDX-License-Identifier: Apache-2.0 */
/* CSV files: what they may look like, what errors say of which line and column, numbers as strtod() reads them. */
#include <config.h>

#include "lib/data/datasets/numbers.h"
#include "tests/unit/data/datasets.h"

#include <float.h>
#include <math.h>

/* All of a set as text: "1 2;3 4|5;6", fields between ';', rows between '|'. */
static const char *
print_set (const struct accel_dataset *set)
{
    static char text[512];
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < set->size && at < sizeof text - 64; i++) {
        double values[4][16];
        size_t fields = set->field_count < 4 ? set->field_count : 4;
        if (set->read (set->user, i, (void *[]){ values[0], values[1], values[2], values[3] }, &err))
            return err.text;
        for (size_t f = 0; f < fields; f++) {
            int64_t count = set->fields[f].ndim ? set->fields[f].shape[0] : 1;
            for (int64_t k = 0; k < count && at < sizeof text - 64; k++) {
                const void *value = (char *) values[f] + (size_t) k * accel_dtype_bytes (set->fields[f].dtype);
                double number = set->fields[f].dtype == ACCEL_FLOAT32   ? *(const float *) value
                                : set->fields[f].dtype == ACCEL_FLOAT64 ? *(const double *) value
                                : set->fields[f].dtype == ACCEL_INT64   ? (double) *(const int64_t *) value
                                : set->fields[f].dtype == ACCEL_INT32   ? *(const int32_t *) value
                                : set->fields[f].dtype == ACCEL_INT8    ? *(const int8_t *) value
                                                                        : *(const uint8_t *) value;
                at += (size_t) snprintf (text + at, sizeof text - at, "%s%.9g", k ? " " : f ? ";" : i ? "|" : "",
                                         number);
            }
        }
    }
    return text;
}

static const struct accel_csv_field two[] = {
    { .field = { "x", ACCEL_FLOAT32, 1, { 2 } } },
    { .field = { "y", ACCEL_INT32, 0, { 0 } } },
};
static const struct accel_csv_field named[] = {
    { .field = { "y", ACCEL_UINT8, 0, { 0 } }, .header = "label" },
    { .field = { "x", ACCEL_FLOAT64, 1, { 2 } }, .header = "first one", .scale = 0.5 },
};
static const struct accel_csv_field numbered[] = {
    { .field = { "y", ACCEL_BOOL, 0, { 0 } }, .column = 4 },
    { .field = { "x", ACCEL_INT8, 0, { 0 } }, .column = 2, .min = -5, .max = 5 },
};

static const struct accel_csv_field below[] = {
    { .field = { "x", ACCEL_INT8, 0, { 0 } }, .column = 2, .max = 126 },
};

#define FIELDS(array) .fields = (array), .field_count = sizeof (array) / sizeof *(array)

static const struct {
    const char *text;
    struct accel_csv_options options;
    const char *wanted; /* what is read, or the error after the path */
    bool bad;
} cases[] = {
    /* Forms of files. */
    { "1,2\n3,4\n", { 0 }, "1 2|3 4", false },
    { "1,2\n3,4", { 0 }, "1 2|3 4", false },
    { "1,2\r\n3,4\r\n", { 0 }, "1 2|3 4", false },
    { "1,2\r\n3,4\r", { 0 }, "1 2|3 4", false },
    { "\n\n1,2\n \t\n\r\n3,4\n\n", { 0 }, "1 2|3 4", false },
    { "\xef\xbb\xbf" "1,2\n", { 0 }, "1 2", false },
    { "a,b\n1,2\n", { 0 }, "1 2", false },
    { "\xef\xbb\xbf" "a,b\n1,2\n", { 0 }, "1 2", false },
    { ",b\n1,2\n", { 0 }, "1 2", false },
    { "\"a,\"\"q\"\"\",\"b\nc\"\n1,2\n", { 0 }, "1 2", false },
    { "1,2\n3,4\n", { .header = ACCEL_CSV_HEADER_YES }, "3 4", false },
    { "a,b\n", { 0 }, "", false },
    { "\"1\",\" 2 \",3\n", { FIELDS (two) }, ":1:6: ' 2 ' is not a number", true },
    { "\"1\", \"2\" ,\t3\n", { FIELDS (two) }, "1 2;3", false },
    { "1;2\n", { .separator = ';' }, "1 2", false },
    { "1\t2\n", { .separator = '\t' }, "1 2", false },
    { "1 2\n", { .separator = ' ' }, "1 2", false },
    { "", { FIELDS (two) }, "", false },
    { "\n", { FIELDS (two) }, "", false },
    /* Columns. */
    { "1,2,3\n4,5,6\n", { .label_column = -1 }, "1 2;3|4 5;6", false },
    { "1,2,3\n4,5,6\n", { .label_column = 1 }, "2 3;1|5 6;4", false },
    { "1,2,3\n4,5,6\n", { .label_column = 2, .dtype = ACCEL_INT32 }, "1 3;2|4 6;5", false },
    { "1,2,3,4,5\n6,7,8,9,10\n", { .label_column = 3 }, "1 2 4 5;3|6 7 9 10;8", false },
    { "1,2,3,4,5\n6,7,8,9,10\n", { .label_column = -2 }, "1 2 3 5;4|6 7 8 10;9", false },
    { "id,first one,second,label\nx,1,3,255\n\"y,\n\",5,7,0", { FIELDS (named) }, "255;0.5 1.5|0;2.5 3.5", false },
    { "a,-5,,1\nb,5,z,0\n", { FIELDS (numbered) }, "1;-5|0;5", false },
    { "a,-6,,1\n", { FIELDS (numbered) }, ":1:3: -6 is not in the range -5 to 5", true },
    { "a,127,,1\n", { FIELDS (below) }, ":1:3: 127 is not in the range 0 to 126", true },
    { "id,first one \t,second, label \nx,1,3,5\n", { FIELDS (named) }, "5;0.5 1.5", false },
    { "1,2,3,4\n", { FIELDS (two) }, "1 2;3", false },
    { "1\n", { .label_column = -1 }, ": has no columns other than the label", true },
    { "1,2\n", { .label_column = 3 }, ": label_column is 3, but there are 2 columns", true },
    { "1,2\n", { .label_column = -3 }, ": label_column is -3, but there are 2 columns", true },
    { "1,2\n", { FIELDS (two) }, ": field 'y' needs columns 3 to 3, but there are 2", true },
    { "a,b,lable,first one,c\n", { FIELDS (named) }, ": has no column 'label' (did you mean 'lable'?)", true },
    { "1,2\n", { FIELDS (named) }, ": has no header, so there is no column 'label'", true },
    { "first one,label,x\n", { FIELDS (named) }, ": column 2 is in fields 'y' and 'x'", true },
    { "", { 0 }, ": is empty, so the number of columns is unknown; give its fields", true },
    /* Rows. */
    { "1,2\n3\n", { 0 }, ":2:2: a row with fewer cells than the first, which has 2", true },
    { "1,2\n3,4,5\n", { 0 }, ":2:4: a row with more cells than the first, which has 2", true },
    { "1,2\n\n3,4,\n", { 0 }, ":3:4: a row with more cells than the first, which has 2", true },
    { "1,2\n3,\n", { 0 }, ":2:3: an empty cell", true },
    { "1,2\n ,3\n", { 0 }, ":2:2: an empty cell", true },
    { "1,2\n\"\",3\n", { 0 }, ":2:2: an empty cell", true },
    { ",\n", { 0 }, ":1:1: an empty cell", true },
    /* Cells. */
    { "1,2\n3,abc\n", { 0 }, ":2:3: 'abc' is not a number", true },
    { "1,2\n3,4x\n", { 0 }, ":2:3: '4x' is not a number", true },
    { "1,2\n3,4 5\n", { 0 }, ":2:3: '4 5' is not a number", true },
    { "1,b\n", { 0 }, ":1:3: 'b' is not a number", true },
    { "1,0x10\n", { 0 }, ":1:3: '0x10' is not a number", true },
    { "1,1e\n", { 0 }, ":1:3: '1e' is not a number", true },
    { "1,1.2.3\n", { 0 }, ":1:3: '1.2.3' is not a number", true },
    { "1,.\n", { 0 }, ":1:3: '.' is not a number", true },
    { "1,--2\n", { 0 }, ":1:3: '--2' is not a number", true },
    { "1,\"2\n3,4\n", { 0 }, ":1:3: the closing quote is missing", true },
    { "1,\"2\"3\n", { 0 }, ":1:6: text after the closing quote", true },
    { "1,2\n1,\"2,,\"\n", { 0 }, ":2:4: '2' is not a number", true },
    { "1,2\n1,\"2\"3\n", { 0 }, ":2:4: '2' is not a number", true },
    { "a,b\n1,2\"\"\n", { 0 }, ":2:3: '2' is not a number", true },
    { "id,first one,second,label\nx\"\"y,1,3,5\n", { FIELDS (named) }, ":2:2: a quote inside a cell that does not start"
      " with one", true },
    { "id,first one,second,label\n\"a\nb\",1,c,5\n", { FIELDS (named) }, ":3:6: 'c' is not a number", true },
    { "id,first one,second,label\n\"a\nb\",1,2,5\nx,1,c,5\n", { FIELDS (named) }, ":4:5: 'c' is not a number", true },
    { "a,\"first \"\"one\",c,label\n", { FIELDS (named) }, ": has no column 'first one' (did you mean 'first \"one'?)",
      true },
    { "nan,inf,1\n-Infinity,+1e-400,-0\n", { FIELDS (two) }, "nan inf;1|-inf 0;0", false },
    { "1.5,-2.5e3,3\n", { FIELDS (two) }, "1.5 -2500;3", false },
    { "1,1e18446744073709551621\n", { 0 }, ":1:3: 1e18446744073709551621 is too large for float32", true },
    { "1,1e39\n", { 0 }, ":1:3: 1e39 is too large for float32", true },
    { "1,-1e309\n", { .dtype = ACCEL_FLOAT64 }, ":1:3: -1e309 is too large for float64", true },
    { "1,2,3.0\n", { FIELDS (two) }, ":1:5: '3.0' is not an integer", true },
    { "1,2,3e0\n", { FIELDS (two) }, ":1:5: '3e0' is not an integer", true },
    { "1,2,nan\n", { FIELDS (two) }, ":1:5: 'nan' is not an integer", true },
    { "1,2,2147483647\n", { FIELDS (two) }, "1 2;2.14748365e+09", false },
    { "1,2,2147483648\n", { FIELDS (two) }, ":1:5: 2147483648 does not fit in int32", true },
    { "1,2,-2147483649\n", { FIELDS (two) }, ":1:5: -2147483649 does not fit in int32", true },
    { "9223372036854775807\n", { .dtype = ACCEL_INT64 }, "9.22337204e+18", false },
    { "-9223372036854775808\n", { .dtype = ACCEL_INT64 }, "-9.22337204e+18", false },
    { "9223372036854775808\n", { .dtype = ACCEL_INT64 }, ":1:1: 9223372036854775808 does not fit in int64", true },
    { "99999999999999999999\n", { .dtype = ACCEL_INT64 }, ":1:1: 99999999999999999999 does not fit in int64", true },
    { "256\n", { .dtype = ACCEL_UINT8 }, ":1:1: 256 does not fit in uint8", true },
    { "-1\n", { .dtype = ACCEL_UINT8 }, ":1:1: -1 does not fit in uint8", true },
    { "2\n", { .dtype = ACCEL_BOOL }, ":1:1: 2 does not fit in bool", true },
    { "a,6,b,1\n", { FIELDS (numbered) }, ":1:3: 6 is not in the range -5 to 5", true },
    { "1\n", { .dtype = ACCEL_FLOAT16 }, ": numbers of a CSV file cannot be read as float16", true },
    { "1\n", { .separator = '5' }, "character 53 cannot be the separator of a CSV file", true },
    { "1\n", { .separator = '"' }, "character 34 cannot be the separator of a CSV file", true },
    { "1\n", { .separator = '-' }, "character 45 cannot be the separator of a CSV file", true },
    { "1\n", { .header = (enum accel_csv_header) 7 }, "invalid accel_csv_header 7", true },
    { "1\n", { FIELDS (two), .label_column = 1 }, "label_column and dtype cannot be combined with fields", true },
    { "\x1f\x8b\x08", { 0 }, ": is compressed; decompress it with gunzip to get the CSV file", true },
};

static void
test_cases (void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct accel_dataset *set;
        const char *path = write_file ("a", cases[i].text, strlen (cases[i].text)), *got;
        enum accel_status status = accel_dataset_open_csv (&set, path, &cases[i].options, &err);
        if (cases[i].bad) {
            size_t long_enough = strlen (err.text) >= strlen (cases[i].wanted);
            got = status && long_enough ? err.text + strlen (err.text) - strlen (cases[i].wanted) : "(opened)";
            ok (status && !set && !strcmp (got, cases[i].wanted), "CSV %zu: %s", i + 1, cases[i].wanted);
        } else {
            got = status ? err.text : print_set (set);
            ok (!strcmp (got, cases[i].wanted), "CSV %zu: reads %s", i + 1, cases[i].wanted);
        }
        if (strcmp (got, cases[i].wanted) != 0)
            diag ("got %s", status ? err.text : got);
        accel_dataset_close (status ? NULL : set);
    }
}

/* Many rows, longer than any buffer, one of them longer still; and rows that end anywhere in the buffer. */
static void
test_large (void)
{
    size_t room = 9000000, at = 0, rows = 100000, wrong = 0;
    char *text = malloc (room);
    struct accel_dataset *set = NULL;
    for (size_t i = 0; text && i < rows; i++) {
        at += (size_t) snprintf (text + at, room - at, "%zu,%zu.5,%zu,", i, i, i % 10);
        if (i == 5000) {
            memset (text + at, ' ', 1000000);
            at += 1000000;
        }
        if (i == 7000) { /* a cell of several lines, in quotes that are counted once */
            at += (size_t) snprintf (text + at, room - at, "\"1\n");
            memset (text + at, '2', 1000000);
            at += 1000000;
            at += (size_t) snprintf (text + at, room - at, "\n3\"");
        }
        text[at++] = '\n';
    }
    struct accel_csv_options options = { FIELDS (two) };
    bool opened = text && !accel_dataset_open_csv (&set, write_file ("a", text, at), &options, &err);
    for (size_t i = 0; opened && i < rows; i++) {
        float x[2];
        int32_t y;
        wrong += set->read (set->user, i, (void *[]){ x, &y }, &err) || x[0] != (float) i || x[1] != (float) i + 0.5F
                 || y != (int32_t) (i % 10);
    }
    ok (opened && set->size == rows && !wrong, "CSV: %zu rows, one of a million characters", rows);
    accel_dataset_close (set);
    free (text);
}

/* Every number is what strtod() makes of it, to the last bit, whichever way it is read. */
static void
test_numbers (void)
{
    static const char *const fixed[] = {
        "0", "-0", "1", "9007199254740992", "9007199254740993", "9007199254740993e1", "0.1", "1e22", "1e23", "123e-22",
        "123e-23", "1.7976931348623157e308", "2.2250738585072011e-308", "4.9e-324", "2e-324", "1e-400", "0e999",
        "18446744073709551615", "18446744073709551616", "9999999999999999999", "10000000000000000000", "1.",
        ".5", "0.000000000000000000000000000000000000001", "100000000000000000000000000000000000000e-38", "1E+5",
        "12345678901234567890.12345678901234567890", "1e-0",
    };
    static uint32_t noise = 7;
    locale_t c_locale = newlocale (LC_ALL_MASK, "C", (locale_t) 0);
    size_t wrong = 0, count = sizeof fixed / sizeof *fixed, tried = 20000;
    for (size_t i = 0; i < count + tried; i++) {
        char text[64];
        double got = 0, wanted;
        bool overflow;
        noise = noise * 1664525 + 1013904223;
        if (i < count)
            snprintf (text, sizeof text, "%s,", fixed[i]);
        else
            snprintf (text, sizeof text, "%.*e,", (int) (noise >> 8) % 20,
                      ldexp ((double) noise - 0x1p31, (int) (noise >> 5) % (i % 2 ? 64 : 1024) - (i % 2 ? 32 : 512)));
        wanted = strtod (text, NULL);
        const char *end = number_real (text, c_locale, &got, &overflow);
        if (!end || *end != ',' || memcmp (&got, &wanted, sizeof got) != 0) {
            diag ("%s %.17g, strtod: %.17g", text, got, wanted);
            wrong++;
        }
    }
    ok (!wrong, "%zu numbers are those of strtod()", count + tried);
    freelocale (c_locale);
}

int
main (void)
{
    struct accel_dataset *set;
    test_cases ();
    test_large ();
    test_numbers ();
    is_refused ("CSV", accel_dataset_open_csv (&set, "/nowhere/x.csv", NULL, &err), &set, "x.csv: No such file");
    is_refused ("CSV", accel_dataset_open_csv (&set, "/dev/null", NULL, &err), &set, "not a regular file");
    return done_testing ();
}
