/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms or images that a run logged: of each key a few, spread evenly over all, and the latest. */
#ifndef REPORT_SNAPSHOTS_H
#define REPORT_SNAPSHOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SNAPSHOT_KEYS = 128,
    SNAPSHOT_BINS = 64,
    HISTOGRAMS_KEPT = 96, /* of a key */
    IMAGES_KEPT = 8,
    IMAGES_BYTES = 32 << 20, /* of a run, in base64 */
};

/** Bins of the same width from `min` to `max`, which are finite; all samples are in the first if these are equal. */
struct histogram {
    double count, min, max, mean;
    size_t bin_count; /* 1 to SNAPSHOT_BINS */
    float bins[SNAPSHOT_BINS]; /* how many samples, at least 0 */
};

struct snapshot {
    int64_t step;
    uint64_t number;             /* of those of its key, from 0 */
    struct histogram *histogram; /* NULL: it is an image */
    char *png;                   /* in base64; NULL: it is a histogram */
    uint32_t width, height;      /* of an image */
};

/** Those of a key. */
struct snapshots {
    char *key;
    struct snapshot *items; /* [count], each step higher than the one before */
    size_t count;
    uint64_t seen;   /* how many were logged; after a restart, up to `stride` more */
    uint64_t stride; /* the kept ones are those whose numbers are multiples of it, and the last one */
};

/** All zero is an empty one. */
struct snapshot_list {
    struct snapshots *keys; /* [count], in the order in which they came first */
    size_t count;
    size_t bytes;  /* of the images that are kept */
    uint64_t left; /* those for which there was no room */
};

/**
 * Add one.  If its step was reached before, the run was restarted from there, and those from this step on are removed.
 *
 * @param kept  how many of a key are kept at most, 2 or more
 * @param snapshot  its step, and a histogram or an image, which belong to the list, also if there is no room for it
 * @return false: out of memory
 */
bool snapshots_add (struct snapshot_list *list, const char *key, size_t kept, struct snapshot snapshot);
const struct snapshots *snapshots_find (const struct snapshot_list *list, const char *key);
void snapshots_release (struct snapshot_list *list);

#endif
