/* SPDX-License-Identifier: Apache-2.0 */
/* What the loop watches; see supervisor.h. */
#include <config.h>

#include "launch/job/supervisor.h"

#include "util/cleanup.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>

int
supervisor_watch (struct supervisor *supervisor, int fd, uint32_t events, uint64_t about, int index)
{
    struct epoll_event event = { .events = events, .data.u64 = about << 32 | (uint32_t) index };
    return epoll_ctl (supervisor->epoll, EPOLL_CTL_ADD, fd, &event);
}

int
supervisor_init (struct supervisor *supervisor, struct job *job, struct fail *fail)
{
    const struct job_peers *peers = job->observer ? job->observer->peers : NULL;
    *supervisor = (struct supervisor){ .job = job, .epoll = -1, .signals = -1, .peers_ms = INT64_MAX };
    supervisor->keepalive_ms = job->observer && job->observer->keepalive ? 0 : INT64_MAX;
    supervisor->signals = signalfd (-1, &job->guardian->signals, SFD_CLOEXEC | SFD_NONBLOCK);
    supervisor->epoll = epoll_create1 (EPOLL_CLOEXEC);
    if (supervisor->signals < 0 || supervisor->epoll < 0
        || supervisor_watch (supervisor, supervisor->signals, EPOLLIN, EVENT_SIGNAL, 0)
        || supervisor_watch (supervisor, job->guardian->pidfd, EPOLLIN, EVENT_GUARDIAN, 0)
        || (job->port_lock >= 0 && supervisor_watch (supervisor, job->port_lock, EPOLLIN | EPOLLET, EVENT_PORT_LOCK, 0))
        || (job->plan->requests.notices
            && supervisor_watch (supervisor, job->plan->requests.notices, EPOLLIN, EVENT_NOTICE, 0))
        || (peers && supervisor_watch (supervisor, peers->fd, EPOLLIN, EVENT_PEERS, 0))) {
        fail_set (fail, FAIL_GENERAL, "cannot watch processes: %s", strerror (errno));
        supervisor_release (supervisor);
        return -1;
    }
    return 0;
}

int
supervisor_add (struct supervisor *supervisor, int index, struct fail *fail)
{
    struct job_rank *rank = &supervisor->job->ranks[index];
    int result = supervisor_watch (supervisor, rank->pidfd, EPOLLIN, EVENT_RANK, index);
    for (int i = 0; i < JOB_STREAMS && result == 0; i++)
        if (rank->streams[i].fd >= 0)
            result = supervisor_watch (supervisor, rank->streams[i].fd, EPOLLIN, EVENT_STREAM,
                                      index * JOB_STREAMS + i);
    return result ? fail_set (fail, FAIL_GENERAL, "cannot watch rank %d: %s", rank->process->rank, strerror (errno))
                  : 0;
}

void
supervisor_release (struct supervisor *supervisor)
{
    if (supervisor->epoll >= 0)
        close (supervisor->epoll);
    if (supervisor->signals >= 0)
        close (supervisor->signals);
    stall_end (&supervisor->stall);
    stops_end (&supervisor->stops);
    supervisor->epoll = supervisor->signals = -1;
    /* The mask stays: a signal that comes now must not take away the exit status that the job has earned. */
}
