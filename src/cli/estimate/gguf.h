/* SPDX-License-Identifier: Apache-2.0 */
/* estimate-memory: GGUF files, of which one model may have several. */
#ifndef CLI_ESTIMATE_GGUF_H
#define CLI_ESTIMATE_GGUF_H

#include "cli/estimate/estimate.h"
#include "util/strbuf.h"

enum {
    GGUF_FIRST = 1 << 20, /* bytes that are read first */
    GGUF_GROWTH = 4,      /* and so many times as many if the header is longer */
    GGUF_MOST_PARTS = 1000,
};

/** Append the name of part @p part (0 is the first) of the model that has a part called @p name; it is @p name if the
 *  model has one file.  @return false without memory */
bool gguf_part_name (const char *name, unsigned part, struct strbuf *out, unsigned *count);

/** The files of a model; all zero before the first one. */
struct gguf_parts {
    unsigned part, count;     /* the one that is read now, 0 is the first; by their names */
    uint64_t tensors, wanted; /* read so far; of all files, 0: not known */
};

/**
 * Add the tensors of a header.
 *
 * @param shown          for messages
 * @param size           of the file, UINT64_MAX: not known
 * @param[out] is_short  see gguf_parse()
 */
int gguf_add (struct estimate_model *model, struct gguf_parts *parts, const char *shown, const struct strbuf *header,
              uint64_t size, bool *is_short, struct fail *fail);

/** After the last part. */
int gguf_end (const struct gguf_parts *parts, const char *shown, struct fail *fail);

#endif
