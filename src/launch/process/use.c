/* SPDX-License-Identifier: Apache-2.0 */
/* What a process and its descendants use; see process.h. */
#include <config.h>

#include "launch/process/process.h"

#include "util/array.h"
#include "util/cleanup.h"
#include "util/procfs.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MOST_LEVELS = 16, /* of descendants */
    MOST_PARENTS = 64,
};

/* Call @visit with the name of each thread of @pid. */
static void
visit_threads (pid_t pid, void (*visit) (pid_t pid, const char *thread, void *user), void *user)
{
    char path[64];
    snprintf (path, sizeof path, "/proc/%d/task", (int) pid);
    DIR *tasks = opendir (path);
    for (const struct dirent *item; tasks && (item = readdir (tasks));)
        if (*item->d_name != '.')
            visit (pid, item->d_name, user);
    if (tasks)
        closedir (tasks);
}

struct children {
    pid_t *pids;
    size_t count;
};

static void
add_children (pid_t pid, const char *thread, void *user)
{
    struct children *children = user;
    AUTO_STRBUF struct strbuf text = { 0 };
    char name[64], *end;
    snprintf (name, sizeof name, "task/%.20s/children", thread);
    procfs_read_whole (pid, name, &text);
    if (text.failed || !text.length)
        return;
    for (char *at = text.text; *at; at = end) {
        long child = strtol (at, &end, 10);
        if (child <= 0)
            return;
        pid_t *added = array_room (&children->pids, children->count, sizeof *added);
        if (!added)
            return;
        *added = (pid_t) child;
        children->count++;
    }
}

size_t
process_children (pid_t pid, pid_t **pids)
{
    struct children children = { 0 };
    visit_threads (pid, add_children, &children);
    *pids = children.pids;
    return children.count;
}

static bool
is_ready (pid_t pid, const char *thread)
{
    char name[64], text[512];
    snprintf (name, sizeof name, "task/%.20s/stat", thread);
    const char *end = procfs_read (pid, name, text, sizeof text) > 0 ? strrchr (text, ')') : NULL; /* of its name */
    return end && !strncmp (end, ") R", 3);
}

static uint64_t
count_sleeps (pid_t pid, const char *thread)
{
    static const char key[] = "\nvoluntary_ctxt_switches:";
    char name[64];
    AUTO_STRBUF struct strbuf text = { 0 };
    snprintf (name, sizeof name, "task/%.20s/status", thread);
    procfs_read_whole (pid, name, &text); /* a process may be in thousands of groups */
    const char *at = text.length ? strstr (text.text, key) : NULL;
    return at ? strtoull (at + sizeof key - 1, NULL, 10) : 0;
}

static void
add_thread (pid_t pid, const char *thread, void *user)
{
    char name[64], text[128];
    unsigned long long ran_ns = 0, delayed_ns = 0;
    struct process_use *use = user;
    snprintf (name, sizeof name, "task/%.20s/schedstat", thread);
    if (procfs_read (pid, name, text, sizeof text) > 0 && sscanf (text, "%llu %llu", &ran_ns, &delayed_ns) == 2)
        use->delayed_ns += delayed_ns;
    if (pid == use->pid && strtol (thread, NULL, 10) == pid)
        use->first = (struct process_thread){ ran_ns, delayed_ns, count_sleeps (pid, thread), is_ready (pid, thread) };
    else
        use->is_ready = use->is_ready || is_ready (pid, thread);
}

static void
add_level (pid_t pid, int levels, struct process_use *use)
{
    struct procfs_stat stat;
    pid_t *children = NULL;
    if (!procfs_read_stat (pid, &stat))
        return;
    use->cpu_ns += (stat.cpu_ticks + stat.child_ticks) * (UINT64_C (1000000000) / (uint64_t) sysconf (_SC_CLK_TCK));
    use->memory += stat.resident_pages * (uint64_t) sysconf (_SC_PAGESIZE);
    visit_threads (pid, add_thread, use);
    size_t count = levels ? process_children (pid, &children) : 0;
    for (size_t i = 0; i < count; i++)
        add_level (children[i], levels - 1, use);
    free (children);
}

struct process_use
process_find_use (pid_t pid)
{
    struct process_use use = { .pid = pid };
    if (pid > 0)
        add_level (pid, MOST_LEVELS, &use);
    return use;
}

bool
process_is_below (pid_t pid, pid_t ancestor)
{
    struct procfs_stat stat;
    for (int i = 0; i < MOST_PARENTS && pid > 1 && pid != ancestor; i++)
        pid = procfs_read_stat (pid, &stat) ? stat.parent : 0;
    return pid > 1 && pid == ancestor;
}
