/* SPDX-License-Identifier: Apache-2.0 */
/* One pass over /proc; see sweep.h. */
#include <config.h>

#include "launch/sweep.h"

#include "util/cleanup.h"
#include "util/envnames.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>

struct entry {
    pid_t pid, parent, group;
    bool member;
};

struct table {
    struct entry *entries;
    size_t count, capacity;
};

static ssize_t
read_proc (pid_t pid, const char *name, char *text, size_t size)
{
    char path[64];
    snprintf (path, sizeof path, "/proc/%d/%s", (int) pid, name);
    AUTO_CLOSE int fd = open (path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -1 : read (fd, text, size);
}

/* "PID (NAME) STATE PARENT GROUP ...", where NAME may hold anything.  @return false for a zombie */
static bool
read_stat (pid_t pid, struct entry *entry)
{
    char text[1024];
    ssize_t length = read_proc (pid, "stat", text, sizeof text - 1);
    if (length <= 0)
        return false;
    text[length] = '\0';
    const char *end = strrchr (text, ')');
    char state;
    int parent, group;
    if (!end || sscanf (end + 1, " %c %d %d", &state, &parent, &group) != 3)
        return false;
    *entry = (struct entry){ .pid = pid, .parent = parent, .group = group };
    return state != 'Z' && state != 'X';
}

/* An environment may be long: read it in pieces, each keeping the end of the one before so that no entry is cut. */
static bool
is_marked (pid_t pid, const char *mark)
{
    static const char name[] = ENV_JOB_ID "=";
    char path[64], text[8192];
    snprintf (path, sizeof path, "/proc/%d/environ", (int) pid);
    AUTO_CLOSE int fd = open (path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t kept = 0;
    for (;;) {
        ssize_t length = read (fd, text + kept, sizeof text - kept);
        if (length <= 0)
            return false;
        size_t end = kept + (size_t) length;
        const char *found = memmem (text, end, name, sizeof name - 1);
        size_t value = found ? strnlen (found, (size_t) (text + end - found)) : 0;
        if (found && memmem (found, value, mark, strlen (mark)))
            return true;
        kept = end < 1024 ? end : 1024; /* more than the longest value of ours */
        memmove (text, text + end - kept, kept);
    }
}

static bool
add (struct table *table, const struct entry *entry)
{
    if (table->count == table->capacity) {
        size_t wanted = table->capacity ? table->capacity * 2 : 256;
        struct entry *grown = reallocarray (table->entries, wanted, sizeof *grown);
        if (!grown)
            return false;
        table->entries = grown;
        table->capacity = wanted;
    }
    table->entries[table->count++] = *entry;
    return true;
}

static bool
is_in_group (const struct sweep *sweep, pid_t group)
{
    for (int i = 0; i < sweep->group_count; i++)
        if (sweep->groups[i] && sweep->groups[i] == group)
            return true;
    return false;
}

static bool
read_table (const struct sweep *sweep, struct table *table)
{
    DIR *dir = opendir ("/proc");
    if (!dir)
        return false;
    for (const struct dirent *item; (item = readdir (dir));) {
        struct entry entry;
        if (!isdigit ((unsigned char) item->d_name[0]) || !read_stat ((pid_t) atoi (item->d_name), &entry))
            continue;
        if (entry.pid == getpid () || entry.pid == sweep->spared || entry.pid == sweep->root || entry.pid == 1)
            continue;
        entry.member = is_in_group (sweep, entry.group) || (sweep->root && entry.parent == sweep->root)
                       || (sweep->mark && is_marked (entry.pid, sweep->mark));
        if (!add (table, &entry))
            break;
    }
    closedir (dir);
    return true;
}

/* Children of members are members; until nothing changes. */
static void
close_over_children (struct table *table)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < table->count; i++) {
            struct entry *child = &table->entries[i];
            for (size_t j = 0; !child->member && j < table->count; j++)
                if (table->entries[j].member && table->entries[j].pid == child->parent)
                    changed = child->member = true;
        }
    }
}

int
sweep_signal (const struct sweep *sweep, int signal)
{
    struct table table = { 0 };
    if (!read_table (sweep, &table))
        return -1;
    close_over_children (&table);
    int count = 0;
    for (size_t i = 0; i < table.count; i++)
        if (table.entries[i].member && !kill (table.entries[i].pid, signal))
            count++;
    free (table.entries);
    return count;
}
