/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs in /proc/driver/nvidia and /sys; see gpu_places.h. */
#include <config.h>

#include "launch/gpu_places.h"

#include "util/cleanup.h"
#include "util/io.h"
#include "util/strbuf.h"

#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_BYTES = 16 * 1024 };

/* The first line of a file of /sys.  @return whether there is one that fits */
static bool
read_line (const char *root, const char *bus, const char *name, char *line, size_t size)
{
    AUTO_STRBUF struct strbuf path = { 0 };
    AUTO_FREE char *text = NULL;
    strbuf_printf (&path, "%s/sys/bus/pci/devices/%s/%s", root, bus, name);
    if (path.failed || io_read_file (path.text, FILE_BYTES, &text, NULL, NULL))
        return false;
    size_t length = strcspn (text, "\n");
    if (!length || length >= size)
        return false;
    memcpy (line, text, length);
    line[length] = '\0';
    return true;
}

void
gpu_place_find (const char *root, struct gpu_place *place)
{
    char node[16];
    place->node = -1;
    if (read_line (root, place->bus, "numa_node", node, sizeof node))
        place->node = (int) strtol (node, NULL, 10);
    if (!read_line (root, place->bus, "local_cpulist", place->cpus, sizeof place->cpus))
        *place->cpus = '\0';
}

/* "Model: \t\t NVIDIA H200": the value of a line, or "". */
static void
find_field (const char *text, const char *field, char *value, size_t size)
{
    *value = '\0';
    const char *line = strstr (text, field);
    if (!line)
        return;
    line += strlen (field);
    line += strspn (line, " \t");
    size_t length = strcspn (line, "\n");
    while (length && isspace ((unsigned char) line[length - 1]))
        length--;
    snprintf (value, size, "%.*s", (int) length, line);
}

/* In a container, /proc lists the host's GPUs, but /dev has only those that were passed on.  If it has none at all, the
 * nodes are made when they are first used. */
static bool
has_node (const char *root, const char *minor)
{
    AUTO_STRBUF struct strbuf path = { 0 };
    strbuf_printf (&path, "%s/dev/nvidia0", root);
    bool has_any = false;
    for (int i = 0; i < GPU_PLACES_MOST && !path.failed && !has_any; i++) {
        strbuf_truncate (&path, 0);
        strbuf_printf (&path, "%s/dev/nvidia%d", root, i);
        has_any = !path.failed && !access (path.text, F_OK);
    }
    if (!has_any || !*minor)
        return true;
    strbuf_truncate (&path, 0);
    strbuf_printf (&path, "%s/dev/nvidia%s", root, minor);
    return path.failed || !access (path.text, F_OK);
}

static int
compare (const void *one, const void *other)
{
    return strcmp (((const struct gpu_place *) one)->bus, ((const struct gpu_place *) other)->bus);
}

int
gpu_places_list (const char *root, struct gpu_place *places)
{
    AUTO_STRBUF struct strbuf path = { 0 };
    strbuf_printf (&path, "%s/proc/driver/nvidia/gpus", root);
    DIR *dir = path.failed ? NULL : opendir (path.text);
    int count = 0;
    for (const struct dirent *entry; dir && count < GPU_PLACES_MOST && (entry = readdir (dir));) {
        struct gpu_place *place = &places[count];
        if (*entry->d_name == '.' || strlen (entry->d_name) >= sizeof place->bus)
            continue;
        char minor[16] = "";
        AUTO_FREE char *text = NULL;
        *place = (struct gpu_place){ .node = -1 };
        memcpy (place->bus, entry->d_name, strlen (entry->d_name));
        strbuf_truncate (&path, 0);
        strbuf_printf (&path, "%s/proc/driver/nvidia/gpus/%s/information", root, entry->d_name);
        if (!path.failed && !io_read_file (path.text, FILE_BYTES, &text, NULL, NULL)) {
            find_field (text, "Model:", place->model, sizeof place->model);
            find_field (text, "GPU UUID:", place->uuid, sizeof place->uuid);
            find_field (text, "Device Minor:", minor, sizeof minor);
        }
        if (!has_node (root, minor))
            continue;
        gpu_place_find (root, place);
        count++;
    }
    if (dir)
        closedir (dir);
    qsort (places, (size_t) count, sizeof *places, compare);
    return count;
}
