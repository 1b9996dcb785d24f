/* SPDX-License-Identifier: Apache-2.0 */
/* Files of keys; see state.h. */
#include <config.h>

#include "hosts/peers/state.h"

#include "config/paths.h"
#include "util/cleanup.h"
#include "util/io.h"

#include <ctype.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

enum { NEW_KEY_BYTES = 32 };

/* Secrets that a container mounts belong to root, and its group may read them. */
static int
check_file (const char *path, int fd, struct fail *fail)
{
    struct stat info;
    if (fstat (fd, &info))
        return fail_set (fail, FAIL_GENERAL, "%s: %s", path, strerror (errno));
    if (!S_ISREG (info.st_mode))
        return fail_set (fail, FAIL_GENERAL, "%s: expected a regular file", path);
    if (info.st_uid != geteuid () && info.st_uid != 0)
        return fail_set (fail, FAIL_GENERAL, "%s belongs to another user", path);
    if (info.st_mode & (info.st_uid == geteuid () ? 077 : 027))
        return fail_set (fail, FAIL_GENERAL, "other users can access %s; run chmod 600 on it", path);
    return 0;
}

/* White space at the end belongs to the file, not to the key. */
static int
read_key (struct channel_key *key, const char *path, int fd, struct fail *fail)
{
    size_t length = 0;
    ssize_t got;
    while ((got = read (fd, key->bytes + length, sizeof key->bytes - length)) > 0)
        length += (size_t) got;
    if (got < 0)
        return fail_set (fail, FAIL_GENERAL, "%s: %s", path, strerror (errno));
    if (length == sizeof key->bytes)
        return fail_set (fail, FAIL_GENERAL, "%s: a key must have fewer than %d bytes", path, CHANNEL_KEY_MOST);
    while (length && isspace (key->bytes[length - 1]))
        length--;
    if (length < CHANNEL_KEY_LEAST)
        return fail_set (fail, FAIL_GENERAL, "%s: a key has at least %d bytes, but this one has %zu", path,
                         CHANNEL_KEY_LEAST, length);
    key->length = length;
    return 0;
}

/* link() fails if another launch has been quicker, and its key counts. */
static int
put_new (const char *beside, const char *path)
{
    unsigned char bytes[NEW_KEY_BYTES];
    char text[2 * NEW_KEY_BYTES + 2];
    randombytes_buf (bytes, sizeof bytes);
    sodium_bin2hex (text, sizeof text, bytes, sizeof bytes);
    text[2 * NEW_KEY_BYTES] = '\n';
    AUTO_CLOSE int fd = open (beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    int failed = fd < 0 || io_write_all (fd, text, sizeof text - 1) || fsync (fd)
                 || (link (beside, path) && errno != EEXIST);
    int error = errno;
    sodium_memzero (text, sizeof text);
    sodium_memzero (bytes, sizeof bytes);
    if (fd >= 0)
        unlink (beside);
    errno = error;
    return failed ? -1 : 0;
}

static int
make_key (const char *path, struct fail *fail)
{
    AUTO_STRBUF struct strbuf beside = { 0 };
    struct fail why = { 0 };
    char host[256] = "";
    gethostname (host, sizeof host - 1);
    strbuf_printf (&beside, "%s.%s.%d", path, host, (int) getpid ());
    if (beside.failed)
        return fail_nomem (fail);
    if (io_make_parents (path, &why))
        return fail_set (fail, FAIL_GENERAL, "cannot create a job key: %s", why.text);
    if (put_new (beside.text, path))
        return fail_set (fail, FAIL_GENERAL, "cannot create the job key %s: %s", path, strerror (errno));
    io_sync_directory_of (path);
    return 0;
}

int
job_key_read (struct channel_key *key, const char *file, bool create, struct fail *fail)
{
    AUTO_FREE char *own = NULL;
    *key = (struct channel_key){ .length = 0 };
    if (sodium_init () < 0)
        return fail_set (fail, FAIL_GENERAL, "libsodium cannot be used here: no random numbers");
    if (!file && path_of_job_key (&own, fail))
        return -1;
    const char *path = file ? file : own;
    AUTO_CLOSE int fd = open (path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT && !file) {
        if (!create)
            return fail_set (fail, FAIL_GENERAL, "there is no job key %s; copy it from the main machine, or name a "
                             "file with --job_key_file on all machines", path);
        if (make_key (path, fail))
            return -1;
        fd = open (path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    }
    if (fd < 0)
        return fail_set (fail, FAIL_GENERAL, "cannot read the job key %s: %s", path, strerror (errno));
    if (check_file (path, fd, fail) || read_key (key, path, fd, fail)) {
        sodium_memzero (key, sizeof *key);
        return -1;
    }
    return 0;
}
