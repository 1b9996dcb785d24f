/* SPDX-License-Identifier: Apache-2.0 */
/* Ask foreign code a question in a child process.  A vendor's library may hang, crash, print, start threads or change
 * signal handlers: all of that happens to the child, and the caller gets an answer or an error within the deadline. */
#ifndef UTIL_PROBE_H
#define UTIL_PROBE_H

#include "util/fail.h"

#include <stddef.h>

/** What to ask.  `ask` runs in the child; its standard streams are /dev/null. */
struct probe {
    const char *name; /* of the library or program, for the error: "libnccl.so.2" */
    int deadline_ms;
    size_t size;      /* bytes of the answer */
    /* Fill the answer, `size` bytes that were zero.  @return 0, or -1 with fail set */
    int (*ask) (void *answer, const void *user, struct fail *fail);
    const void *user;
};

enum { PROBE_DEADLINE_MS = 2000 };

/**
 * Run @p probe and wait for its answer.
 *
 * @param[out] answer  untouched on failure
 * @return 0, or -1 with @p fail: what ask() said, "NAME did not answer in 2 s", or
 *         "NAME crashed with signal 11 (Segmentation fault)"
 */
int probe_run (const struct probe *probe, void *answer, struct fail *fail);

/** A function to look up in a library, and where to put its address. */
struct probe_symbol {
    const char *name;
    void *address; /* of a function pointer */
};

/** dlopen the first of @p names (ended by NULL) that exists and find @p symbols (ended by an all-zero row); for
 *  ask().  It is never closed: the child ends.  @return 0, or -1 with FAIL_NOT_FOUND if there is none. */
int probe_open_library (const char *const *names, const struct probe_symbol *symbols, struct fail *fail);

/** Find those of @p symbols that the library @p name has, which is open.  The addresses of the others stay. */
void probe_find_more (const char *name, const struct probe_symbol *symbols);

#endif
