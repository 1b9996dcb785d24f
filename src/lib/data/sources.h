/* SPDX-License-Identifier: Apache-2.0 */
/* The sources of batches; see struct loader_source. */
#ifndef LIB_DATA_SOURCES_H
#define LIB_DATA_SOURCES_H

struct loader_source;

/** A data set, of which each process reads its own share. */
extern const struct loader_source loader_map;

/** A stream: each process reads all of it, and keeps its own share. */
extern const struct loader_source loader_stream;

/** Rank 0 reads one of these two for all. */
extern const struct loader_source loader_dispatch;

#endif
