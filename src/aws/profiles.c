/* SPDX-License-Identifier: Apache-2.0 */
/* A reader of AWS's configuration files; see profiles.h. */
#include <config.h>

#include "aws/profiles.h"

#include "aws/keys.h"
#include "util/array.h"
#include "util/cleanup.h"
#include "util/io.h"
#include "util/strbuf.h"

#include <ctype.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 20 };

struct reader {
    struct profiles *profiles;
    bool is_credentials;
    unsigned line;
    enum profiles_kind kind;
    char *section; /* NULL: none has begun */
    size_t parent; /* 1 + index of the row that indented lines belong to; 0: none */
    struct fail *fail;
};

static int
refuse (const struct reader *reader, const char *what)
{
    return fail_set (reader->fail, FAIL_GENERAL, "%.600s:%u: %s", reader->profiles->path, reader->line, what);
}

static bool
is_blank (char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

/* Without blanks on both sides. */
static void
trim (const char **begin, const char **end)
{
    while (*begin < *end && is_blank (**begin))
        ++*begin;
    while (*end > *begin && is_blank ((*end)[-1]))
        --*end;
}

/* @param name, value  strings on the heap, which become the row's or are freed */
static int
add_row (struct reader *reader, char *name, char *value)
{
    struct profiles *profiles = reader->profiles;
    char *section = strdup (reader->section);
    struct profiles_row *row = array_room (&profiles->rows, profiles->count, sizeof *row);
    if (!section || !name || !value || !row) {
        free (section);
        free (name);
        keys_wipe (value);
        return fail_nomem (reader->fail);
    }
    for (char *c = name; *c; c++)
        *c = (char) tolower ((unsigned char) *c);
    *row = (struct profiles_row) { .kind = reader->kind, .section = section, .name = name, .value = value };
    profiles->count++;
    return 0;
}

/* What a section is for: "profile work", also with quotes around the name. */
static void
find_kind (struct reader *reader, const char **begin, const char *end)
{
    static const struct { const char *word; enum profiles_kind kind; } words[]
        = { { "profile", PROFILES_PROFILE }, { "sso-session", PROFILES_SSO_SESSION },
            { "services", PROFILES_SERVICES } };
    size_t length = (size_t) (end - *begin);
    reader->kind = PROFILES_OTHER;
    if (reader->is_credentials || (length == 7 && !memcmp (*begin, "default", 7))) {
        reader->kind = PROFILES_PROFILE;
        return;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t word = strlen (words[i].word);
        if (length > word && !memcmp (*begin, words[i].word, word) && is_blank ((*begin)[word])) {
            reader->kind = words[i].kind;
            *begin += word;
            return;
        }
    }
}

static int
read_section (struct reader *reader, const char *begin, const char *end)
{
    const char *close = memchr (begin, ']', (size_t) (end - begin));
    if (!close)
        return refuse (reader, "a section has no ']'");
    const char *rest = close + 1;
    trim (&rest, &end);
    if (rest < end && *rest != '#' && *rest != ';')
        return refuse (reader, "unexpected text after a section's ']'");
    begin++;
    trim (&begin, &close);
    find_kind (reader, &begin, close);
    trim (&begin, &close);
    if (close - begin >= 2 && (*begin == '"' || *begin == '\'') && close[-1] == *begin) {
        begin++;
        close--;
    }
    if (begin == close)
        return refuse (reader, "a section has no name");
    free (reader->section);
    reader->section = strndup (begin, (size_t) (close - begin));
    reader->parent = 0;
    return reader->section ? add_row (reader, strdup (""), strdup ("")) : fail_nomem (reader->fail);
}

/* An indented line: of a table below "s3 =", or a continued value. */
static int
read_continuation (struct reader *reader, const char *begin, const char *end)
{
    struct profiles_row *parent = &reader->profiles->rows[reader->parent - 1];
    const char *equals = memchr (begin, '=', (size_t) (end - begin));
    AUTO_STRBUF struct strbuf text = { 0 };
    if (*parent->value || !equals) {
        strbuf_printf (&text, "%s%s%.*s", parent->value, *parent->value ? "\n" : "", (int) (end - begin), begin);
        if (text.failed)
            return fail_nomem (reader->fail);
        keys_wipe (parent->value);
        parent->value = strbuf_take (&text);
        return 0;
    }
    const char *name_end = equals, *value = equals + 1;
    trim (&begin, &name_end);
    trim (&value, &end);
    strbuf_printf (&text, "%s.%.*s", parent->name, (int) (name_end - begin), begin);
    return add_row (reader, text.failed ? NULL : strbuf_take (&text), strndup (value, (size_t) (end - value)));
}

static int
read_line (struct reader *reader, const char *begin, const char *end)
{
    bool is_indented = begin < end && is_blank (*begin);
    trim (&begin, &end);
    if (begin == end || *begin == '#' || *begin == ';')
        return 0;
    if (is_indented && reader->parent)
        return read_continuation (reader, begin, end);
    if (*begin == '[')
        return read_section (reader, begin, end);
    const char *delimiter = begin;
    while (delimiter < end && *delimiter != '=' && *delimiter != ':')
        delimiter++;
    if (delimiter == end || delimiter == begin)
        return refuse (reader, "expected '[section]', 'name = value' or a comment");
    if (!reader->section)
        return refuse (reader, "expected a '[section]' before the first value");
    const char *name_end = delimiter, *value = delimiter + 1;
    trim (&begin, &name_end);
    trim (&value, &end);
    if (add_row (reader, strndup (begin, (size_t) (name_end - begin)), strndup (value, (size_t) (end - value))))
        return -1;
    reader->parent = reader->profiles->count;
    return 0;
}

int
profiles_parse (struct profiles *profiles, const char *path, const char *text, size_t length, bool is_credentials,
                struct fail *fail)
{
    struct reader reader = { .profiles = profiles, .is_credentials = is_credentials, .fail = fail };
    const char *end = text + length;
    int result = 0;
    *profiles = (struct profiles) { .path = strdup (path) };
    if (!profiles->path)
        return fail_nomem (fail);
    if (length >= 3 && !memcmp (text, "\xef\xbb\xbf", 3))
        text += 3;
    while (text < end && !result) {
        const char *newline = memchr (text, '\n', (size_t) (end - text));
        const char *stop = newline ? newline : end;
        reader.line++;
        result = memchr (text, '\0', (size_t) (stop - text)) ? refuse (&reader, "there is a zero byte")
                                                             : read_line (&reader, text, stop);
        text = stop + 1;
    }
    free (reader.section);
    if (result)
        profiles_release (profiles);
    return result;
}

int
profiles_read (struct profiles *profiles, const char *path, bool is_credentials, struct fail *fail)
{
    char *text = NULL;
    size_t length = 0;
    *profiles = (struct profiles) { 0 };
    /* To botocore, a file that cannot be read is missing. */
    if (access (path, R_OK) && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
        return profiles_parse (profiles, path, "", 0, is_credentials, fail);
    if (io_read_file (path, MOST_BYTES, &text, &length, fail))
        return -1;
    int result = profiles_parse (profiles, path, text, length, is_credentials, fail);
    explicit_bzero (text, length);
    free (text);
    return result;
}

const char *
profiles_get (const struct profiles *profiles, enum profiles_kind kind, const char *section, const char *name)
{
    for (size_t i = profiles->count; i-- > 0;) {
        const struct profiles_row *row = &profiles->rows[i];
        if (row->kind == kind && !strcmp (row->section, section) && !strcmp (row->name, name))
            return row->value;
    }
    return NULL;
}

void
profiles_release (struct profiles *profiles)
{
    for (size_t i = 0; i < profiles->count; i++) {
        free (profiles->rows[i].section);
        free (profiles->rows[i].name);
        keys_wipe (profiles->rows[i].value);
    }
    free (profiles->rows);
    free (profiles->path);
    *profiles = (struct profiles) { 0 };
}
