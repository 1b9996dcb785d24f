/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.jsonl, as tracker jsonl writes it (accel_tracker(3)). */
#ifndef REPORT_METRICS_H
#define REPORT_METRICS_H

#include "report/series.h"
#include "report/snapshots.h"
#include "util/fail.h"

#include <jansson.h>

enum { METRICS_KEYS = 4096, METRICS_TEXTS = 100 };

/** A text that was logged. */
struct metrics_text {
    int64_t step;
    char *key, *text;
};

/** All zero is that of a run that has logged nothing. */
struct metrics {
    struct series *series; /* [count], in the order in which the keys came first */
    size_t count;
    size_t hint;           /* where the next key is likely to be */
    json_t *config;        /* the last one, an object; NULL: none */
    uint64_t starts;       /* how often a configuration was stored: once by each start of the run that has one */
    struct metrics_text *texts; /* [text_count], the first ones */
    size_t text_count;
    struct snapshot_list histograms, images;
    double begin_s, end_s; /* since 1970, of the first and the last record; 0: none */
    uint64_t records;
    uint64_t skipped, first_skipped;  /* lines that are not valid, and the number of the first one */
    uint64_t keys_left, texts_left, images_bad, values_bad; /* what is not in the report */
};

/** Lines that are not valid are counted and passed over.  @param[out] metrics  for metrics_release(), also after a
 *  failure */
int metrics_read (struct metrics *metrics, const char *path, struct fail *fail);
void metrics_release (struct metrics *metrics);

/** @return NULL: the run has not logged it */
const struct series *metrics_find (const struct metrics *metrics, const char *key);

#endif
