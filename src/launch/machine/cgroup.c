/* SPDX-License-Identifier: Apache-2.0 */
/* Both versions of control groups, as far as a launcher cares; see cgroup.h. */
#include <config.h>

#include "launch/machine/cgroup.h"

#include "util/cleanup.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOUNT "/sys/fs/cgroup"

static bool
read_text (const char *path, char *text, size_t size)
{
    AUTO_CLOSE int fd = open (path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read (fd, text, size - 1);
    text[length > 0 ? length : 0] = '\0';
    return length > 0;
}

/* A line is "number:controllers:path", with no controllers in version 2. */
bool
cgroup_path (const char *lines, const char *controller, char *path, size_t size)
{
    size_t wanted = strlen (controller);
    for (const char *line = lines; *line; line += strcspn (line, "\n"), line += *line == '\n') {
        const char *list = strchr (line, ':');
        const char *end = list ? strchr (list + 1, ':') : NULL;
        if (!end)
            continue;
        bool found = !wanted && end == list + 1;
        for (const char *word = list + 1; wanted && word < end; word++) {
            size_t length = strcspn (word, ",:");
            found |= length == wanted && !strncmp (word, controller, wanted);
            word += length;
        }
        if (!found)
            continue;
        size_t length = strcspn (end + 1, "\n");
        if (length >= size)
            return false;
        memcpy (path, end + 1, length);
        path[length] = '\0';
        return true;
    }
    return false;
}

int64_t
cgroup_field (const char *text, const char *key)
{
    size_t length = strlen (key);
    for (const char *line = text; *line; line += strcspn (line, "\n"), line += *line == '\n')
        if (!strncmp (line, key, length) && line[length] == ' ')
            return strtoll (line + length + 1, NULL, 10);
    return -1;
}

/* Of this process, which does not move; read once. */
static const char *
own_lines (void)
{
    static char lines[4096];
    static bool is_read;
    if (!is_read)
        read_text ("/proc/self/cgroup", lines, sizeof lines);
    is_read = true;
    return lines;
}

/* Read a group's file.  In a container the path may be the host's, while the group itself is mounted at the root. */
static bool
read_group (const char *controller, const char *name, char *text, size_t size)
{
    char group[512], path[1024], mount[64];
    if (!cgroup_path (own_lines (), controller, group, sizeof group))
        return false;
    snprintf (mount, sizeof mount, MOUNT "/%s", controller);
    snprintf (path, sizeof path, "%s%s/%s", mount, group, name);
    if (read_text (path, text, size))
        return true;
    snprintf (path, sizeof path, "%s/%s", mount, name);
    return read_text (path, text, size);
}

int64_t
cgroup_oom_kills (void)
{
    char text[4096];
    int64_t kills = -1;
    if (read_group ("", "memory.events", text, sizeof text))
        kills = cgroup_field (text, "oom_kill");
    if (kills < 0 && read_group ("memory", "memory.oom_control", text, sizeof text))
        kills = cgroup_field (text, "oom_kill");
    return kills;
}

int64_t
cgroup_free_pids (void)
{
    static const char *const controllers[] = { "", "pids" };
    char most[64], now[64];
    for (size_t i = 0; i < sizeof controllers / sizeof *controllers; i++) {
        if (!read_group (controllers[i], "pids.max", most, sizeof most)
            || !read_group (controllers[i], "pids.current", now, sizeof now))
            continue;
        int64_t left = strtoll (most, NULL, 10) - strtoll (now, NULL, 10);
        return strncmp (most, "max", 3) ? left > 0 ? left : 0 : -1;
    }
    return -1;
}
