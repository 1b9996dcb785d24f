/* SPDX-License-Identifier: Apache-2.0 */
/* The source code of a training job: which files are packed. */
#ifndef SAGEMAKER_SOURCE_H
#define SAGEMAKER_SOURCE_H

#include "sagemaker/training.h"
#include "util/strbuf.h"

#include <stdint.h>

/** Larger sources are refused: Amazon takes 5 GiB in one piece. */
#define SOURCE_MOST ((uint64_t) 5000000000)
#define SOURCE_LARGE ((uint64_t) 50000000) /* bytes of a file that is named */

struct source_file {
    char *name; /* in the archive; folders have none of their own unless they are empty */
    char *path;
    uint64_t size;
    bool is_folder; /* an empty one */
    bool is_executable;
};

/** All zero before source_find(). */
struct source {
    struct source_file *files; /* sorted by name */
    size_t count;
    uint64_t bytes;
    struct strlist ignored; /* by .gitignore or .git itself, and packed all the same, as Amazon's library does */
    struct strlist large;   /* "data.bin (120 MB)" */
    struct strlist outside; /* links that lead out of the folder: "data -> /srv/data" */
    struct strlist skipped; /* neither files nor folders */
};

/** Find the files of @p training: the folder's, or only the script, and its dependencies. Links are followed. */
int source_find (struct source *source, const struct training *training, struct fail *fail);

void source_release (struct source *source);

/** Append what the user should know before these files are uploaded, in lines that begin with "accelerate: note: ". */
void source_add_notes (const struct source *source, struct strbuf *out);

#endif
