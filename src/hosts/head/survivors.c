/* SPDX-License-Identifier: Apache-2.0 */
/* A job that starts again without the hosts that it has lost; see state.h. */
#include <config.h>

#include "hosts/head/state.h"

#include "util/cleanup.h"

#include <stdlib.h>

/* The agent is gone, or does not do what it should: nothing can start there again. */
static bool
is_lost (const struct link *link)
{
    return link->state == LINK_LOST || !link->pid;
}

/* @return [count]; NULL: out of memory */
static bool *
find_lost (const struct head *head)
{
    bool *lost = calloc ((size_t) head->count, sizeof *lost);
    for (int i = 0; lost && i < head->count; i++)
        lost[i] = is_lost (&head->links[i]);
    return lost;
}

bool
survivors_are_enough (const struct head *head)
{
    AUTO_FREE bool *lost = find_lost (head);
    return lost && hostlist_can_lose (&head->hosts->list, lost, head->spec.config.settings.num_processes);
}

/* Sinks know which link's line they have begun, and links move. */
static void
end_lines (struct head *head)
{
    for (int i = 0; i < LINK_STREAMS; i++)
        if (!output_sink_end_foreign_line (&head->sinks[i], NULL))
            head->sinks[i].unfinished = NULL;
}

static void
prepare_link (struct link *link)
{
    free (link->report);
    free (link->json);
    free (link->notice);
    link->report = link->json = link->notice = NULL;
    if (link->state > LINK_READY) /* a host that is about to be reached still has no job */
        link->state = LINK_READY;
    link->end_requested = false;
    link->failed_ns = link->mpi_ns = 0;
    link->failed_rank = -1;
    link->status = 0;
}

static void
remove_links (struct head *head, const bool *lost, struct strbuf *text)
{
    int kept = 0;
    for (int i = 0; i < head->count; i++) {
        struct link *link = &head->links[i];
        if (!lost[i]) {
            prepare_link (link);
            head->links[kept++] = *link;
            continue;
        }
        strbuf_printf (text, "%s%s", text->length ? ", " : ", without ", link->name);
        link_end (link);
    }
    head->count = kept;
    head->mpi = head->asking = NULL;
}

static int
add_links (struct head *head, struct strbuf *text, struct fail *fail)
{
    const struct hostlist *list = &head->hosts->list;
    for (int i = head->count; i < (int) list->count; i++) {
        struct link *link = &head->links[i];
        link_init (link, list->hosts[i].name);
        head->count = i + 1;
        strbuf_printf (text, ", with %s", link->name);
        if (link_start (link, head->hosts, fail))
            return fail_prefix (fail, "host %s", link->name);
    }
    return 0;
}

int
survivors_go_on (struct head *head, struct strbuf *text, struct fail *fail)
{
    struct hostlist *list = &head->hosts->list;
    AUTO_FREE bool *lost = find_lost (head);
    int before = hostlist_world_size (list);
    if (!lost)
        return fail_nomem (fail);
    end_lines (head);
    remove_links (head, lost, text);
    hostlist_lose (list, lost);
    if (hostlist_divide (list, head->spec.config.settings.num_processes, fail) || add_links (head, text, fail))
        return -1;
    int after = hostlist_world_size (list);
    if (after != before)
        strbuf_printf (text, ": %d instead of %d", after, before);
    return 0;
}
