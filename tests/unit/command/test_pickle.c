/* SPDX-License-Identifier: Apache-2.0 */
/* Pickles are read as data: what is known becomes values, and whatever else there is, is refused by name. */
#include <config.h>

#include "files/pickle.h"
#include "tests/tap.h"
#include "util/strbuf.h"

#include <stdlib.h>

static const struct pickle_name names[] = {
    { "torch", "float32", PICKLE_IS_CONSTANT, 1 },
    { "torch", "Size", PICKLE_MAKES_TUPLE, 2 },
    { "collections", "OrderedDict", PICKLE_MAKES_DICT, 3 },
    { "m", "Object", PICKLE_MAKES_OBJECT, 4 },
    { 0 },
};

/* Values as text; shared ones are written each time. */
static void
show (struct strbuf *out, const struct pickle_value *value, int depth)
{
    static const char *const open[] = { [PICKLE_LIST] = "[", [PICKLE_TUPLE] = "(", [PICKLE_SET] = "<",
                                        [PICKLE_DICT] = "{", [PICKLE_OBJECT] = "!", [PICKLE_PERSISTENT] = "@" };
    static const char *const close[] = { [PICKLE_LIST] = "]", [PICKLE_TUPLE] = ")", [PICKLE_SET] = ">",
                                         [PICKLE_DICT] = "}", [PICKLE_OBJECT] = "", [PICKLE_PERSISTENT] = "" };
    if (depth > 10)
        strbuf_add (out, "...");
    else if (value->type == PICKLE_NONE)
        strbuf_add (out, "None");
    else if (value->type == PICKLE_BOOL)
        strbuf_add (out, value->integer ? "True" : "False");
    else if (value->type == PICKLE_INT)
        strbuf_printf (out, "%lld", (long long) value->integer);
    else if (value->type == PICKLE_FLOAT)
        strbuf_printf (out, "%g", value->real);
    else if (value->type == PICKLE_STR || value->type == PICKLE_BYTES)
        strbuf_printf (out, "%s'%.*s'", value->type == PICKLE_BYTES ? "b" : "", (int) value->count, value->text);
    else if (value->type == PICKLE_NAME)
        strbuf_printf (out, "%s.%s", value->name->module, value->name->name);
    else {
        if (value->type == PICKLE_OBJECT)
            strbuf_add (out, value->name->name);
        strbuf_add (out, open[value->type]);
        for (size_t i = 0; i < value->count; i++) {
            strbuf_add (out, i ? "," : "");
            show (out, value->items[i], depth + 1);
        }
        strbuf_add (out, close[value->type]);
    }
}

#define TEXT(literal) (literal), sizeof (literal) - 1

static const struct {
    const char *what, *text;
    size_t length;
    const char *wanted; /* the value */
} good[] = {
    { "constants", TEXT ("\x80\2(N\x88\x89t."), "(None,True,False)" },
    { "integers", TEXT ("\x80\2(K\xffM\xff\xffJ\xff\xff\xff\xffJ\0\0\0\x80t."), "(255,65535,-1,-2147483648)" },
    { "long integers", TEXT ("\x80\2(\x8a\0\x8a\1\xff\x8a\1\x7f\x8a\5\0\0\0\0\1\x8b\1\0\0\0\x80t."),
      "(0,-1,127,4294967296,-128)" },
    { "a long integer of 8 bytes", TEXT ("\x80\2\x8a\x8\0\0\0\0\0\0\0\x80."), "-9223372036854775808" },
    { "a float", TEXT ("\x80\2G\x3f\xf8\0\0\0\0\0\0."), "1.5" },
    { "strings", TEXT ("\x80\4(\x8c\2abX\1\0\0\0c\x8d\1\0\0\0\0\0\0\0dt."), "('ab','c','d')" },
    { "bytes", TEXT ("\x80\4(C\2abB\1\0\0\0c\x8e\1\0\0\0\0\0\0\0d\x96\1\0\0\0\0\0\0\0et."), "(b'ab',b'c',b'd',b'e')" },
    { "a list that grows", TEXT ("\x80\2](K\1K\2K\3eK\4a(K\5K\6e."), "[1,2,3,4,5,6]" },
    { "lists, dicts and sets from a mark", TEXT ("\x80\4((K\1l(K\1K\2d(K\3\x91t."), "([1],{1,2},<3>)" },
    { "a dict", TEXT ("\x80\2}(K\1K\2K\3K\4uK\5K\6s."), "{1,2,3,4,5,6}" },
    { "a set", TEXT ("\x80\4\x8f(K\1K\2\x90."), "<1,2>" },
    { "short tuples", TEXT ("\x80\2(K\1\x85K\1K\2\x86K\1K\2K\3\x87)t."), "((1),(1,2),(1,2,3),())" },
    { "the memo", TEXT ("\x80\4]q\0r\1\0\0\0\x94\60h\0j\1\0\0\0h\2\x87."), "([],[],[])" },
    { "memoize counts", TEXT ("\x80\4(K\1\x94K\2\x94h\1h\0t."), "(1,2,2,1)" },
    { "a list in itself", TEXT ("\x80\2]q\0h\0a."), "[[[[[[[[[[[...]]]]]]]]]]]" },
    { "pop, pop a mark, and dup", TEXT ("\x80\2K\1K\2\60(K\3K\4\61\62\x86."), "(1,1)" },
    { "a name in two lines", TEXT ("\x80\2ctorch\nfloat32\n."), "torch.float32" },
    { "a name on the stack", TEXT ("\x80\4\x8c\5torch\x8c\7float32\x93."), "torch.float32" },
    { "a size is a tuple", TEXT ("\x80\2ctorch\nSize\nK\3\x85\x85R."), "(3)" },
    { "an ordered dict is a dict", TEXT ("\x80\2ccollections\nOrderedDict\n)RK\1K\2s."), "{1,2}" },
    { "an object is its arguments and its state", TEXT ("\x80\2cm\nObject\nK\1\x85R}b."), "Object!(1),{}" },
    { "the same by its constructor", TEXT ("\x80\2cm\nObject\n)\x81."), "Object!()" },
    { "a persistent name", TEXT ("\x80\2K\7Q."), "@7" },
    { "a frame", TEXT ("\x80\4\x95\2\0\0\0\0\0\0\0N."), "None" },
};

static const struct {
    const char *what, *text;
    size_t length;
    const char *wanted; /* in the message */
} bad[] = {
    { "nothing", TEXT (""), "unexpected end" },
    { "no stop", TEXT ("\x80\2N"), "unexpected end" },
    { "text after the end", TEXT ("\x80\2N.N"), "1 bytes after the end" },
    { "os.system", TEXT ("\x80\2cos\nsystem\nX\2\0\0\0id\x85R."), "'os.system', which is not allowed" },
    { "os.system by the stack", TEXT ("\x80\4\x8c\2os\x8c\6system\x93."), "'os.system', which is not allowed" },
    { "builtins.eval", TEXT ("\x80\2cbuiltins\neval\n."), "'builtins.eval'" },
    { "a name of a part of a module", TEXT ("\x80\2ctorch.\nfloat32\n."), "'torch..float32'" },
    { "a name that begins as a known one", TEXT ("\x80\2ctorch\nfloat\n."), "'torch.float'" },
    { "a name with more letters than a known one", TEXT ("\x80\2ctorch\nfloat3\n"), "'torch.float3'" },
    { "half a name", TEXT ("\x80\2ctorch\nfloat32"), "unexpected end" },
    { "a call of a constant", TEXT ("\x80\2ctorch\nfloat32\n)R."), "'torch.float32', which cannot be called" },
    { "a call of a number", TEXT ("\x80\2K\1)R."), "expected a name to call" },
    { "a call without a tuple", TEXT ("\x80\2cm\nObject\nK\1R."), "expected a tuple of arguments" },
    { "a size of a number", TEXT ("\x80\2ctorch\nSize\nK\3\x85R."), "expects one tuple" },
    { "an ordered dict with arguments", TEXT ("\x80\2ccollections\nOrderedDict\nK\1\x85R."), "expects no arguments" },
    { "a state for a list", TEXT ("\x80\2]}b."), "expected an object" },
    { "two states", TEXT ("\x80\2cm\nObject\n)R}b}b."), "two states" },
    { "protocol 0", TEXT ("I1\n."), "operation 0x49 is not supported" },
    { "protocol 1 by number", TEXT ("\x80\1N."), "protocol 1" },
    { "protocol 6", TEXT ("\x80\6N."), "protocol 6" },
    { "an extension's number", TEXT ("\x80\2\x82\1."), "operation 0x82 is not supported" },
    { "INST", TEXT ("(ios\nsystem\n."), "operation 0x69 is not supported" },
    { "OBJ", TEXT ("(N\x6f."), "operation 0x6f is not supported" },
    { "a huge integer", TEXT ("\x80\2\x8b\xff\xff\xff\x7f\1."), "an integer of 2147483647 bytes" },
    { "an integer of 9 bytes", TEXT ("\x80\2\x8a\x9\1\1\1\1\1\1\1\1\1."), "an integer of 9 bytes" },
    { "a string of 4 GiB", TEXT ("\x80\2X\xff\xff\xff\xff" "a."), "unexpected end" },
    { "a string of 2^64 bytes", TEXT ("\x80\4\x8d\xff\xff\xff\xff\xff\xff\xff\xff" "a."), "unexpected end" },
    { "a string in Latin-1", TEXT ("\x80\2X\1\0\0\0\xe9."), "not valid UTF-8" },
    { "a frame that is too long", TEXT ("\x80\4\x95\xff\xff\xff\xff\xff\xff\xff\xffN."), "a frame of" },
    { "an empty stack", TEXT ("\x80\2."), "the stack holds 0 values" },
    { "two values", TEXT ("\x80\2NN."), "the stack holds 2 values" },
    { "an open mark", TEXT ("\x80\2N(."), "the stack holds 1 values" },
    { "no mark", TEXT ("\x80\2Nt."), "no mark" },
    { "pop of nothing", TEXT ("\x80\2\60."), "the stack is empty" },
    { "pop through a mark", TEXT ("\x80\2N(\60."), "the stack is empty" },
    { "dup of nothing", TEXT ("\x80\2\62."), "the stack is empty" },
    { "a tuple through a mark", TEXT ("\x80\2N(\x85."), "the stack is empty" },
    { "append to a tuple", TEXT ("\x80\2)Na."), "expected a list below" },
    { "appends without a list", TEXT ("\x80\2(Ne."), "the stack is empty" },
    { "a key without a value", TEXT ("\x80\2}(Nu."), "a key without a value" },
    { "a dict of one", TEXT ("\x80\2(Nd."), "a key without a value" },
    { "an unknown memo", TEXT ("\x80\2h\0."), "memo 0 was never stored" },
    { "a hole in the memo", TEXT ("\x80\2Nq\5h\4\x86."), "memo 4 was never stored" },
    { "a memo index that takes memory", TEXT ("\x80\2Nr\xff\xff\xff\x7f."), "memo index 2147483647 is too large" },
};

static void
test_good (void)
{
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        AUTO_STRBUF struct strbuf out = { 0 };
        struct pickle pickle;
        struct accel_error err = { 0 };
        if (ok (!pickle_read (&pickle, good[i].text, good[i].length, names, &err), "%s: read", good[i].what)) {
            show (&out, pickle.root, 0);
            is_text (out.text, good[i].wanted, good[i].what);
        } else
            diag ("%s", err.text);
        pickle_release (&pickle);
    }
}

static void
test_bad (void)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct pickle pickle;
        struct accel_error err = { 0 };
        enum accel_status status = pickle_read (&pickle, bad[i].text, bad[i].length, names, &err);
        if (!ok (status == ACCEL_ERR_FORMAT && strstr (err.text, bad[i].wanted) && !pickle.root && !pickle.blocks,
                 "refused: %s", bad[i].what))
            diag ("status %d, '%s', expected '%s'", status, err.text, bad[i].wanted);
        ok (pickle_read (&pickle, bad[i].text, bad[i].length, names, NULL) == status, "%s, without an error object",
            bad[i].what);
    }
}

/* Each first part of a good pickle is refused, without reading after its end. */
static void
test_truncated (void)
{
    int wrong = 0;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        for (size_t length = 0; length < good[i].length; length++) {
            struct pickle pickle;
            char *part = malloc (length + 1); /* exact, for sanitizers */
            char *exact = realloc (part, length ? length : 1);
            memcpy (exact, good[i].text, length);
            wrong += !pickle_read (&pickle, exact, length, names, NULL);
            pickle_release (&pickle);
            free (exact);
        }
    ok (!wrong, "truncated pickles are refused");
}

static void
test_deep (void)
{
    enum { LEVELS = 3000000 };
    struct pickle pickle;
    struct accel_error err = { 0 };
    char *text = malloc (2 * LEVELS + 3);
    memset (text, '(', LEVELS);
    ok (pickle_read (&pickle, text, LEVELS, names, &err)
            && strstr (err.text, "byte 1000 of the pickle: nested more than 1000 levels"),
        "brackets that never close");
    text[0] = 'N';
    ok (pickle_read (&pickle, text, LEVELS, names, &err)
            && strstr (err.text, "byte 1001 of the pickle: nested more than 1000 levels"),
        "brackets after a value that never close");
    memcpy (text, "\x80\2", 2);
    memset (text + 2, ']', LEVELS);
    memset (text + 2 + LEVELS, 'a', LEVELS - 1);
    text[2 * LEVELS + 1] = '.';
    ok (!pickle_read (&pickle, text, 2 * LEVELS + 2, names, &err) && pickle.value_count == LEVELS,
        "3,000,000 lists in each other are read without recursion");
    pickle_release (&pickle);
    free (text);
}

static void
test_find (void)
{
    struct pickle pickle;
    if (ok (!pickle_read (&pickle, TEXT ("\x80\2}(X\1\0\0\0aK\1X\1\0\0\0aK\2X\2\0\0\0b\0K\3K\4K\5u."), names, NULL),
            "a dict")) {
        const struct pickle_value *found = pickle_find (pickle.root, "a");
        ok (found && found->integer == 2, "the last of two equal keys counts, as in Python");
        ok (!pickle_find (pickle.root, "b") && !pickle_find (NULL, "a") && !pickle_find (found, "a"), "not found");
        char *copy = pickle_copy_text (pickle.root->items[0]);
        is_text (copy, "a", "a copy");
        ok (!pickle_copy_text (pickle.root->items[4]) && !pickle_copy_text (found), "no copy of a text with a 0");
        free (copy);
    }
    pickle_release (&pickle);
}

int
main (void)
{
    test_good ();
    test_bad ();
    test_truncated ();
    test_deep ();
    test_find ();
    return done_testing ();
}
