/* SPDX-License-Identifier: Apache-2.0 */
/* Memory whose contents are in a file; see memory_file.h. */
#include <config.h>

#include "util/memory_file.h"

#include "util/cleanup.h"
#include "util/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* A smaller piece saves nothing that is worth a mapping, of which the kernel has a limited number for each process. */
enum { BLOCK = 1 << 20, PIECE_LEAST = 64 << 10 };

/* Whole pages that are mapped from the file. */
struct piece {
    char *begin;
    size_t bytes;
    off_t offset;
};

struct memory_file {
    int fd;
    struct piece *pieces; /* [count], by address */
    size_t count;
    off_t bytes;
    _Atomic int error;
};

static int
compare (const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static int
make_pieces (struct memory_file *file, const struct memory_range *ranges, size_t count)
{
    uintptr_t page = (uintptr_t) sysconf (_SC_PAGESIZE);
    file->pieces = calloc (count + 1, sizeof *file->pieces);
    for (size_t i = 0; file->pieces && i < count; i++) {
        uintptr_t begin = ((uintptr_t) ranges[i].memory + page - 1) / page * page;
        uintptr_t end = ((uintptr_t) ranges[i].memory + ranges[i].bytes) / page * page;
        if (end < begin + PIECE_LEAST)
            continue;
        file->pieces[file->count++] = (struct piece){ (char *) begin, end - begin, file->bytes };
        file->bytes += (off_t) (end - begin);
    }
    if (file->pieces)
        qsort (file->pieces, file->count, sizeof *file->pieces, compare);
    return file->pieces ? 0 : -1;
}

/* File systems without O_TMPFILE get a name for a moment. */
static int
open_unnamed (const char *folder)
{
    char path[4096];
    int fd = open (folder, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return fd;
    if ((size_t) snprintf (path, sizeof path, "%s/.accel-XXXXXX", folder) >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = mkostemp (path, O_CLOEXEC);
    if (fd >= 0)
        unlink (path);
    return fd;
}

/* Room that is reserved has zeros, so these need not be written. */
static bool
is_zero (const char *memory, size_t bytes)
{
    return !*memory && !memcmp (memory, memory + 1, bytes - 1);
}

static int
write_all (int fd, const struct piece *piece)
{
    for (size_t at = 0, bytes; at < piece->bytes; at += bytes) {
        bytes = piece->bytes - at < BLOCK ? piece->bytes - at : BLOCK;
        for (size_t done = 0; done < bytes && !is_zero (piece->begin + at, bytes);) {
            ssize_t count = pwrite (fd, piece->begin + at + done, bytes - done, piece->offset + (off_t) (at + done));
            if (count < 0 && errno != EINTR)
                return -1;
            done += count > 0 ? (size_t) count : 0;
        }
    }
    return 0;
}

static bool
read_all (int fd, const struct piece *piece, char *memory)
{
    for (size_t at = 0; at < piece->bytes;) {
        ssize_t count = pread (fd, memory + at, piece->bytes - at, piece->offset + (off_t) at);
        if (!count || (count < 0 && errno != EINTR))
            return false;
        at += count > 0 ? (size_t) count : 0;
    }
    return true;
}

/* New memory takes the place of a piece when it has all that is to be there.  If that fails the piece stays mapped,
 * until the process ends. */
static void
take_back (struct memory_file *file, size_t count, bool keeps)
{
    for (size_t i = 0; i < count; i++) {
        const struct piece *piece = &file->pieces[i];
        void *memory = mmap (NULL, piece->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                             -1, 0);
        if (memory == MAP_FAILED)
            continue;
        memory_use_small_pages (memory, piece->bytes);
        if ((keeps && !read_all (file->fd, piece, memory))
            || mremap (memory, piece->bytes, piece->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, piece->begin) == MAP_FAILED)
            munmap (memory, piece->bytes);
    }
}

static void
destroy (struct memory_file *file)
{
    if (file->fd >= 0)
        close (file->fd);
    free (file->pieces);
    free (file);
}

/* @return an errno.  Beyond the limit for files, SIGXFSZ would end the process. */
static int
reserve (const struct memory_file *file)
{
    struct rlimit limit;
    int number;
    if (!getrlimit (RLIMIT_FSIZE, &limit) && limit.rlim_cur < (rlim_t) file->bytes)
        return EFBIG;
    do
        number = posix_fallocate (file->fd, 0, file->bytes);
    while (number == EINTR);
    return number;
}

static int
move (struct memory_file *file, const char *folder, struct fail *fail)
{
    file->fd = open_unnamed (folder);
    if (file->fd < 0)
        return fail_set (fail, FAIL_GENERAL, "cannot make a file in '%.500s': %s", folder, strerror (errno));
    int number = reserve (file);
    if (number)
        return fail_set (fail, FAIL_GENERAL, "cannot reserve %lld bytes in '%.500s': %s", (long long) file->bytes,
                         folder, strerror (number));
    for (size_t i = 0; i < file->count; i++)
        if (write_all (file->fd, &file->pieces[i]))
            return fail_set (fail, FAIL_GENERAL, "cannot write to a file in '%.500s': %s", folder, strerror (errno));
    for (size_t i = 0; i < file->count; i++) {
        const struct piece *piece = &file->pieces[i];
        void *memory = mmap (piece->begin, piece->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file->fd,
                             piece->offset);
        if (memory == MAP_FAILED) {
            number = errno;
            take_back (file, i, true);
            return fail_set (fail, FAIL_GENERAL, "cannot map a file in '%.500s': %s", folder, strerror (number));
        }
    }
    return 0;
}

int
memory_file_create (struct memory_file **file, const char *folder, const struct memory_range *ranges, size_t count,
                    struct fail *fail)
{
    struct memory_file *made = calloc (1, sizeof *made);
    int result = made ? make_pieces (made, ranges, count) : -1;
    *file = NULL;
    if (made)
        made->fd = -1;
    if (result)
        result = fail_nomem (fail);
    else if (made->count)
        result = move (made, folder, fail);
    if (result || !made->count) {
        if (made)
            destroy (made);
        return result;
    }
    for (size_t i = 0; i < made->count; i++)
        memory_file_release (made, made->pieces[i].begin, made->pieces[i].bytes);
    *file = made;
    return 0;
}

void
memory_file_end (struct memory_file *file, bool keeps)
{
    if (!file)
        return;
    take_back (file, file->count, keeps);
    destroy (file);
}

/* ---- pages ---- */

static void
sync_range (struct memory_file *file, char *memory, size_t bytes, off_t offset, bool waits)
{
    int none = 0;
    unsigned how = waits ? SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER
                         : SYNC_FILE_RANGE_WRITE;
    if (sync_file_range (file->fd, offset, (off_t) bytes, how)) {
        atomic_compare_exchange_strong (&file->error, &none, errno);
        return;
    }
    if (!waits || memory_file_error (file))
        return;
    (void) madvise (memory, bytes, MADV_DONTNEED);
    (void) posix_fadvise (file->fd, offset, (off_t) bytes, POSIX_FADV_DONTNEED);
}

/* Pages that a range has a part of, but not the last one if the range goes on in it: what follows does. */
static void
sync_pieces (struct memory_file *file, const void *memory, size_t bytes, bool waits)
{
    uintptr_t page = (uintptr_t) sysconf (_SC_PAGESIZE);
    uintptr_t begin = (uintptr_t) memory / page * page, end = ((uintptr_t) memory + bytes) / page * page;
    size_t low = 0, high = file ? file->count : 0;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((uintptr_t) file->pieces[middle].begin + file->pieces[middle].bytes <= begin)
            low = middle + 1;
        else
            high = middle;
    }
    for (; file && low < file->count && (uintptr_t) file->pieces[low].begin < end; low++) {
        const struct piece *piece = &file->pieces[low];
        size_t from = begin > (uintptr_t) piece->begin ? begin - (uintptr_t) piece->begin : 0;
        size_t to = end - (uintptr_t) piece->begin < piece->bytes ? end - (uintptr_t) piece->begin : piece->bytes;
        if (from < to)
            sync_range (file, piece->begin + from, to - from, piece->offset + (off_t) from, waits);
    }
}

void
memory_file_write (struct memory_file *file, const void *memory, size_t bytes)
{
    sync_pieces (file, memory, bytes, false);
}

void
memory_file_release (struct memory_file *file, const void *memory, size_t bytes)
{
    sync_pieces (file, memory, bytes, true);
}

int
memory_file_error (const struct memory_file *file)
{
    return file ? atomic_load (&file->error) : 0;
}
