/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate inspect: what its files share. */
#ifndef CLI_INSPECT_H
#define CLI_INSPECT_H

#include "cli/inspect/tensors.h"
#include "cli/progress.h"

/** What a tensor's elements are like.  All zero before the first element. */
struct stats {
    uint64_t count;      /* finite elements */
    uint64_t not_finite; /* infinite or not a number */
    long double squares; /* sum, of finite elements */
    double min, max;     /* of finite elements; of complex types, of their parts */
};

/** Read all elements of item @p number. */
int stats_read (struct tensors *tensors, size_t number, struct stats *stats, struct progress *progress,
                struct fail *fail);

/** @return the Euclidean norm. */
double stats_norm (const struct stats *stats);

/** What `inspect` found besides the tensors' descriptions. */
struct findings {
    const struct stats *stats; /* [count], or NULL: not asked for */
    const char *checksums;     /* "verified", or NULL: not asked for, or there are none */
    const char *nonfinite;     /* a parameter that is infinite or NaN, in words; NULL: the manifest names none */
};

/** The rows as columns with a heading and a sum, for terminals; with tabs and without them, for pipes; or JSON. @{ */
void inspect_show_table (const struct tensors *tensors, const char *path, const struct findings *findings,
                         bool is_terminal, struct strbuf *out);
void inspect_show_json (const struct tensors *tensors, const char *path, const struct findings *findings,
                        struct strbuf *out);
/** @} */

/** Compare all bytes with the checksums that the checkpoint has; fails if it has none. */
int inspect_verify (struct tensors *tensors, const char *path, struct findings *findings, struct fail *fail);

/** @return a parameter that is infinite or NaN, as the manifest of @p path says, for free(); NULL: it names none, or
 *  there is no manifest */
char *inspect_find_nonfinite (const char *path);

/** What the difference between two tensors is. */
enum difference { SAME, ONLY_IN_FIRST, ONLY_IN_SECOND, OTHER_SHAPE, OTHER_DTYPE, OTHER_ELEMENTS };

struct diff_row {
    enum difference kind;
    const struct tensors_item *first, *second; /* NULL if it is missing */
    uint64_t unequal;   /* elements */
    double max_abs;     /* the largest absolute difference; infinite or NaN if one is and the other is not */
    bool is_compared;   /* the elements were compared: shapes are the same */
};

struct diff {
    struct diff_row *rows; /* [count], sorted by name; malloc() */
    size_t count, different;
};

int inspect_compare (struct tensors *first, struct tensors *second, struct diff *diff, struct fail *fail);
void inspect_show_diff (const struct diff *diff, const char *const paths[2], bool is_terminal, struct strbuf *out);
void inspect_show_diff_json (const struct diff *diff, const char *const paths[2], struct strbuf *out);

#endif
