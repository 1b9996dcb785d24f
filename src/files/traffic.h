/* SPDX-License-Identifier: Apache-2.0 */
/* The observer of how much a thread reads from files and writes to them.  The code that moves bytes does not know who
 * shows progress, and pays one test for it. */
#ifndef FILES_TRAFFIC_H
#define FILES_TRAFFIC_H

#include <stdint.h>

struct traffic_observer {
    /** @p bytes more have been read or written. */
    void (*moved) (struct traffic_observer *observer, uint64_t bytes);
    /** A file has been written, and is about to be synced, which may take as long. */
    void (*syncing) (struct traffic_observer *observer);
};

/** From now on, tell @p observer (NULL: none) what this thread does.  @return the observer before */
struct traffic_observer *traffic_observe (struct traffic_observer *observer);

/** For the code that reads and writes.  @{ */
void traffic_moved (uint64_t bytes);
void traffic_syncing (void);
/** @} */

#endif
