/* SPDX-License-Identifier: Apache-2.0 */
/* The engines of a communicator; see links.c. */
#ifndef LIB_COMM_LINKS_H
#define LIB_COMM_LINKS_H

#include "lib/comm/comm_object.h"

/** Choose them, as @p job->engines says or the best ones.
 *  @param host  the engine for host memory, which may serve other memory too */
enum accel_status comm_choose_links (struct accel_comm *comm, const struct accel_engine *host,
                                     const struct engine_job *job, struct accel_error *err);

/** Compare what was chosen with the choices of the other ranks; all of them call this. */
enum accel_status comm_compare_links (struct accel_comm *comm, struct accel_error *err);

/** Open what was chosen: the host's engine, then the others.  @{ */
enum accel_status comm_open_link (struct accel_comm *comm, struct comm_link *link, struct engine_job *job,
                                  struct accel_error *err);
enum accel_status comm_open_links (struct accel_comm *comm, struct engine_job *job, struct accel_error *err);
/** @} */
void comm_close_links (struct accel_comm *comm);
void comm_give_up_links (struct accel_comm *comm, const char *reason);

/** Change the longest wait for peers in all engines, or, if one cannot, in none. */
enum accel_status comm_set_timeout (struct accel_comm *comm, uint32_t timeout_ms, struct accel_error *err);

/** Tell the engine where the buffers of @p call are, whose site names a device that is not the host. */
void comm_set_device (struct accel_engine_call *call);

/** Where calls on @p device are queued.  @param stream  the one that was chosen for them; NULL: none was */
void *comm_stream_of (DLDevice device, void *stream);

/** memory_check(), and whether @p stream of @p device, unless it is NULL, can be used now. */
enum accel_status comm_check_stream (DLDevice device, void *stream, struct accel_error *err);

/** From now on the watch asks @p link whom calls in host memory await. */
void comm_watch_link (struct accel_comm *comm, const struct comm_link *link);

/** Run @p call, whose site names a device that is not the host. */
__attribute__ ((cold)) enum accel_status comm_run_link (struct accel_comm *comm, struct accel_engine_call *call,
                                                        struct accel_error *err);

/** Get the ids of a group of @p size ranks, one of each engine.
 *  @param[out] group_ids  [comm->link_count], each >= 0; for comm_join_group() */
enum accel_status comm_make_group (struct accel_comm *comm, int size, int64_t *group_ids, struct accel_error *err);

/** Tell engines that need it which groups of @p comm's ranks are made.
 *  @param group_ids  of the group that this rank will join; NULL: of none  @param rank  the rank in it
 *  @param[out] splits  whether there is such an engine */
enum accel_status comm_split_group (const struct accel_comm *comm, const int64_t *group_ids, int rank, bool *splits,
                                    struct accel_error *err);

/** Connect @p group, whose parent, rank and size are set; rank i of it is @p ranks[i] there.  Does not wait. */
enum accel_status comm_join_group (struct accel_comm *group, const int *ranks, const int64_t *group_ids,

                                   struct accel_error *err);

#endif
