/* SPDX-License-Identifier: Apache-2.0 */
/* GPT-2's byte-pair encoding: a text becomes a file of tokens, and tokens become text.
 *
 *   tokenize VOCAB.JSON MERGES.TXT <TEXT >TOKENS.BIN            16-bit numbers, 32-bit if the vocabulary needs them
 *   tokenize VOCAB.JSON MERGES.TXT --decode <NUMBERS >TEXT      decimal numbers, as gpt writes them
 *
 * Both files are those of `transformers`.  R. Sennrich et al., "Neural Machine Translation of Rare Words with Subword
 * Units", 2016; the pattern of words and the letters for bytes are GPT-2's. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <jansson.h>
#include <pcre2.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 256 };

/* Two tokens that are next to each other become one; lower ranks first. */
struct merge {
    int32_t left, right, whole;
    size_t rank;
};

struct encoding {
    json_t *vocabulary;
    size_t size;
    int32_t bytes[BYTES]; /* the token of each byte */
    struct merge *merges; /* sorted by left and right */
    size_t merge_count;
};

__attribute__ ((format (printf, 1, 2), noreturn)) static void
die (const char *format, ...)
{
    va_list args;
    va_start (args, format);
    fputs ("tokenize: ", stderr);
    vfprintf (stderr, format, args);
    fputc ('\n', stderr);
    va_end (args);
    exit (EXIT_FAILURE);
}

static void *
grow (void *memory, size_t bytes)
{
    memory = realloc (memory, bytes);
    if (!memory)
        die ("out of memory");
    return memory;
}

static char *
read_all (FILE *file, const char *name, size_t *length)
{
    size_t room = 1 << 16;
    char *text = grow (NULL, room);
    *length = 0;
    for (size_t got; (got = fread (text + *length, 1, room - *length - 1, file)) > 0;) {
        *length += got;
        if (room - *length < 2)
            text = grow (text, room *= 2);
    }
    if (ferror (file))
        die ("%s: cannot read it", name);
    text[*length] = 0;
    return text;
}

/* ---- letters for bytes: those that can be seen are their own letters, the others have U+0100 ... ---- */

static int
letter_of_byte (int byte)
{
    int hidden = 0;
    for (int i = 0; i <= byte; i++) {
        bool is_visible = (i >= '!' && i <= '~') || (i >= 0xa1 && i <= 0xac) || i >= 0xae;
        if (i == byte && is_visible)
            return byte;
        hidden += !is_visible;
    }
    return BYTES + hidden - 1;
}

/* @return bytes written to @p text, in UTF-8 */
static size_t
put_letter (char *text, int letter)
{
    if (letter < 0x80) {
        text[0] = (char) letter;
        return 1;
    }
    text[0] = (char) (0xc0 | letter >> 6);
    text[1] = (char) (0x80 | (letter & 0x3f));
    return 2;
}

/* ---- the two files ---- */

static int32_t
find_token (const struct encoding *encoding, const char *text)
{
    const json_t *number = json_object_get (encoding->vocabulary, text);
    return json_is_integer (number) ? (int32_t) json_integer_value (number) : -1;
}

static void
read_vocabulary (struct encoding *encoding, const char *path)
{
    json_error_t error;
    const char *key;
    json_t *value;
    encoding->vocabulary = json_load_file (path, 0, &error);
    if (!encoding->vocabulary)
        die ("%s:%d: %s", path, error.line, error.text);
    json_object_foreach (encoding->vocabulary, key, value) {
        if (!json_is_integer (value) || json_integer_value (value) < 0 || json_integer_value (value) >= INT32_MAX)
            die ("%s: \"%s\": expected a token's number", path, key);
        if ((size_t) json_integer_value (value) >= encoding->size)
            encoding->size = (size_t) json_integer_value (value) + 1;
    }
    for (int i = 0; i < BYTES; i++) {
        char letter[3] = { 0 };
        put_letter (letter, letter_of_byte (i));
        encoding->bytes[i] = find_token (encoding, letter);
        if (encoding->bytes[i] < 0)
            die ("%s: no token \"%s\", which byte %d needs", path, letter, i);
    }
}

static int
compare_merges (const void *a, const void *b)
{
    const struct merge *one = a, *other = b;
    return one->left != other->left ? (one->left < other->left ? -1 : 1)
                                    : (one->right > other->right) - (one->right < other->right);
}

static void
read_merges (struct encoding *encoding, const char *path)
{
    FILE *file = fopen (path, "r");
    char *line = NULL;
    size_t room = 0, number = 0, capacity = 0;
    if (!file)
        die ("%s: cannot open it", path);
    while (getline (&line, &room, file) > 0) {
        number++;
        line[strcspn (line, "\r\n")] = 0;
        if (!*line || (number == 1 && line[0] == '#'))
            continue;
        char *space = strchr (line, ' ');
        if (!space || strchr (space + 1, ' '))
            die ("%s:%zu: expected two tokens", path, number);
        *space = 0;
        struct merge merge = { find_token (encoding, line), find_token (encoding, space + 1), 0, number };
        memmove (space, space + 1, strlen (space + 1) + 1);
        merge.whole = find_token (encoding, line);
        if (merge.left < 0 || merge.right < 0 || merge.whole < 0)
            die ("%s:%zu: the vocabulary lacks \"%s\", or a part of it", path, number, line);
        if (encoding->merge_count == capacity)
            encoding->merges = grow (encoding->merges, (capacity = capacity * 2 + 1024) * sizeof *encoding->merges);
        encoding->merges[encoding->merge_count++] = merge;
    }
    if (encoding->merge_count)
        qsort (encoding->merges, encoding->merge_count, sizeof *encoding->merges, compare_merges);
    free (line);
    fclose (file);
}

/* ---- text to tokens ---- */

static const struct merge *
find_merge (const struct encoding *encoding, int32_t left, int32_t right)
{
    const struct merge key = { .left = left, .right = right };
    return encoding->merge_count ? bsearch (&key, encoding->merges, encoding->merge_count, sizeof key, compare_merges)
                                 : NULL;
}

/* The pair of the lowest rank is merged wherever it occurs, until there is none.  @return how many tokens are left */
static size_t
merge_word (const struct encoding *encoding, int32_t *tokens, size_t count)
{
    for (;;) {
        const struct merge *best = NULL;
        for (size_t i = 0; i + 1 < count; i++) {
            const struct merge *merge = find_merge (encoding, tokens[i], tokens[i + 1]);
            if (merge && (!best || merge->rank < best->rank))
                best = merge;
        }
        if (!best)
            return count;
        size_t kept = 0;
        for (size_t i = 0; i < count; i++)
            if (i + 1 < count && tokens[i] == best->left && tokens[i + 1] == best->right) {
                tokens[kept++] = best->whole;
                i++;
            } else
                tokens[kept++] = tokens[i];
        count = kept;
    }
}

static void
write_tokens (const int32_t *tokens, size_t count, bool is_wide)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t token = (uint32_t) tokens[i];
        for (int byte = 0; byte < (is_wide ? 4 : 2); byte++)
            putchar ((int) (token >> 8 * byte & 0xff));
    }
}

static void
encode (const struct encoding *encoding)
{
    static const char pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    int error;
    size_t at, length, count = 0;
    char *text = read_all (stdin, "standard input", &length);
    pcre2_code *code = pcre2_compile ((PCRE2_SPTR) pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &error, &at,
                                      NULL);
    pcre2_match_data *match = code ? pcre2_match_data_create (1, NULL) : NULL;
    if (!match)
        die ("cannot compile the pattern of words");
    pcre2_jit_compile (code, PCRE2_JIT_COMPLETE);
    for (size_t begin = 0; begin < length;) {
        int found = pcre2_match (code, (PCRE2_SPTR) text, length, begin, begin ? PCRE2_NO_UTF_CHECK : 0, match, NULL);
        size_t end = found < 0 ? 0 : pcre2_get_ovector_pointer (match)[1];
        if (found < PCRE2_ERROR_NOMATCH)
            die ("the text is not UTF-8 from byte %zu on", pcre2_get_startchar (match));
        int32_t *tokens = grow (NULL, (end - begin) * sizeof *tokens);
        for (size_t i = begin; i < end; i++)
            tokens[i - begin] = encoding->bytes[(unsigned char) text[i]];
        size_t own = merge_word (encoding, tokens, end - begin);
        write_tokens (tokens, own, encoding->size > UINT16_MAX + 1);
        count += own;
        begin = end;
        free (tokens);
    }
    fprintf (stderr, "%zu bytes are %zu tokens\n", length, count);
    pcre2_match_data_free (match);
    pcre2_code_free (code);
    free (text);
}

/* ---- tokens to text ---- */

/* The bytes that have the letters of @p text. */
static void
write_bytes (const char *text)
{
    for (const unsigned char *next = (const unsigned char *) text; *next; next++) {
        int letter = *next;
        if (letter >= 0xc0 && next[1])
            letter = (letter & 0x1f) << 6 | (*++next & 0x3f);
        int byte = 0;
        while (byte < BYTES && letter_of_byte (byte) != letter)
            byte++;
        putchar (byte < BYTES ? byte : '?');
    }
}

static void
decode (const struct encoding *encoding)
{
    const char **texts = calloc (encoding->size, sizeof *texts), *key;
    json_t *value;
    long token;
    int got;
    if (!texts)
        die ("out of memory");
    json_object_foreach (encoding->vocabulary, key, value)
        texts[json_integer_value (value)] = key;
    while ((got = scanf ("%ld", &token)) == 1) {
        if (token < 0 || (size_t) token >= encoding->size || !texts[token])
            die ("%ld is no token of the vocabulary", token);
        write_bytes (texts[token]);
    }
    if (got == 0)
        die ("expected numbers on standard input");
    free (texts);
}

int
main (int argc, char **argv)
{
    struct encoding encoding = { 0 };
    bool decodes = argc == 4 && !strcmp (argv[3], "--decode");
    if (argc != 3 && !decodes)
        die ("usage: tokenize VOCAB.JSON MERGES.TXT [--decode] <INPUT >OUTPUT");
    read_vocabulary (&encoding, argv[1]);
    read_merges (&encoding, argv[2]);
    if (decodes)
        decode (&encoding);
    else
        encode (&encoding);
    if (fflush (stdout) || ferror (stdout))
        die ("cannot write the output");
    json_decref (encoding.vocabulary);
    free (encoding.merges);
    return 0;
}
