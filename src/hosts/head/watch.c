/* SPDX-License-Identifier: Apache-2.0 */
/* Keeping a segment for those who watch; see watch.h. */
#include <config.h>

#include "hosts/head/watch.h"

#include "hosts/samples.h"
#include "launch/watch/places.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/printable.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAUSE_MS = 1000 }; /* between two questions, at least */

static void
take_sampled (struct link *link, struct wire_frame *frame)
{
    const struct samples_place place = { .segment = link->watched, .first_rank = link->first_rank,
                                         .ranks = link->ranks, .offset_ns = link->offset_ns };
    link->is_sampled = true;
    samples_take (frame, &place);
}

/* From @end on.  A memfd can always become shorter. */
static void
empty (int file, off_t end)
{
    if (ftruncate (file, end))
        return;
}

/* Each host answers a question once, so that no agent can fill our memory. */
static void
take_stacked (struct link *link, struct wire_frame *frame)
{
    struct places_answer answer = { .number = (uint32_t) wire_number (frame), .first_rank = (uint32_t) link->first_rank,
                                    .ranks = (uint32_t) link->ranks };
    const char *text = wire_text (frame);
    if (frame->failed || !link->stacks_due || answer.number != link->stacks_due)
        return;
    link->stacks_due = 0;
    answer.length = text ? (uint32_t) strlen (text) : 0;
    AUTO_STRBUF struct strbuf bytes = { 0 };
    strbuf_add_bytes (&bytes, &answer, sizeof answer);
    strbuf_add (&bytes, text ? text : "");
    off_t end = lseek (link->answers, 0, SEEK_END);
    if (end >= 0 && !bytes.failed && pwrite (link->answers, bytes.text, bytes.length, end) != (ssize_t) bytes.length)
        empty (link->answers, end);
}

static void
describe (struct jobseg_header *header, const struct job_spec *spec, int64_t restarts, int hosts)
{
    AUTO_STRBUF struct strbuf words = { 0 };
    shell_word_add (&words, spec->config.program);
    for (size_t i = 0; i < spec->arguments.count; i++) {
        strbuf_add_char (&words, ' ');
        shell_word_add (&words, spec->arguments.items[i]);
    }
    snprintf (header->program, sizeof header->program, "%s", words.text ? words.text : "");
    header->restarts = (uint32_t) restarts;
    header->launcher_pid = getpid ();
    header->hosts = (uint32_t) hosts;
}

int
head_watch_begin (struct head_watch *watch, const struct job_spec *spec, int64_t restarts, const struct hosts *hosts,
                  const struct links *links, struct fail *fail)
{
    int world_size = hostlist_world_size (&hosts->list);
    head_watch_end (watch);
    if (world_size > JOBSEG_MAX_LOCAL)
        return fail_set (fail, FAIL_GENERAL, "it has %d ranks, and they show %d at most", world_size, JOBSEG_MAX_LOCAL);
    if (jobseg_create (&watch->segment, world_size, world_size, 0, spec->job_id, fail))
        return -1;
    watch->answers = memfd_create ("accel-stacks", MFD_CLOEXEC);
    if (pipe2 (watch->bell, O_CLOEXEC | O_NONBLOCK) || watch->answers < 0) {
        fail_set (fail, FAIL_GENERAL, "%s", strerror (errno));
        head_watch_end (watch);
        return -1;
    }
    describe (watch->segment.header, spec, restarts, links->count);
    for (int i = 0; i < links->count; i++) {
        struct link *link = links_at (links, i);
        const struct hostlist_host *host = &hosts->list.hosts[i];
        link->watched = &watch->segment;
        link->answers = watch->answers;
        link->take_sampled = take_sampled;
        link->take_stacked = take_stacked;
        link->first_rank = host->first_rank;
        link->ranks = host->ranks;
        link->is_sampled = true;
        link->stacks_due = 0;
        link->shown = JOBSEG_HOST_RUNS;
        for (int rank = 0; rank < host->ranks; rank++) {
            struct jobseg_told *told = &jobseg_slot (&watch->segment, host->first_rank + rank)->told;
            snprintf (told->host, sizeof told->host, "%s", link->name);
            told->is_remote = !hosts_is_own (hosts, link->name);
        }
    }
    watch->segment.header->answers = watch->answers;
    watch->segment.header->bell = watch->bell[1]; /* last: before, no process can ask */
    return 0;
}

/* Before the ranks are started again, the segment is that of those that have ended. */
static void
note_state (const struct head_watch *watch, struct link *link)
{
    enum jobseg_host state = link->state == LINK_RUNNING ? JOBSEG_HOST_RUNS
                             : link->state == LINK_LOST  ? JOBSEG_HOST_LOST
                                                         : JOBSEG_HOST_ENDED;
    bool is_known = state == link->shown;
    link->shown = state;
    for (int i = 0; i < link->ranks && !is_known; i++)
        atomic_store (&jobseg_slot (&watch->segment, link->first_rank + i)->told.host_state, state);
}

static bool
is_asked (const struct head_watch *watch)
{
    char bytes[64];
    bool is_asked = false;
    while (watch->bell[0] >= 0 && read (watch->bell[0], bytes, sizeof bytes) > 0)
        is_asked = true;
    return is_asked;
}

/* Which part of the ranks that a question is about runs on the host of @link. */
static void
ask_for_stacks (struct link *link, uint32_t number, int only)
{
    if (link->state != LINK_RUNNING || link->pipe.out < 0
        || (only >= 0 && (only < link->first_rank || only >= link->first_rank + link->ranks)))
        return;
    link->stacks_due = number;
    wire_put_frame (&link->pipe.to_write, WIRE_STACKS, number, only < 0 ? -1 : only - link->first_rank);
}

static void
pass_on_question (struct head_watch *watch, const struct links *links)
{
    uint32_t number = atomic_load (&watch->segment.header->stacks_asked);
    if (number == watch->number)
        return;
    watch->number = number;
    empty (watch->answers, 0);
    for (int i = 0; i < links->count; i++)
        ask_for_stacks (links_at (links, i), number, atomic_load (&watch->segment.header->stacks_only));
}

void
head_watch_turn (struct head_watch *watch, const struct links *links)
{
    if (!watch->segment.header)
        return;
    for (int i = 0; i < links->count; i++)
        note_state (watch, links_at (links, i));
    watch->is_wanted = is_asked (watch) || watch->is_wanted;
    pass_on_question (watch, links);
    if (clock_ms () < head_watch_deadline (watch))
        return;
    bool is_watched = watch->is_wanted;
    watch->is_wanted = false;
    watch->asked_ms = clock_ms ();
    uint32_t request = atomic_exchange (&watch->segment.header->request, 0);
    for (int i = 0; i < links->count; i++) {
        struct link *link = links_at (links, i);
        if (link->state != LINK_RUNNING || link->pipe.out < 0 || (!link->is_sampled && !request))
            continue;
        link->is_sampled = false;
        /* Ranks agree on requests, so one host gets them: those of a slower one would take them for another. */
        wire_put_frame (&link->pipe.to_write, WIRE_SAMPLE, request, is_watched);
        request = 0;
    }
}

int64_t
head_watch_deadline (const struct head_watch *watch)
{
    return !watch->is_wanted && !watch->is_shown ? INT64_MAX : watch->asked_ms ? watch->asked_ms + PAUSE_MS : 0;
}

void
head_watch_end (struct head_watch *watch)
{
    jobseg_detach (&watch->segment);
    for (int i = 0; i < 2; i++)
        if (watch->bell[i] >= 0)
            close (watch->bell[i]);
    if (watch->answers >= 0)
        close (watch->answers);
    *watch = (struct head_watch) HEAD_WATCH_NONE;
}
