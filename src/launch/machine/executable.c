/* SPDX-License-Identifier: Apache-2.0 */
/* Executable files, and which Python; see executable.h. */
#include <config.h>

#include "launch/machine/executable.h"

#include "util/cleanup.h"
#include "util/strbuf.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
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

enum { MOST_LINKS = 40 }; /* as the kernel follows */

static const char *const names[] = { "python3", "python" };

/* The interpreter in @folder, which need not end; *path is unchanged if there is none. */
static int
find_in (const char *folder, size_t length, char **path, struct fail *fail)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        AUTO_STRBUF struct strbuf candidate = { 0 };
        strbuf_printf (&candidate, "%.*s/%s", (int) length, folder, names[i]);
        if (candidate.failed)
            return fail_nomem (fail);
        if (executable_is (candidate.text)) {
            *path = strbuf_take (&candidate);
            return 0;
        }
    }
    return 0;
}

/* Is PREFIX/bin, the folder of the file @path, an environment's?  /usr/bin is not, so that a command that is installed
 * for all leaves the choice to what is active. */
static bool
is_in_environment (const char *path)
{
    static const char *const signs[] = { "pyvenv.cfg", "conda-meta" };
    const char *slash = strrchr (path, '/');
    char sign[PATH_MAX + 32];
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        snprintf (sign, sizeof sign, "%.*s/../%s", slash ? (int) (slash - path) : 1, slash ? path : ".", signs[i]);
        if (!access (sign, F_OK))
            return true;
    }
    return false;
}

/* From @path to where its link leads.  @return false if it is not a link, or leads too far */
static bool
follow (char *path)
{
    char target[PATH_MAX], whole[2 * PATH_MAX + 1];
    ssize_t length = readlink (path, target, sizeof target - 1);
    if (length <= 0)
        return false;
    target[length] = '\0';
    const char *slash = *target == '/' ? NULL : strrchr (path, '/');
    int written = snprintf (whole, sizeof whole, "%.*s%s", slash ? (int) (slash - path) + 1 : 0, path, target);
    if (written >= PATH_MAX)
        return false;
    strcpy (path, whole);
    return true;
}

/* The path that was executed is the kernel's, not argv[0], which may be anything. */
static int
find_beside (char **found, char *beside, struct fail *fail)
{
    const char *called = (const char *) getauxval (AT_EXECFN);
    if (!called || strlen (called) >= PATH_MAX)
        return 0;
    strcpy (beside, called);
    for (int i = 0; i <= MOST_LINKS; i++) {
        const char *slash = strrchr (beside, '/');
        if (is_in_environment (beside)
            && find_in (slash ? beside : ".", slash ? (size_t) (slash - beside) : 1, found, fail))
            return -1;
        if (*found || !follow (beside))
            return 0;
    }
    return 0;
}

/* Where in PATH is PREFIX/bin?  @return its index, or the number of folders */
static size_t
index_in_path (const char *prefix)
{
    const char *path = getenv ("PATH");
    size_t index = 0, length = strlen (prefix);
    while (length > 1 && prefix[length - 1] == '/')
        length--;
    for (; path && *path; path += *path == ':', index++) {
        size_t entry = strcspn (path, ":");
        if (entry >= length + 4 && !strncmp (path, prefix, length)
            && (!strncmp (path + length, "/bin:", 5) || !strcmp (path + length, "/bin")))
            return index;
        path += entry;
    }
    return SIZE_MAX;
}

static int
find_active (char **found, const char **variable, struct fail *fail)
{
    const char *variables[] = { "VIRTUAL_ENV", "CONDA_PREFIX" };
    const char *values[2] = { getenv (variables[0]), getenv (variables[1]) };
    bool both = values[0] && *values[0] && values[1] && *values[1];
    int first = both && index_in_path (values[1]) < index_in_path (values[0]);
    for (int i = 0; i < 2 && !*found; i++) {
        *variable = variables[i ^ first];
        const char *prefix = values[i ^ first];
        AUTO_STRBUF struct strbuf bin = { 0 };
        strbuf_printf (&bin, "%s/bin", prefix ? prefix : "");
        if (bin.failed)
            return fail_nomem (fail);
        if (prefix && *prefix && find_in (bin.text, bin.length, found, fail))
            return -1;
    }
    return 0;
}

/* As Python's own sys.executable is, because other hosts, and programs in other folders, may get it. */
static int
make_absolute (char **path, struct fail *fail)
{
    char folder[PATH_MAX];
    char *whole;
    if (!*path || **path == '/' || !getcwd (folder, sizeof folder))
        return 0;
    if (asprintf (&whole, "%s/%s", folder, *path) < 0)
        return fail_nomem (fail);
    free (*path);
    *path = whole;
    return 0;
}

int
python_find (char **path, char **note, struct fail *fail)
{
    char beside[PATH_MAX] = "";
    const char *variable = NULL;
    AUTO_STRBUF struct strbuf why = { 0 };
    AUTO_FREE char *found = NULL;
    *path = NULL;
    if (find_beside (&found, beside, fail))
        return -1;
    if (found)
        strbuf_printf (&why, "in the environment where accelerate is installed, %s", beside);
    else if (find_active (&found, &variable, fail))
        return -1;
    if (found && variable)
        strbuf_printf (&why, "in the environment that %s points to", variable);
    for (size_t i = 0; !found && i < sizeof names / sizeof *names; i++) {
        if (executable_find (names[i], &found, fail))
            return -1;
        if (found)
            strbuf_printf (&why, "the first %s in PATH%s", names[i], i ? ", which has no python3" : "");
    }
    if (make_absolute (&found, fail))
        return -1;
    if (found && note && (why.failed || asprintf (note, "Python is %s: %s", found, why.text) < 0)) {
        *note = NULL;
        return fail_nomem (fail);
    }
    *path = found;
    found = NULL;
    return 0;
}
