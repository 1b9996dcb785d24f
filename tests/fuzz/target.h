/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzzers share: whatever comes in, there is an answer or a message of one line; and what was understood is
 * written and read again with the same meaning. */
#ifndef TESTS_FUZZ_TARGET_H
#define TESTS_FUZZ_TARGET_H

#include "config/file.h"
#include "config/load.h"
#include "util/cleanup.h"

#include <accel/base.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

/** What has to be so of all that was accepted. */
static inline void
must (bool good)
{
    if (!good)
        abort ();
}

/** An error of libaccel has a code and one line. */
static inline void
fuzz_check_error (const struct accel_error *err)
{
    if (err->code && err->text[0] && !strchr (err->text, '\n'))
        return;
    fprintf (stderr, "a bad message: '%s', code %d\n", err->text, (int) err->code);
    abort ();
}

/** Stop with both texts where they are not the same. */
void fuzz_compare (const char *what, const struct strbuf *before, const struct strbuf *after);

/** A message must be one line, and say something. */
void fuzz_check_message (const struct fail *fail);

/** All settings that are keys of files, one a line; with @p given only those that a file gave there. */
void fuzz_list_settings (const struct config *config, const struct config *given, struct strbuf *out);

/** Write the settings in both formats, and compare what is read again. */
void fuzz_write_settings (const struct config *config);

/** One file: to settings, updated, written, read again. */
void fuzz_file (const uint8_t *data, size_t size, bool is_json);

#endif
