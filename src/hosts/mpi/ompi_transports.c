/* SPDX-License-Identifier: Apache-2.0 */
/* Open MPI's transports for devices that this host lacks; see mpi.h.  They find that out by themselves, but only when
 * their libraries have measured the processor's clock, for 100 ms each, in each MPI_Init(). */
#include <config.h>

#include "hosts/mpi/mpi.h"

#include "util/cleanup.h"
#include "util/io.h"
#include "util/text.h"

#include <ctype.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES = 1 << 20 };

#define PARAMETER "mtl"
#define LIST_CHARACTERS "abcdefghijklmnopqrstuvwxyz0123456789_,"

/* Named as `mtl` names them, with the devices that they look for. */
static const struct transport {
    const char *name, *devices;
} transports[] = {
    { "psm", "/dev/ipath*" },
    { "psm2", "/dev/hfi1_*" },
};

/* Variables that name other files of parameters, of Open MPI 4 and 5. */
static const char *const other_files[] = { "OMPI_MCA_mca_base_param_files", "OMPI_MCA_mca_param_files" };

/* Whose parameters are not in PREFIX/etc, where PREFIX/bin has the daemon: Debian's, and Fedora's. */
static const struct distribution {
    const char *prefix, *folder;
} distributions[] = {
    { "/usr", "/etc/openmpi" },
    { "/usr/lib64/openmpi", "/etc/openmpi-x86_64" },
};

static bool
exists (const char *pattern)
{
    glob_t found = { 0 };
    bool exists = glob (pattern, GLOB_NOSORT, NULL, &found) != GLOB_NOMATCH;
    globfree (&found);
    return exists;
}

static bool
has_other_files (void)
{
    for (size_t i = 0; i < sizeof other_files / sizeof *other_files; i++)
        if (getenv (other_files[i]))
            return true;
    return false;
}

/* The value of a line "mtl = VALUE".  @return NULL: it is another line */
static const char *
value_of (const char *line, size_t *length)
{
    line += strspn (line, " \t");
    if (strncmp (line, PARAMETER, strlen (PARAMETER)) != 0)
        return NULL;
    line += strlen (PARAMETER);
    line += strspn (line, " \t");
    if (*line != '=')
        return NULL;
    line++;
    line += strspn (line, " \t");
    *length = strcspn (line, "\n");
    while (*length && isspace ((unsigned char) line[*length - 1]))
        --*length;
    return line;
}

/* The last of several counts.  @return whether the file can be read  @param[in,out] value  kept if it has none */
static bool
read_file (const char *path, struct strbuf *value)
{
    AUTO_FREE char *text = NULL;
    struct fail unused;
    if (io_read_file (path, FILE_BYTES, &text, NULL, &unused))
        return false;
    for (const char *line = text, *end; line; line = end ? end + 1 : NULL) {
        size_t length = 0;
        const char *found = value_of (line, &length);
        end = strchr (line, '\n');
        if (found) {
            strbuf_truncate (value, 0);
            strbuf_add_bytes (value, found, length);
        }
    }
    return true;
}

/* @return the folder of the host's parameters; NULL: not known */
static char *
find_folder (pid_t daemon)
{
    char link[32], program[PATH_MAX];
    snprintf (link, sizeof link, "/proc/%d/exe", (int) daemon);
    ssize_t length = readlink (link, program, sizeof program);
    if (length <= 0 || (size_t) length >= sizeof program)
        return NULL;
    program[length] = '\0';
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr (program, '/');
        if (!slash || (i == 0 && strchr (slash, ' '))) /* "orted (deleted)" */
            return NULL;
        *slash = '\0';
    }
    for (size_t i = 0; i < sizeof distributions / sizeof *distributions; i++)
        if (!strcmp (program, distributions[i].prefix))
            return strdup (distributions[i].folder);
    return text_printf ("%s/etc", program);
}

/* What the files say that Open MPI reads, the user's before the host's.  If the host has a file that overrides
 * variables, Open MPI prints a warning on each rank about those that it does not take.  @return false: not known */
static bool
read_files (pid_t daemon, struct strbuf *value)
{
    AUTO_STRBUF struct strbuf own = { 0 };
    AUTO_FREE char *folder = find_folder (daemon);
    AUTO_FREE char *path = folder ? text_printf ("%s/openmpi-mca-params.conf", folder) : NULL;
    AUTO_FREE char *override = folder ? text_printf ("%s/openmpi-mca-params-override.conf", folder) : NULL;
    if (!path || !override || exists (override) || !read_file (path, value))
        return false;
    home_add (&own, "~/.openmpi/mca-params.conf");
    if (own.text)
        read_file (own.text, value);
    return !own.failed && !value->failed;
}

/* A list of transports that may be used stays: only one of those that may not can have more. */
void
ompi_transports_exclude (pid_t daemon, struct strlist *variables)
{
    AUTO_STRBUF struct strbuf value = { 0 };
    if (!getenv ("OMPI_COMM_WORLD_RANK") || getenv ("OMPI_MCA_" PARAMETER) || has_other_files ()
        || !read_files (daemon, &value))
        return;
    const char *list = value.length ? value.text : "^";
    if (*list != '^' || list[1 + strspn (list + 1, LIST_CHARACTERS)])
        return;
    AUTO_STRBUF struct strbuf all = { 0 };
    strbuf_add (&all, list);
    for (size_t i = 0; i < sizeof transports / sizeof *transports; i++)
        if (!exists (transports[i].devices))
            strbuf_printf (&all, "%s%s", all.length > 1 ? "," : "", transports[i].name);
    if (all.text && strcmp (all.text, list) != 0)
        strlist_printf (variables, "OMPI_MCA_%s=%s", PARAMETER, all.text);
    variables->failed = variables->failed || all.failed;
}
