/* SPDX-License-Identifier: Apache-2.0 */
/* Making and opening the memory tier; see memtier.h. */
#include <config.h>

#include "util/memtier.h"

#include "util/memory.h"
#include "util/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC UINT64_C (0x314d454d4c434341)
enum { MEMTIER_VERSION = 3, KEPT_FREE = 10 /* a tenth of what is free */ };

static int
map (struct memtier *memtier, struct fail *fail)
{
    void *header = mmap (NULL, sizeof *memtier->header, PROT_READ | PROT_WRITE, MAP_SHARED, memtier->fd, 0);
    if (header == MAP_FAILED)
        return fail_set (fail, FAIL_GENERAL, "cannot map the memory for checkpoints: %s", strerror (errno));
    memtier->header = header;
    return 0;
}

/* It has its size from the beginning, because all ranks map its table: no process can make it smaller. */
int
memtier_create (struct memtier *memtier, struct fail *fail)
{
    struct rlimit files;
    *memtier = (struct memtier) MEMTIER_NONE;
    const off_t bytes = (off_t) memtier_place (MEMTIER_ENTRIES + MEMTIER_LOADED);
    if (!getrlimit (RLIMIT_FSIZE, &files) && files.rlim_cur < (rlim_t) bytes) /* otherwise SIGXFSZ kills us */
        return fail_set (fail, FAIL_GENERAL, "checkpoints in memory need files of unlimited size: ulimit -f unlimited");
    memtier->fd = memfd_create ("accel-checkpoints", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memtier->fd < 0 || ftruncate (memtier->fd, bytes)
        || fcntl (memtier->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)) {
        fail_set (fail, FAIL_GENERAL, "cannot create memory for checkpoints: %s", strerror (errno));
        goto error;
    }
    if (map (memtier, fail))
        goto error;
    memtier->header->version = MEMTIER_VERSION;
    atomic_store (&memtier->header->buffers, MEMTIER_BUFFERS_ALONE);
    memtier->header->magic = MAGIC;
    return 0;
error:
    memtier_release (memtier);
    return -1;
}

void
memtier_begin (const struct memtier *memtier, int local_world_size, int64_t restarts, const char *job_id,
               const char *limit_file)
{
    struct memtier_header *header = memtier->header;
    uint32_t entries = (uint32_t) local_world_size * MEMTIER_BUFFERS;
    header->entry_count = entries > header->entry_count ? entries : header->entry_count;
    header->rank_count = (uint32_t) local_world_size;
    header->restarts = (uint64_t) restarts;
    snprintf (header->job_id, sizeof header->job_id, "%s", job_id);
    memtier_limit (memtier, limit_file);
}

void
memtier_limit (const struct memtier *memtier, const char *limit_file)
{
    snprintf (memtier->header->limit_file, sizeof memtier->header->limit_file, "%s", limit_file);
}

int
memtier_attach (struct memtier *memtier, const char *path, const char *job_id, struct fail *fail)
{
    struct stat info;
    *memtier = (struct memtier){ .fd = open (path, O_RDWR | O_CLOEXEC) };
    if (memtier->fd < 0 || fstat (memtier->fd, &info)) {
        fail_set (fail, FAIL_GENERAL, "%s: %s", path, strerror (errno));
        goto error;
    }
    if (!S_ISREG (info.st_mode) || info.st_size < (off_t) sizeof *memtier->header) {
        fail_set (fail, FAIL_GENERAL, "%s: not memory for checkpoints", path);
        goto error;
    }
    if (map (memtier, fail))
        goto error;
    const struct memtier_header *header = memtier->header;
    if (header->magic == MAGIC && header->version == MEMTIER_VERSION && header->entry_count <= MEMTIER_OWN
        && !strncmp (header->job_id, job_id, sizeof header->job_id))
        return 0;
    fail_set (fail, FAIL_GENERAL, "%s: not memory for checkpoints of job %.39s", path, job_id);
error:
    memtier_release (memtier);
    return -1;
}

int
memtier_write (const struct memtier *memtier, const void *bytes, size_t length, uint64_t at)
{
    for (const char *next = bytes; length;) {
        ssize_t some = pwrite (memtier->fd, next, length, (off_t) at);
        if (some < 0 && errno != EINTR)
            return -1;
        size_t put = some > 0 ? (size_t) some : 0;
        next += put;
        at += put;
        length -= put;
    }
    return 0;
}

int
memtier_read (const struct memtier *memtier, void *bytes, size_t length, uint64_t at)
{
    for (char *next = bytes; length;) {
        ssize_t some = memory_read (memtier->fd, next, length, (off_t) at);
        if (some == 0) /* nothing is behind the end of the file */
            errno = EINVAL;
        if (some == 0 || (some < 0 && errno != EINTR))
            return -1;
        size_t got = some > 0 ? (size_t) some : 0;
        next += got;
        at += got;
        length -= got;
    }
    return 0;
}

/* ---- how much there is ---- */

static uint64_t
number_after (const char *text, const char *key)
{
    const char *at = strstr (text, key);
    return at ? strtoull (at + strlen (key), NULL, 10) : 0;
}

static bool
read_beside (const char *file, const char *name, char *text, size_t size)
{
    char path[1024];
    const char *slash = strrchr (file, '/');
    return slash && (size_t) snprintf (path, sizeof path, "%.*s/%s", (int) (slash - file), file, name) < sizeof path
           && procfs_read_file (path, text, size) > 0;
}

/* Pages of files that were not used lately are given back before the limit is reached. */
static uint64_t
free_in_group (const char *limit_file)
{
    char text[8192];
    if (procfs_read_file (limit_file, text, sizeof text) <= 0)
        return UINT64_MAX;
    uint64_t limit = strtoull (text, NULL, 10);
    bool is_known = read_beside (limit_file, "memory.current", text, sizeof text)
                    || read_beside (limit_file, "memory.usage_in_bytes", text, sizeof text);
    uint64_t used = is_known ? strtoull (text, NULL, 10) : 0;
    uint64_t files = 0;
    if (read_beside (limit_file, "memory.stat", text, sizeof text))
        files = number_after (text, "\ninactive_file ");
    used = used > files ? used - files : 0;
    return limit > used ? limit - used : 0;
}

uint64_t
memtier_free_bytes (const struct memtier *memtier, const char **source)
{
    char text[4096];
    const char *limit_file = memtier->header->limit_file;
    uint64_t group = *limit_file ? free_in_group (limit_file) : UINT64_MAX, host = UINT64_MAX;
    if (procfs_read_file ("/proc/meminfo", text, sizeof text) > 0)
        host = number_after (text, "MemAvailable:") * 1024;
    *source = group < host ? "the control group of the job" : "this host";
    uint64_t left = group < host ? group : host;
    return left - left / KEPT_FREE;
}

void
memtier_clear (const struct memtier *memtier, uint64_t at, uint64_t length)
{
    (void) fallocate (memtier->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t) at, (off_t) length);
}

void
memtier_release (struct memtier *memtier)
{
    if (memtier->header)
        munmap (memtier->header, sizeof *memtier->header);
    if (memtier->fd >= 0)
        close (memtier->fd);
    *memtier = (struct memtier) MEMTIER_NONE;
}
