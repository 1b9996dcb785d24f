/* SPDX-License-Identifier: Apache-2.0 */
/* Python's pickles as data; see pickle.h.  A pickle is a program for a stack machine; this one has no operation that
 * imports or calls anything, and it never recurses. */
#include <config.h>

#include "files/pickle.h"

#include "files/error.h"
#include "util/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_VALUES = 512 };

struct pickle_block {
    struct pickle_block *next;
    size_t used;
    struct pickle_value values[BLOCK_VALUES];
};

struct machine {
    struct pickle *pickle;
    const unsigned char *text;
    size_t length;
    size_t at;     /* the next byte */
    size_t opcode; /* where the current operation begins */
    unsigned char op; /* the operation */
    const struct pickle_name *names;
    struct pickle_value **stack;
    size_t depth, room;
    size_t marks[PICKLE_MAX_DEPTH]; /* depths of the stack */
    size_t mark_count;
    struct pickle_value **memo; /* NULL if nothing was stored */
    size_t memo_count, memo_room;
    bool stopped;
    struct accel_error *err;
};

/* Fail at the current operation. */
#define fail_here(m, ...) accel_fail_at ((m)->err, (m)->opcode, " of the pickle", __VA_ARGS__)

static struct pickle_value none = { .type = PICKLE_NONE };
static struct pickle_value truths[2] = { { .type = PICKLE_BOOL }, { .type = PICKLE_BOOL, .integer = 1 } };

static enum accel_status
fail_memory (const struct machine *m)
{
    return accel_fail (m->err, ACCEL_ERR_NOMEM, "cannot allocate memory for a pickle of %zu bytes", m->length);
}

/* ---- bytes ---- */

/* *bytes is NULL after a failure. */
static enum accel_status
take (struct machine *m, uint64_t count, const unsigned char **bytes)
{
    *bytes = NULL;
    if (count > m->length - m->at)
        return fail_here (m, "unexpected end");
    *bytes = m->text + m->at;
    m->at += (size_t) count;
    return ACCEL_OK;
}

/* An unsigned number of up to 8 bytes, little-endian. */
static enum accel_status
take_number (struct machine *m, unsigned size, uint64_t *number)
{
    const unsigned char *bytes;
    enum accel_status status = take (m, size, &bytes);
    *number = 0;
    for (unsigned i = size; !status && i--;)
        *number = *number << 8 | bytes[i];
    return status;
}

/* ---- values and the stack ---- */

static struct pickle_value *
new_value (struct machine *m, enum pickle_type type)
{
    struct pickle *pickle = m->pickle;
    struct pickle_block *block = pickle->blocks;
    if (pickle->value_count >= PICKLE_MAX_VALUES) {
        fail_here (m, "more than %d values", PICKLE_MAX_VALUES);
        return NULL;
    }
    if (!block || block->used == BLOCK_VALUES) {
        block = malloc (sizeof *block);
        if (!block) {
            fail_memory (m);
            return NULL;
        }
        block->next = pickle->blocks;
        block->used = 0;
        pickle->blocks = block;
    }
    pickle->value_count++;
    struct pickle_value *value = &block->values[block->used++];
    *value = (struct pickle_value){ .type = type };
    return value;
}

/* What new_value() has said. */
static enum accel_status
fail_value (const struct machine *m)
{
    return m->err ? m->err->code : ACCEL_ERR_FORMAT;
}

/* Room for one more pointer in an array that doubles. */
static enum accel_status
grow (const struct machine *m, struct pickle_value ***array, size_t *room, size_t needed)
{
    size_t more = *room ? *room : 64;
    if (needed <= *room)
        return ACCEL_OK;
    while (more < needed)
        more *= 2; /* needed is at most a few times the bytes of the pickle */
    struct pickle_value **moved = realloc (*array, more * sizeof **array);
    if (!moved)
        return fail_memory (m);
    *array = moved;
    *room = more;
    return ACCEL_OK;
}

static enum accel_status
push (struct machine *m, struct pickle_value *value)
{
    if (!value)
        return fail_value (m);
    enum accel_status status = grow (m, &m->stack, &m->room, m->depth + 1);
    if (!status)
        m->stack[m->depth++] = value;
    return status;
}

/* How many values are above the last mark. */
static size_t
available (const struct machine *m)
{
    return m->depth - (m->mark_count ? m->marks[m->mark_count - 1] : 0);
}

static enum accel_status
need (const struct machine *m, size_t count)
{
    return available (m) >= count ? ACCEL_OK : fail_here (m, "the stack is empty");
}

/* The value below the last @p down ones; NULL and an error if there is none, or it is of a different type. */
static struct pickle_value *
peek (const struct machine *m, size_t down, enum pickle_type type, const char *what)
{
    if (need (m, down + 1))
        return NULL;
    struct pickle_value *value = m->stack[m->depth - 1 - down];
    if (value->type == type)
        return value;
    fail_here (m, "expected %s", what);
    return NULL;
}

/* Remove the last mark.  @param[out] count  how many values are above it; they stay on the stack */
static enum accel_status
pop_mark (struct machine *m, size_t *count)
{
    *count = 0;
    if (!m->mark_count)
        return fail_here (m, "no mark");
    *count = available (m);
    m->mark_count--;
    return ACCEL_OK;
}

/* Move the last @p count values of the stack to the end of @p into.  The room of its items is not stored: it is the
 * first power of two from 4 on that holds them. */
static enum accel_status
move_items (struct machine *m, struct pickle_value *into, size_t count)
{
    size_t room = into->count ? 4 : 0;
    while (room && room < into->count)
        room *= 2;
    if (into->count + count > room) {
        size_t more = 4;
        while (more < into->count + count)
            more *= 2;
        struct pickle_value **moved = realloc (into->items, more * sizeof *moved);
        if (!moved)
            return fail_memory (m);
        into->items = moved;
    }
    m->depth -= count;
    for (size_t i = 0; i < count; i++)
        into->items[into->count++] = m->stack[m->depth + i];
    return ACCEL_OK;
}

/* A new collection of the last @p count values, in their place. */
static enum accel_status
collect (struct machine *m, enum pickle_type type, size_t count)
{
    enum accel_status status = need (m, count);
    if (status)
        return status;
    if (type == PICKLE_DICT && count % 2)
        return fail_here (m, "a key without a value");
    struct pickle_value *value = new_value (m, type);
    if (!value)
        return fail_value (m);
    status = move_items (m, value, count);
    return status ? status : push (m, value);
}

/* ---- operations: m->at is after the opcode ---- */

static enum accel_status
do_proto (struct machine *m)
{
    uint64_t version;
    enum accel_status status = take_number (m, 1, &version);
    if (!status && (version < 2 || version > 5))
        status = fail_here (m, "protocol %u; expected 2 to 5", (unsigned) version);
    return status;
}

static enum accel_status
do_frame (struct machine *m)
{
    uint64_t length;
    enum accel_status status = take_number (m, 8, &length);
    if (!status && length > m->length - m->at)
        status = fail_here (m, "a frame of %llu bytes, but only %zu are left", (unsigned long long) length,
                            m->length - m->at);
    return status;
}

static enum accel_status
do_stop (struct machine *m)
{
    if (m->depth != 1 || m->mark_count)
        return fail_here (m, "the end, but the stack holds %zu values", m->depth);
    m->stopped = true;
    m->pickle->root = m->stack[0];
    return ACCEL_OK;
}

static enum accel_status
do_mark (struct machine *m)
{
    if (m->mark_count == PICKLE_MAX_DEPTH)
        return fail_here (m, "nested more than %d levels deep", PICKLE_MAX_DEPTH);
    m->marks[m->mark_count++] = m->depth;
    return ACCEL_OK;
}

static enum accel_status
do_pop (struct machine *m)
{
    size_t count = 1;
    enum accel_status status = m->op == '1' ? pop_mark (m, &count) : need (m, 1);
    if (!status)
        m->depth -= count;
    return status;
}

static enum accel_status
do_dup (struct machine *m)
{
    enum accel_status status = need (m, 1);
    return status ? status : push (m, m->stack[m->depth - 1]);
}

static enum accel_status
do_constant (struct machine *m)
{
    return push (m, m->op == 'N' ? &none : &truths[m->op == 0x88]);
}

static enum accel_status
push_integer (struct machine *m, int64_t integer)
{
    struct pickle_value *value = new_value (m, PICKLE_INT);
    if (value)
        value->integer = integer;
    return push (m, value);
}

static enum accel_status
do_integer (struct machine *m)
{
    uint64_t number;
    enum accel_status status = take_number (m, m->op == 'J' ? 4 : m->op == 'M' ? 2 : 1, &number);
    return status ? status : push_integer (m, m->op == 'J' ? (int32_t) (uint32_t) number : (int64_t) number);
}

/* LONG1 and LONG4: a number of that many bytes, two's complement.  Nothing that we read needs more than 64 bits. */
static enum accel_status
do_long (struct machine *m)
{
    uint64_t size, number = 0;
    enum accel_status status = take_number (m, m->op == 0x8a ? 1 : 4, &size);
    if (!status && size > 8)
        return fail_here (m, "an integer of %llu bytes; the maximum is 8", (unsigned long long) size);
    if (!status)
        status = take_number (m, (unsigned) size, &number);
    if (!status && size && size < 8 && number >> (8 * size - 1))
        number |= ~UINT64_C (0) << 8 * size;
    return status ? status : push_integer (m, (int64_t) number);
}

static enum accel_status
do_float (struct machine *m)
{
    const unsigned char *bytes;
    uint64_t bits = 0;
    enum accel_status status = take (m, 8, &bytes); /* big-endian */
    for (int i = 0; !status && i < 8; i++)
        bits = bits << 8 | bytes[i];
    struct pickle_value *value = status ? NULL : new_value (m, PICKLE_FLOAT);
    if (value)
        memcpy (&value->real, &bits, sizeof bits);
    return status ? status : push (m, value);
}

static enum accel_status
push_string (struct machine *m, enum pickle_type type, unsigned size_bytes)
{
    const unsigned char *bytes = NULL;
    uint64_t size;
    enum accel_status status = take_number (m, size_bytes, &size);
    if (!status)
        status = take (m, size, &bytes);
    if (status)
        return status;
    if (type == PICKLE_STR && !utf8_is_valid ((const char *) bytes, (size_t) size))
        return fail_here (m, "a string that is not valid UTF-8");
    struct pickle_value *value = new_value (m, type);
    if (value) {
        value->text = (const char *) bytes;
        value->count = (size_t) size;
    }
    return push (m, value);
}

static enum accel_status
do_string (struct machine *m)
{
    return push_string (m, PICKLE_STR, m->op == 'X' ? 4 : m->op == 0x8c ? 1 : 8);
}

static enum accel_status
do_bytes (struct machine *m)
{
    return push_string (m, PICKLE_BYTES, m->op == 'B' ? 4 : m->op == 'C' ? 1 : 8);
}

static enum accel_status
do_empty (struct machine *m)
{
    unsigned char op = m->op;
    return collect (m, op == ']' ? PICKLE_LIST : op == ')' ? PICKLE_TUPLE : op == '}' ? PICKLE_DICT : PICKLE_SET, 0);
}

/* Everything above the mark. */
static enum accel_status
do_collect (struct machine *m)
{
    size_t count;
    enum accel_status status = pop_mark (m, &count);
    if (status)
        return status;
    unsigned char op = m->op;
    return collect (m, op == 'l' ? PICKLE_LIST : op == 't' ? PICKLE_TUPLE : op == 'd' ? PICKLE_DICT : PICKLE_SET,
                    count);
}

static enum accel_status
do_short_tuple (struct machine *m)
{
    return collect (m, PICKLE_TUPLE, m->op - 0x84u);
}

/* Append to the list, set or dict below: one value ('a'), one pair ('s'), or everything above the mark. */
static enum accel_status
do_append (struct machine *m)
{
    bool is_dict = m->op == 's' || m->op == 'u';
    size_t count = is_dict ? 2 : 1;
    enum accel_status status = m->op == 'a' || m->op == 's' ? need (m, count) : pop_mark (m, &count);
    if (status)
        return status;
    struct pickle_value *into = is_dict        ? peek (m, count, PICKLE_DICT, "a dict below")
                                : m->op == 0x90 ? peek (m, count, PICKLE_SET, "a set below")
                                               : peek (m, count, PICKLE_LIST, "a list below");
    if (!into)
        return fail_value (m);
    if (is_dict && count % 2)
        return fail_here (m, "a key without a value");
    return move_items (m, into, count);
}

/* ---- the memo ---- */

static enum accel_status
remember (struct machine *m, uint64_t index)
{
    enum accel_status status = need (m, 1);
    if (status)
        return status;
    if (index >= m->length) /* each takes at least a byte: a larger number only asks for memory */
        return fail_here (m, "memo index %llu is too large", (unsigned long long) index);
    if ((status = grow (m, &m->memo, &m->memo_room, (size_t) index + 1)))
        return status;
    while (m->memo_count <= index)
        m->memo[m->memo_count++] = NULL;
    m->memo[index] = m->stack[m->depth - 1];
    return ACCEL_OK;
}

static enum accel_status
do_put (struct machine *m)
{
    uint64_t index = m->memo_count;
    enum accel_status status = m->op == 0x94 ? ACCEL_OK : take_number (m, m->op == 'q' ? 1 : 4, &index);
    return status ? status : remember (m, index);
}

static enum accel_status
do_get (struct machine *m)
{
    uint64_t index;
    enum accel_status status = take_number (m, m->op == 'h' ? 1 : 4, &index);
    if (status)
        return status;
    if (index >= m->memo_count || !m->memo[index])
        return fail_here (m, "memo %llu was never stored", (unsigned long long) index);
    return push (m, m->memo[index]);
}

/* ---- names and what is built with them ---- */

static bool
same_text (const char *text, size_t length, const char *wanted)
{
    return strlen (wanted) == length && !memcmp (text, wanted, length);
}

static int
shown (size_t length)
{
    return length < 100 ? (int) length : 100;
}

static enum accel_status
push_name (struct machine *m, const char *module, size_t module_length, const char *name, size_t name_length)
{
    for (const struct pickle_name *row = m->names; row->module; row++)
        if (same_text (module, module_length, row->module) && same_text (name, name_length, row->name)) {
            struct pickle_value *value = new_value (m, PICKLE_NAME);
            if (value)
                value->name = row;
            return push (m, value);
        }
    return fail_here (m, "refers to '%.*s.%.*s', which is not allowed in weights: nothing was executed",
                      shown (module_length), module, shown (name_length), name);
}

/* GLOBAL: two lines. */
static enum accel_status
do_global (struct machine *m)
{
    const char *lines[2];
    size_t lengths[2];
    for (int i = 0; i < 2; i++) {
        const unsigned char *begin = m->text + m->at, *end = memchr (begin, '\n', m->length - m->at);
        if (!end)
            return fail_here (m, "unexpected end");
        lines[i] = (const char *) begin;
        lengths[i] = (size_t) (end - begin);
        m->at += lengths[i] + 1;
    }
    return push_name (m, lines[0], lengths[0], lines[1], lengths[1]);
}

static enum accel_status
do_stack_global (struct machine *m)
{
    const struct pickle_value *name = peek (m, 0, PICKLE_STR, "the name as a string");
    const struct pickle_value *module = name ? peek (m, 1, PICKLE_STR, "the module as a string") : NULL;
    if (!module)
        return fail_value (m);
    m->depth -= 2;
    return push_name (m, module->text, module->count, name->text, name->count);
}

/* REDUCE and NEWOBJ: a name and a tuple of arguments.  Nothing is called. */
static enum accel_status
do_call (struct machine *m)
{
    struct pickle_value *args = peek (m, 0, PICKLE_TUPLE, "a tuple of arguments");
    struct pickle_value *what = args ? peek (m, 1, PICKLE_NAME, "a name to call") : NULL, *made;
    if (!what)
        return fail_value (m);
    const struct pickle_name *name = what->name;
    if (name->call == PICKLE_IS_CONSTANT)
        return fail_here (m, "calls '%s.%s', which cannot be called", name->module, name->name);
    if (name->call == PICKLE_MAKES_TUPLE) {
        if (args->count != 1 || args->items[0]->type != PICKLE_TUPLE)
            return fail_here (m, "'%s.%s' expects one tuple", name->module, name->name);
        made = args->items[0];
    } else if (name->call == PICKLE_MAKES_DICT) {
        if (args->count)
            return fail_here (m, "'%s.%s' expects no arguments", name->module, name->name);
        made = new_value (m, PICKLE_DICT);
    } else {
        made = new_value (m, PICKLE_OBJECT);
        if (made) {
            made->name = name;
            m->depth--;
            m->stack[m->depth - 1] = args;
            return move_items (m, made, 1) || push (m, made) ? fail_value (m) : ACCEL_OK;
        }
    }
    m->depth -= 2;
    return push (m, made);
}

/* BUILD: the state of the object below.  That of a dict has its attributes, such as the `_metadata` of a model's state,
 * which are not data. */
static enum accel_status
do_build (struct machine *m)
{
    if (m->depth > 1 && available (m) > 1 && m->stack[m->depth - 2]->type == PICKLE_DICT) {
        m->depth--;
        return ACCEL_OK;
    }
    struct pickle_value *object = peek (m, 1, PICKLE_OBJECT, "an object below its state");
    if (!object)
        return fail_value (m);
    if (object->count > 1)
        return fail_here (m, "an object with two states");
    return move_items (m, object, 1);
}

static enum accel_status
do_persistent (struct machine *m)
{
    return collect (m, PICKLE_PERSISTENT, 1);
}

/* The operations of protocols 2 to 5 that data need.  Absent: the text forms of protocols 0 and 1, Python 2's strings,
 * EXT (numbers for names), INST, OBJ, PERSID, NEWOBJ_EX, and buffers outside the pickle. */
static enum accel_status (*const operations[256]) (struct machine *m) = {
    [0x80] = do_proto,   [0x95] = do_frame,       ['.'] = do_stop,      ['('] = do_mark,      ['0'] = do_pop,
    ['1'] = do_pop,      ['2'] = do_dup,          ['N'] = do_constant,  [0x88] = do_constant, [0x89] = do_constant,
    ['J'] = do_integer,  ['K'] = do_integer,      ['M'] = do_integer,   [0x8a] = do_long,     [0x8b] = do_long,
    ['G'] = do_float,    ['X'] = do_string,       [0x8c] = do_string,   [0x8d] = do_string,   ['B'] = do_bytes,
    ['C'] = do_bytes,    [0x8e] = do_bytes,       [0x96] = do_bytes,    [']'] = do_empty,     [')'] = do_empty,
    ['}'] = do_empty,    [0x8f] = do_empty,       ['l'] = do_collect,   ['t'] = do_collect,   ['d'] = do_collect,
    [0x91] = do_collect, [0x85] = do_short_tuple, [0x86] = do_short_tuple, [0x87] = do_short_tuple,
    ['a'] = do_append,   ['e'] = do_append,       ['s'] = do_append,    ['u'] = do_append,    [0x90] = do_append,
    ['q'] = do_put,      ['r'] = do_put,          [0x94] = do_put,      ['h'] = do_get,       ['j'] = do_get,
    ['c'] = do_global,   [0x93] = do_stack_global, ['R'] = do_call,     [0x81] = do_call,     ['b'] = do_build,
    ['Q'] = do_persistent,
};

static enum accel_status
run (struct machine *m)
{
    enum accel_status status = ACCEL_OK;
    while (!status && !m->stopped) {
        const unsigned char *op;
        m->opcode = m->at;
        if ((status = take (m, 1, &op)))
            break;
        m->op = *op;
        status = operations[*op] ? operations[*op](m) : fail_here (m, "operation 0x%02x is not supported", *op);
    }
    if (!status && m->at != m->length)
        status = accel_fail (m->err, ACCEL_ERR_FORMAT, "%zu bytes after the end of the pickle", m->length - m->at);
    return status;
}

enum accel_status
pickle_read (struct pickle *pickle, const char *text, size_t length, const struct pickle_name *names,
             struct accel_error *err)
{
    struct accel_error unused;
    *pickle = (struct pickle){ 0 };
    if (!err)
        err = &unused; /* its code is read here */
    if (length > PICKLE_MAX_BYTES)
        return accel_fail (err, ACCEL_ERR_FORMAT, "a pickle of %zu bytes; the maximum is %d", length,
                           PICKLE_MAX_BYTES);
    struct machine *m = calloc (1, sizeof *m);
    if (!m)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a pickle");
    m->pickle = pickle;
    m->text = (const unsigned char *) text;
    m->length = length;
    m->names = names;
    m->err = err;
    enum accel_status status = run (m);
    free (m->stack);
    free (m->memo);
    free (m);
    if (status)
        pickle_release (pickle);
    return status;
}

static bool
has_items (const struct pickle_value *value)
{
    return (value->type >= PICKLE_LIST && value->type <= PICKLE_DICT) || value->type >= PICKLE_OBJECT;
}

void
pickle_release (struct pickle *pickle)
{
    int saved = errno;
    for (struct pickle_block *block = pickle->blocks, *next; block; block = next) {
        next = block->next;
        for (size_t i = 0; i < block->used; i++)
            if (has_items (&block->values[i]))
                free (block->values[i].items);
        free (block);
    }
    *pickle = (struct pickle){ 0 };
    errno = saved;
}

bool
pickle_is_text (const struct pickle_value *value, const char *text)
{
    return value && value->type == PICKLE_STR && same_text (value->text, value->count, text);
}

const struct pickle_value *
pickle_find (const struct pickle_value *dict, const char *key)
{
    if (dict && dict->type == PICKLE_DICT)
        for (size_t i = dict->count; i >= 2; i -= 2)
            if (pickle_is_text (dict->items[i - 2], key))
                return dict->items[i - 1];
    return NULL;
}

char *
pickle_copy_text (const struct pickle_value *value)
{
    errno = 0;
    if (!value || value->type != PICKLE_STR || memchr (value->text, '\0', value->count))
        return NULL;
    return strndup (value->text, value->count);
}
