/* SPDX-License-Identifier: Apache-2.0 */
/* What a key is about, by its words. */
#ifndef REPORT_GROUPS_H
#define REPORT_GROUPS_H

/** In the order of the page. */
enum group {
    GROUP_LOSS,
    GROUP_RATE, /* the learning rate */
    GROUP_THROUGHPUT,
    GROUP_TIME,
    GROUP_SCALE, /* of the loss, for fp16 */
    GROUP_GRADIENT,
    GROUP_MEMORY,
    GROUP_OTHER,
    GROUP_COUNT
};

extern const char *const group_titles[GROUP_COUNT];

enum group group_of (const char *key);

#endif
