/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks as text: the program's own lines first, and equal stacks together; see stacks.h. */
#include <config.h>

#include "launch/stacks/stacks.h"

#include "util/cleanup.h"
#include "util/printable.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = 8 }; /* ranks that compute are in many */

static const char *
last_part (const char *path)
{
    const char *slash = strrchr (path, '/');
    return slash ? slash + 1 : path;
}

static const char *
text_of (const json_t *object, const char *key)
{
    const char *text = json_string_value (json_object_get (object, key));
    return text ? text : "";
}

/* A frame in which the file is all that is known of where it is. */
static bool
is_python (const json_t *frame)
{
    return !*text_of (frame, "module") && *text_of (frame, "file");
}

/* <frozen runpy> and the like, Python's own library, installed packages. */
static bool
is_of_python_library (const json_t *frame)
{
    const char *file = text_of (frame, "file");
    return *file == '<' || strstr (file, "/lib/python3") || strstr (file, "/site-packages/");
}

/* Whether a frame is of a library that the program calls, not of the program: of ours, the C library, the drivers. */
static bool
is_of_library (const json_t *frame)
{
    if (is_python (frame))
        return is_of_python_library (frame);
    static const char *const names[] = {
        "libaccel", "accel_", "libc.so", "libc-", "libm.so", "libpthread", "ld-linux", "libstdc++", "libgcc_s",
        "[vdso]", "libnccl", "libcuda", "libcublas", "libmpi", "libopen-pal", "libopen-rte", "libucp", "libuct",
        "libgomp", "libasan", "libubsan", "liblsan", "libtsan",
    };
    const char *module = last_part (text_of (frame, "module"));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp (module, names[i], strlen (names[i])))
            return true;
    return !strncmp (text_of (frame, "function"), "accel_", strlen ("accel_")); /* libaccel.a is in the program */
}

/* The first frame of the program; the number of frames if there is none. */
static size_t
find_own (const json_t *stack)
{
    size_t count = json_array_size (stack), i = 0;
    while (i < count && is_of_library (json_array_get (stack, i)))
        i++;
    return i;
}

/* After the last frame of the program: below main() is only what every program has. */
static size_t
find_end (const json_t *stack)
{
    size_t end = json_array_size (stack);
    while (end > 0 && (is_of_library (json_array_get (stack, end - 1))
                       || !strcmp (text_of (json_array_get (stack, end - 1), "function"), "_start")))
        end--;
    return end;
}

/* A name as the program has written it: accel_backward() is a macro that calls accel_backward_at(), and the C library
 * has names with underscores before and a version after them. */
static void
put_function (const json_t *frame, struct strbuf *out)
{
    static const char interceptor[] = "interceptor_"; /* what sanitizers call the C library's functions */
    const char *name = text_of (frame, "function"), *at = strrchr (name, '_');
    bool is_ours = !strncmp (name, "accel_", strlen ("accel_"));
    size_t length = strcspn (name, is_of_library (frame) ? "@." : "@"); /* of "read.part.0", too */
    char text[256];
    if (is_python (frame)) {
        printable_add (out, name);
        return;
    }
    if (is_ours && at && (!strcmp (at, "_at") || !strcmp (at, "_sized")))
        length = (size_t) (at - name);
    if (is_of_library (frame)) {
        for (; *name == '_' && length > 1; length--)
            name++;
        if (!strncmp (name, interceptor, strlen (interceptor)) && length > strlen (interceptor)) {
            name += strlen (interceptor);
            length -= strlen (interceptor);
        }
    }
    snprintf (text, sizeof text, "%.*s", (int) length, name);
    printable_add (out, text);
}

/* "libc" of libc.so.6. */
static void
put_module (const char *module, struct strbuf *out)
{
    const char *suffix = strstr (module, ".so");
    char text[256];
    snprintf (text, sizeof text, "%.*s", suffix ? (int) (suffix - module) : (int) strlen (module), module);
    printable_add (out, text);
}

/* "load (data.c:33)", "load (train)", "train+0x1234"; of a library, whose sources the reader need not have, "read
 * (libc)" */
static void
put_frame (const json_t *frame, struct strbuf *out)
{
    const json_t *line = json_object_get (frame, "line");
    const char *module = last_part (text_of (frame, "module")), *file = text_of (frame, "file");
    bool has_line = json_is_integer (line) && *file && (is_python (frame) || !is_of_library (frame));
    if (!*text_of (frame, "function")) {
        printable_add (out, module);
        strbuf_printf (out, "+%s", text_of (frame, "address"));
        return;
    }
    put_function (frame, out);
    strbuf_add (out, " (");
    if (has_line)
        printable_add (out, last_part (file));
    else
        put_module (module, out);
    if (has_line)
        strbuf_printf (out, ":%lld", (long long) json_integer_value (line));
    strbuf_add_char (out, ')');
}

void
stacks_put_own_frame (const json_t *rank, struct strbuf *out)
{
    const json_t *stack = json_object_get (rank, "stack");
    size_t own = find_own (stack);
    if (own < json_array_size (stack) && *text_of (json_array_get (stack, own), "function"))
        put_frame (json_array_get (stack, own), out);
}

/* CUDA's driver is libcuda.so.  Its runtime, libcudart.so, has a suffix in Python's packages, and is often static: then
 * its functions have to do. */
static bool
is_of_gpu (const json_t *frame)
{
    static const char wait[] = "Synchronize";
    const char *function = text_of (frame, "function");
    size_t length = strcspn (function, "@."), tail = strlen (wait);
    bool waits = length > tail && !strncmp (function + length - tail, wait, tail);
    const char *module = last_part (text_of (frame, "module"));
    bool is_cuda = !strncmp (module, "libcuda.so", strlen ("libcuda.so"))
                   || !strncmp (module, "libcudart", strlen ("libcudart"));
    return is_cuda || (waits && !strncmp (function, "cu", 2)); /* cuStreamSynchronize, cudaDeviceSynchronize ... */
}

bool
stacks_show_gpu (const json_t *ranks, int rank)
{
    size_t i, j;
    json_t *object, *frame;
    json_array_foreach (ranks, i, object)
        if (json_integer_value (json_object_get (object, "rank")) == rank)
            json_array_foreach (json_object_get (object, "stack"), j, frame)
                if (is_of_gpu (frame))
                    return true;
    return false;
}

/* Of libraries only what the program calls: "sleep (libc)" says more than what sleep() consists of. */
static void
put_stack (const json_t *rank, const char *indent, struct strbuf *out)
{
    const json_t *stack = json_object_get (rank, "stack");
    size_t end = find_end (stack);
    if (!json_array_size (stack)) {
        strbuf_printf (out, "%sno stack: %s", indent, text_of (rank, "reason"));
        if (*text_of (rank, "process"))
            strbuf_printf (out, "; process %lld: %s", (long long) json_integer_value (json_object_get (rank, "pid")),
                           text_of (rank, "process"));
        strbuf_add_char (out, '\n');
        return;
    }
    end = end ? end : json_array_size (stack); /* a thread of a library's own */
    for (size_t i = 0; i < end; i++) {
        if (i + 1 < end && is_of_library (json_array_get (stack, i)) && is_of_library (json_array_get (stack, i + 1)))
            continue;
        strbuf_add (out, indent);
        put_frame (json_array_get (stack, i), out);
        strbuf_add_char (out, '\n');
    }
}

void
stacks_put_seconds (double seconds, struct strbuf *out)
{
    long long whole = (long long) seconds, minutes = whole / 60;
    if (whole < 10)
        strbuf_printf (out, "%.2g s", seconds);
    else if (whole < 600)
        strbuf_printf (out, "%lld s", whole);
    else if (minutes < 120)
        strbuf_printf (out, "%lld min", minutes);
    else
        strbuf_printf (out, "%lld h %lld min", minutes / 60, minutes % 60);
}

void
stacks_put_ranks (const int *ranks, size_t count, struct strbuf *out)
{
    for (size_t i = 0, last; i < count; i = last + 1) {
        last = i;
        while (last + 1 < count && ranks[last + 1] == ranks[last] + 1)
            last++;
        strbuf_printf (out, last > i ? "%s%d-%d" : "%s%d", i ? ", " : "", ranks[i], ranks[last]);
    }
}

/* ---- groups ---- */

/* What ranks of a group have in common, besides what they were doing: the rest of the line, and further ones. */
struct entry {
    const json_t *rank;
    char *rest;
    bool is_put;
};

static bool
is_alike (const struct entry *a, const struct entry *b)
{
    return !strcmp (a->rest, b->rest) && !strcmp (text_of (a->rank, "doing"), text_of (b->rank, "doing"));
}

/* "ranks 0-2: in accel_backward at train.c:88 for 61 s".  Ranks of a group came at different times: the longest. */
static void
put_group (struct entry *entries, size_t count, size_t first, const char *indent, struct strbuf *out)
{
    int *ranks = calloc (count, sizeof *ranks);
    double seconds = -1;
    size_t alike = 0;
    for (size_t i = first; ranks && i < count; i++) {
        const json_t *elapsed = json_object_get (entries[i].rank, "seconds");
        if (entries[i].is_put || !is_alike (&entries[first], &entries[i]))
            continue;
        entries[i].is_put = i != first;
        ranks[alike++] = (int) json_integer_value (json_object_get (entries[i].rank, "rank"));
        seconds = json_is_real (elapsed) && json_real_value (elapsed) > seconds ? json_real_value (elapsed) : seconds;
    }
    entries[first].is_put = true;
    strbuf_printf (out, "%srank%s ", indent, alike > 1 ? "s" : "");
    stacks_put_ranks (ranks, alike, out);
    strbuf_add (out, ": ");
    printable_add (out, text_of (entries[first].rank, "doing"));
    if (seconds >= 0) {
        strbuf_add (out, " for ");
        stacks_put_seconds (seconds, out);
    }
    strbuf_add (out, entries[first].rest);
    free (ranks);
}

static void
put_lines (const json_t *rank, const char *indent, struct strbuf *out)
{
    AUTO_STRBUF struct strbuf inner = { 0 };
    strbuf_printf (&inner, "%s  ", indent);
    strbuf_add_char (out, '\n');
    put_stack (rank, inner.text ? inner.text : "", out);
}

static void
put_place (const json_t *rank, const char *indent, struct strbuf *out)
{
    AUTO_STRBUF struct strbuf frame = { 0 };
    (void) indent;
    stacks_put_own_frame (rank, &frame);
    if (frame.length)
        strbuf_printf (out, ", in %s", frame.text);
    strbuf_add_char (out, '\n');
}

/* @param most  groups; the others are counted */
static void
put_groups (const json_t *ranks, const char *indent, size_t most, struct strbuf *out,
            void (*put_rest) (const json_t *rank, const char *indent, struct strbuf *out))
{
    size_t count = json_array_size (ranks), left = 0;
    struct entry *entries = calloc (count + 1, sizeof *entries);
    bool is_whole = entries;
    for (size_t i = 0; entries && i < count; i++) {
        struct strbuf rest = { 0 };
        put_rest (json_array_get (ranks, i), indent, &rest);
        entries[i] = (struct entry){ .rank = json_array_get (ranks, i), .rest = strbuf_take (&rest) };
        is_whole = is_whole && entries[i].rest;
    }
    out->failed = out->failed || !is_whole;
    for (size_t i = 0; i < count && is_whole; i++) {
        if (!entries[i].is_put && most) {
            put_group (entries, count, i, indent, out);
            most--;
        }
        left += !entries[i].is_put;
    }
    if (left)
        strbuf_printf (out, "%sand %zu more rank%s\n", indent, left, left > 1 ? "s" : "");
    for (size_t i = 0; entries && i < count; i++)
        free (entries[i].rest);
    free (entries);
}

void
stacks_put (const json_t *ranks, const char *indent, struct strbuf *out)
{
    put_groups (ranks, indent, SIZE_MAX, out, put_lines);
}

void
stacks_put_places (const json_t *ranks, const char *indent, struct strbuf *out)
{
    put_groups (ranks, indent, PLACES, out, put_place);
}
