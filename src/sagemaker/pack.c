/* SPDX-License-Identifier: Apache-2.0 */
/* The archive of source code; see pack.h. */
#include <config.h>

#include "sagemaker/pack.h"

#include "util/cleanup.h"

#include <archive.h>
#include <archive_entry.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#define MADE_AT 315532800 /* 1980-01-01, which zip files can say, too: Python may pack modules again */
#define BLOCK 65536

/* The functions that are used: X (name without "archive_"). */
#define ARCHIVE_FUNCTION_MAP(X)                                                                              \
    X (write_new) X (write_free) X (write_close) X (write_set_format_pax_restricted) X (write_add_filter_gzip) \
    X (write_set_filter_option) X (write_set_format_option) X (write_open_fd) X (write_header) X (write_data) \
    X (error_string) X (entry_new) X (entry_free) X (entry_clear) X (entry_set_pathname) X (entry_set_size)  \
    X (entry_set_filetype) X (entry_set_perm) X (entry_set_mtime)

struct library {
#define X(name) __typeof__ (archive_##name) *name;
    ARCHIVE_FUNCTION_MAP (X)
#undef X
};

static const struct library *
load (struct fail *fail)
{
    static struct library library;
    static bool is_loaded;
    if (is_loaded)
        return &library;
    void *handle = dlopen ("libarchive.so.13", RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        fail_set (fail, FAIL_GENERAL, "cannot load libarchive.so.13, which packs source code for SageMaker: install "
                  "libarchive13");
        return NULL;
    }
#define X(name)                                                                                              \
    if (!(*(void **) &library.name = dlsym (handle, "archive_" #name))) {                                    \
        fail_set (fail, FAIL_GENERAL, "libarchive has no function archive_" #name ": install version 3.2 or later"); \
        return NULL;                                                                                         \
    }
    ARCHIVE_FUNCTION_MAP (X)
#undef X
    is_loaded = true;
    return &library;
}

struct writer {
    const struct library *library;
    struct archive *archive;
    struct archive_entry *entry;
    int stop_fd;
    struct fail *fail;
};

static int
refuse (struct writer *writer)
{
    const char *text = writer->library->error_string (writer->archive);
    return fail_set (writer->fail, FAIL_GENERAL, "cannot pack the source code: %s", text ? text : "libarchive failed");
}

static bool
is_stopped (const struct writer *writer)
{
    struct pollfd stop = { .fd = writer->stop_fd, .events = POLLIN };
    return writer->stop_fd >= 0 && poll (&stop, 1, 0) > 0;
}

/* All of a file, which must have the size that it had before. */
static int
copy (struct writer *writer, const struct source_file *file)
{
    static char block[BLOCK];
    uint64_t left = file->size;
    AUTO_CLOSE int fd = open (file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info;
    if (fd < 0 || fstat (fd, &info))
        return fail_set (writer->fail, FAIL_GENERAL, "%s: cannot read: %s", file->path, strerror (errno));
    if (!S_ISREG (info.st_mode) || (uint64_t) info.st_size != file->size)
        return fail_set (writer->fail, FAIL_GENERAL, "%s: changed while it was packed", file->path);
    while (left) {
        if (is_stopped (writer))
            return fail_set (writer->fail, FAIL_BY_SIGNAL + SIGINT,
                             "interrupted; nothing was uploaded, and no job created");
        ssize_t length = read (fd, block, left < sizeof block ? (size_t) left : sizeof block);
        if (length < 0 && errno == EINTR)
            continue;
        if (length <= 0)
            return fail_set (writer->fail, FAIL_GENERAL, "%s: %s", file->path,
                             length ? strerror (errno) : "changed while it was packed");
        if (writer->library->write_data (writer->archive, block, (size_t) length) != length)
            return refuse (writer);
        left -= (uint64_t) length;
    }
    return 0;
}

static int
add (struct writer *writer, const struct source_file *file)
{
    const struct library *library = writer->library;
    library->entry_clear (writer->entry);
    library->entry_set_pathname (writer->entry, file->name);
    library->entry_set_filetype (writer->entry, file->is_folder ? AE_IFDIR : AE_IFREG);
    library->entry_set_perm (writer->entry, file->is_folder || file->is_executable ? 0755 : 0644);
    library->entry_set_size (writer->entry, (la_int64_t) file->size);
    library->entry_set_mtime (writer->entry, MADE_AT, 0);
    if (library->write_header (writer->archive, writer->entry) != ARCHIVE_OK)
        return refuse (writer);
    return file->is_folder ? 0 : copy (writer, file);
}

static int
start (struct writer *writer, int fd)
{
    const struct library *library = writer->library;
    if (library->write_add_filter_gzip (writer->archive) != ARCHIVE_OK
        || library->write_set_filter_option (writer->archive, "gzip", "timestamp", NULL) != ARCHIVE_OK
        || library->write_set_format_pax_restricted (writer->archive) != ARCHIVE_OK
        /* Names are bytes, whatever the locale says; Python reads them as UTF-8. */
        || library->write_set_format_option (writer->archive, "pax", "hdrcharset", "BINARY") != ARCHIVE_OK
        || library->write_open_fd (writer->archive, fd) != ARCHIVE_OK)
        return refuse (writer);
    return 0;
}

int
pack_write (int fd, const struct source *source, int stop_fd, struct fail *fail)
{
    struct writer writer = { .library = load (fail), .stop_fd = stop_fd, .fail = fail };
    if (!writer.library)
        return -1;
    writer.archive = writer.library->write_new ();
    writer.entry = writer.library->entry_new ();
    int result = writer.archive && writer.entry ? start (&writer, fd) : fail_nomem (fail);
    for (size_t i = 0; !result && i < source->count; i++)
        result = add (&writer, &source->files[i]);
    if (!result && writer.library->write_close (writer.archive) != ARCHIVE_OK)
        result = refuse (&writer);
    if (writer.entry)
        writer.library->entry_free (writer.entry);
    if (writer.archive)
        writer.library->write_free (writer.archive);
    return result;
}
