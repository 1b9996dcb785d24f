/* SPDX-License-Identifier: Apache-2.0 */
/* estimate-memory: GGUF files, of which one model may have several. */
#ifndef CLI_ESTIMATE_GGUF_H
#define CLI_ESTIMATE_GGUF_H

#include "cli/estimate.h"
#include "util/strbuf.h"

enum {
    GGUF_FIRST = 1 << 20, /* bytes that are read first */
    GGUF_GROWTH = 4,      /* and so many times as many if the header is longer */
    GGUF_MOST_PARTS = 1000,
};

/** Append the name of part @p part (0 is the first) of the model that has a part called @p name; it is @p name if the
 *  model has one file.  @return false without memory */
bool gguf_part_name (const char *name, unsigned part, struct strbuf *out, unsigned *count);

/** Add the tensors of a header. @param shown  for messages @param[out] is_short  see gguf_parse() */
int gguf_add (struct estimate_model *model, const char *shown, const void *bytes, size_t length, bool *is_short,
              struct fail *fail);

#endif
