/* SPDX-License-Identifier: Apache-2.0 */
/* Reading Python's pickles (protocols 2 to 5) as data.  Nothing is imported or called: a pickle may name only what the
 * caller lists, and a "call" of a listed name becomes a value that names it.
 * Source of the format: Python's Lib/pickletools.py describes each opcode. */
#ifndef FILES_PICKLE_H
#define FILES_PICKLE_H

#include <accel/base.h>

/** Limits, above what PyTorch writes for the largest models, so that a small file cannot ask for much memory. */
enum {
    PICKLE_MAX_BYTES = 1 << 30,
    PICKLE_MAX_VALUES = 1 << 26,
    PICKLE_MAX_DEPTH = 1000, /* of open brackets */
};

/** What becomes of a call of a name. */
enum pickle_call {
    PICKLE_IS_CONSTANT,  /* cannot be called */
    PICKLE_MAKES_OBJECT, /* PICKLE_OBJECT with the arguments and the state that were given to it */
    PICKLE_MAKES_DICT,   /* as collections.OrderedDict: called without arguments */
    PICKLE_MAKES_TUPLE,  /* as torch.Size: called with one tuple */
};

/** A name that a pickle may use; the caller's table ends with a row whose module is NULL. */
struct pickle_name {
    const char *module;
    const char *name;
    enum pickle_call call;
    int id; /* the caller's */
};

enum pickle_type {
    PICKLE_NONE,
    PICKLE_BOOL,       /* integer: 0 or 1 */
    PICKLE_INT,        /* integer */
    PICKLE_FLOAT,      /* real */
    PICKLE_STR,        /* text[count]: UTF-8, not terminated, may contain 0 */
    PICKLE_BYTES,      /* text[count] */
    PICKLE_LIST,       /* items[count] */
    PICKLE_TUPLE,      /* items[count] */
    PICKLE_SET,        /* items[count] */
    PICKLE_DICT,       /* items[count]: key, value, key, value; a key may be there twice */
    PICKLE_NAME,       /* name */
    PICKLE_OBJECT,     /* name; items[0]: tuple of arguments; items[1]: state, or NULL */
    PICKLE_PERSISTENT, /* items[0]: what it refers to, for torch.save a tuple that describes a storage */
};

/** Values may be shared, and a value may contain itself: do not walk them by recursion without a limit. */
struct pickle_value {
    enum pickle_type type;
    const struct pickle_name *name;
    size_t count;
    union {
        int64_t integer;
        double real;
        const char *text;
        struct pickle_value **items;
    };
};

/** All zero is one that was not read. */
struct pickle {
    const struct pickle_value *root;
    struct pickle_block *blocks; /* all values */
    size_t value_count;
};

/**
 * Read one pickle that fills @p text.
 *
 * @param text   [length]; must live as long as the values, which point into it
 * @param names  what the pickle may name; any other name is refused, in a message that says which
 */
enum accel_status pickle_read (struct pickle *pickle, const char *text, size_t length, const struct pickle_name *names,
                               struct accel_error *err);

/** Free all values; also after pickle_read() failed. */
void pickle_release (struct pickle *pickle);

/** @return whether @p value (nullable) is the string @p text. */
bool pickle_is_text (const struct pickle_value *value, const char *text);

/** @return the value of the key @p key of a dict, the last one as in Python; NULL if @p dict (nullable) is something
 *  else or lacks it. */
const struct pickle_value *pickle_find (const struct pickle_value *dict, const char *key);

/** @return a copy of a string without 0 in it, which the caller frees; NULL otherwise, or if there is no memory. */
char *pickle_copy_text (const struct pickle_value *value);

#endif
