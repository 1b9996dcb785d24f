/* SPDX-License-Identifier: Apache-2.0 */
/* Executable files; see executable.h. */
#include <config.h>

#include "launch/machine/executable.h"

#include "util/cleanup.h"
#include "util/strbuf.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool
executable_is (const char *path)
{
    struct stat info;
    return !stat (path, &info) && S_ISREG (info.st_mode) && !faccessat (AT_FDCWD, path, X_OK, AT_EACCESS);
}

int
executable_find (const char *name, char **found, struct fail *fail)
{
    const char *path = getenv ("PATH");
    *found = NULL;
    if (!path)
        path = "/usr/local/bin:/usr/bin:/bin";
    for (;;) {
        size_t length = strcspn (path, ":");
        AUTO_STRBUF struct strbuf candidate = { 0 };
        strbuf_add_bytes (&candidate, path, length);
        strbuf_add (&candidate, length ? "/" : "./"); /* an empty entry is the current folder */
        strbuf_add (&candidate, name);
        if (candidate.failed)
            return fail_nomem (fail);
        if (executable_is (candidate.text)) {
            *found = strbuf_take (&candidate);
            return 0;
        }
        if (!path[length])
            return 0;
        path += length + 1;
    }
}
