/* SPDX-License-Identifier: Apache-2.0 */
/* The trackers that are built in: a row for each.  Another one is a file with a struct tracker_kind, a line of
 * TRACKER_MAP, and an item in accel_tracker(3); one that needs a library is a module, as mlflow is. */
#ifndef LIB_TRACK_KINDS_H
#define LIB_TRACK_KINDS_H

#include <accel/tracker.h>

struct tracker_kind {
    const char *name;
    bool requires_logging_dir;
    bool (*is_configured) (void); /* false: "all" leaves it out; NULL: always */
    /** Fill in @p calls, but for the name, with a `user` that its `finish` frees; `start` comes next. */
    enum accel_status (*create) (struct accel_tracker_calls *calls, struct accel_error *err);
};

#define TRACKER_MAP(X) \
    X (csv)            \
    X (jsonl)          \
    X (mlflow)         \
    X (tensorboard)

#define X(name) extern const struct tracker_kind tracker_##name;
TRACKER_MAP (X)
#undef X

#endif
