/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of GGUF files: what they say, and those that are refused. */
#include <config.h>

#include "files/gguf.h"
#include "tests/tap.h"
#include "util/cleanup.h"
#include "util/strbuf.h"

#include <string.h>

enum { U8 = 0, U32 = 4, BOOL = 7, TEXT = 8, LIST = 9, UNKNOWN = 13, F32_TYPE = 0, Q4_0 = 2, NO_TYPE = 4 };

static void
put (struct strbuf *out, uint64_t value, size_t size)
{
    char bytes[8];
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char) (value >> 8 * i);
    strbuf_add_bytes (out, bytes, size);
}

static void
put_text (struct strbuf *out, const char *text)
{
    put (out, strlen (text), 8);
    strbuf_add (out, text);
}

static void
begin (struct strbuf *out, uint64_t version, uint64_t tensors, uint64_t pairs)
{
    strbuf_truncate (out, 0);
    strbuf_add (out, "GGUF");
    put (out, version, 4);
    put (out, tensors, 8);
    put (out, pairs, 8);
}

/* A tensor with @p count dimensions of 32, at byte @p place of the data. */
static void
put_tensor (struct strbuf *out, const char *name, uint64_t count, uint64_t type, uint64_t place)
{
    put_text (out, name);
    put (out, count, 4);
    for (uint64_t i = 0; i < count; i++)
        put (out, 32, 8);
    put (out, type, 4);
    put (out, place, 8);
}

/* A number in @p depth lists. */
static void
put_lists (struct strbuf *out, const char *key, unsigned depth, uint64_t number)
{
    put_text (out, key);
    put (out, depth ? LIST : U32, 4);
    for (unsigned i = depth; i > 0; i--) {
        put (out, i > 1 ? LIST : U32, 4);
        put (out, 1, 8);
    }
    put (out, number, 4);
}

/* @p message  NULL: it is accepted */
static void
parses (const struct strbuf *bytes, const char *message, bool is_cut_off, const char *what)
{
    struct gguf gguf;
    struct accel_error err = { 0 };
    bool is_short = false;
    enum accel_status status = gguf_parse (&gguf, bytes->text, bytes->length, &is_short, &err);
    if (!ok (!status == !message && (!message || !strcmp (err.text, message)) && is_short == is_cut_off, "%s", what))
        diag ("%s", err.text);
    gguf_release (&gguf);
}

static void
test_values (void)
{
    AUTO_STRBUF struct strbuf bytes = { 0 };
    struct gguf gguf;
    struct accel_error err = { 0 };
    bool is_short;
    begin (&bytes, 3, 2, 3);
    put_text (&bytes, "general.architecture");
    put (&bytes, TEXT, 4);
    put_text (&bytes, "llama");
    put_lists (&bytes, "llama.block_count", 0, 7);
    put_lists (&bytes, "llama.attention.head_count", 4, 9);
    put_tensor (&bytes, "one", 1, Q4_0, 0);
    put_tensor (&bytes, "four", 4, F32_TYPE, 32);
    ok (!gguf_parse (&gguf, bytes.text, bytes.length, &is_short, &err) && gguf.facts.layers == 7
            && gguf.facts.heads == 9 && gguf.count == 2 && gguf.tensors[0].bytes == 18
            && gguf.tensors[1].elements == 1 << 20 && gguf.tensors[1].bytes == 4 << 20,
        "numbers, lists in lists and tensors are read: %s", err.text);
    gguf_release (&gguf);
    for (size_t length = 4; length < bytes.length; length++) {
        enum accel_status status = gguf_parse (&gguf, bytes.text, length, &is_short, &err);
        gguf_release (&gguf);
        if (!status || !is_short) {
            ok (false, "%zu bytes: %s", length, err.text);
            return;
        }
    }
    ok (true, "of each beginning it is known that more bytes would help");
}

/* @p count elements of @p size bytes: 1, 2, 3 ... if there are not more than 3, else all 1 */
static void
put_list (struct strbuf *out, const char *key, uint64_t kind, size_t size, uint64_t count)
{
    put_text (out, key);
    put (out, LIST, 4);
    put (out, kind, 4);
    put (out, count, 8);
    for (uint64_t i = 0; i < count; i++)
        put (out, count > 3 ? 1 : i + 1, size);
}

static void
test_layers (void)
{
    AUTO_STRBUF struct strbuf bytes = { 0 };
    struct gguf gguf;
    struct accel_error err = { 0 };
    bool is_short;
    begin (&bytes, 3, 0, 7);
    put_text (&bytes, "general.architecture");
    put (&bytes, TEXT, 4);
    put_text (&bytes, "a");
    put_list (&bytes, "a.attention.head_count_kv", U32, 4, 3);
    put_list (&bytes, "a.attention.sliding_window_pattern", BOOL, 1, 1025);
    put_list (&bytes, "a.attention.key_length", U32, 4, 2);
    put_lists (&bytes, "a.attention.shared_kv_layers", 0, 5);
    put_lists (&bytes, "a.attention.key_length_mla", 0, 6);
    put_lists (&bytes, "clip.attention.value_length_mla", 0, 7);
    ok (!gguf_parse (&gguf, bytes.text, bytes.length, &is_short, &err), "lists for the layers: %s", err.text);
    const struct gguf_facts *facts = &gguf.facts;
    ok (facts->kv_heads_listed == 3 && facts->kv_heads_of[0] == 1 && facts->kv_heads_of[2] == 3 && facts->kv_heads == 3,
        "heads of each layer");
    ok (facts->windows_listed == 1024 && facts->windows[0] && facts->windows[1023], "windows of as many layers as fit");
    ok (facts->key_length == 2 && facts->shared_layers == 5 && facts->latent_key_length == 6
            && !facts->latent_value_length, "numbers, of this architecture only");
    gguf_release (&gguf);
}

static void
test_refusals (void)
{
    AUTO_STRBUF struct strbuf bytes = { 0 };
    begin (&bytes, 3, 0, 1);
    put_text (&bytes, "a");
    put (&bytes, UNKNOWN, 4);
    put (&bytes, 0, 8);
    parses (&bytes, "byte 37: unknown type 13 of a value", false, "an unknown type of value");
    begin (&bytes, 3, 0, 1);
    put_text (&bytes, "a");
    put (&bytes, LIST, 4);
    put (&bytes, UNKNOWN, 4);
    put (&bytes, 1, 8);
    put (&bytes, 0, 8);
    parses (&bytes, "byte 49: unknown type 13 of a value", false, "an unknown type of elements");
    begin (&bytes, 3, 0, 1);
    put_lists (&bytes, "a", 5, 1);
    parses (&bytes, "byte 85: lists are too deep", false, "lists in lists have an end");
    begin (&bytes, 3, 1, 0);
    put_tensor (&bytes, "a", 5, F32_TYPE, 0);
    parses (&bytes, "tensor 'a': 5 dimensions; the maximum is 4", false, "too many dimensions");
    begin (&bytes, 3, 1, 0);
    put_tensor (&bytes, "a", 1, NO_TYPE, 0);
    parses (&bytes, "tensor 'a': unknown type 4", false, "an unknown type of tensor");
    begin (&bytes, 3, 1, 0);
    put_tensor (&bytes, "a", 0, Q4_0, 0);
    parses (&bytes, "tensor 'a': rows of 1 elements are not whole blocks of 32", false, "half a block");
    begin (&bytes, 3, 1, 0);
    put_tensor (&bytes, "", 1, F32_TYPE, 0);
    parses (&bytes, "byte 32: not a tensor's name", false, "a tensor without a name");
    begin (&bytes, 3, 1 << 20, 0);
    strbuf_add_bytes (&bytes, "0123456789012345678901234567890123456789", 40);
    parses (&bytes, "the header is cut off", true, "a count alone allocates nothing");
    begin (&bytes, 3, (1 << 20) + 1, 0);
    parses (&bytes, "1048577 tensors and 0 metadata keys are too many", false, "too many tensors");
    for (uint64_t version = 1; version <= 4; version += 3) {
        begin (&bytes, version, 0, 0);
        parses (&bytes, version == 1 ? "GGUF version 1; expected 2 or 3" : "GGUF version 4; expected 2 or 3", false,
                "another version");
    }
    begin (&bytes, 2, 0, 0);
    parses (&bytes, NULL, false, "version 2 is accepted");
}

static void
test_no_tensors (void)
{
    AUTO_STRBUF struct strbuf bytes = { 0 };
    struct gguf gguf;
    struct accel_error err = { 0 };
    bool is_short;
    begin (&bytes, 3, 0, 0);
    ok (!gguf_parse (&gguf, bytes.text, bytes.length, &is_short, &err) && gguf.end == bytes.length,
        "a file without tensors may end without padding");
    gguf_release (&gguf);
}

/* Four of them have 2^63 bytes. */
static void
test_sum (void)
{
    AUTO_STRBUF struct strbuf bytes = { 0 };
    begin (&bytes, 3, 4, 0);
    for (uint64_t i = 0; i < 4; i++) {
        char name[] = { (char) ('a' + i), '\0' };
        put_text (&bytes, name);
        put (&bytes, 4, 4);
        for (unsigned j = 0; j < 4; j++)
            put (&bytes, j ? 32768 : 16384, 8);
        put (&bytes, F32_TYPE, 4);
        put (&bytes, i << 61, 8);
    }
    struct gguf gguf;
    struct accel_error err = { 0 };
    bool is_short;
    ok (gguf_parse (&gguf, bytes.text, bytes.length, &is_short, &err) && strstr (err.text, "too large") && !is_short,
        "tensors that are too large together: %s", err.text);
    gguf_release (&gguf);
}

int
main (void)
{
    test_sum ();
    test_values ();
    test_layers ();
    test_refusals ();
    test_no_tensors ();
    return done_testing ();
}
