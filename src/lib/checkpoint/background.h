/* SPDX-License-Identifier: Apache-2.0 */
/* A function that runs in a thread of its own, and that exit() lets come to its end. */
#ifndef LIB_CHECKPOINT_BACKGROUND_H
#define LIB_CHECKPOINT_BACKGROUND_H

#include <stdbool.h>

struct background;

/**
 * Run @p run (@p user) in a thread.  If the process calls exit() first, that waits for its end and calls
 * @p at_exit (@p user), which must not use this file.
 *
 * @return NULL: no memory or no thread, and nothing runs
 */
struct background *background_start (void (*run) (void *user), void (*at_exit) (void *user), void *user);

/** @return whether the function has returned. */
bool background_is_over (const struct background *background);

/**
 * Wait for the end, and free it.  One thread.
 *
 * @return false: this process is a fork of the one that started it, where it does not run; nothing was freed
 */
bool background_join (struct background *background);

#endif
