/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about the machine; see machine.h. */
#include <config.h>

#include "cli/machine.h"

#include "launch/topology.h"
#include "util/cleanup.h"
#include "util/io.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

char *
machine_find_program (const char *name)
{
    const char *at = getenv ("PATH");
    while (at) {
        size_t length = strcspn (at, ":");
        AUTO_STRBUF struct strbuf path = { 0 };
        strbuf_add_bytes (&path, length ? at : ".", length ? length : 1);
        strbuf_printf (&path, "/%s", name);
        struct stat info;
        if (!path.failed && !access (path.text, X_OK) && !stat (path.text, &info) && S_ISREG (info.st_mode))
            return strbuf_take (&path);
        at = at[length] ? at + length + 1 : NULL;
    }
    return NULL;
}

static void
add_platform (struct strlist *values)
{
    struct utsname name;
    if (uname (&name)) {
        strlist_add (values, "unknown");
        return;
    }
#ifdef __GLIBC__
    strlist_printf (values, "%s-%s-%s-with-glibc%s", name.sysname, name.release, name.machine, gnu_get_libc_version ());
#else
    strlist_printf (values, "%s-%s-%s", name.sysname, name.release, name.machine);
#endif
}

static void
add_memory (struct strlist *values)
{
    struct sysinfo info;
    if (sysinfo (&info))
        strlist_add (values, "unknown");
    else
        strlist_printf (values, "%.2f GiB", (double) info.totalram * info.mem_unit / (1024.0 * 1024 * 1024));
}

/* The driver's own names: "Model: NVIDIA H200", with tabs between. */
static void
add_gpus (int count, struct strlist *values)
{
    static const char root[] = "/proc/driver/nvidia/gpus";
    AUTO_STRBUF struct strbuf text = { 0 };
    DIR *folder = opendir (root);
    for (struct dirent *entry; folder && (entry = readdir (folder));) {
        AUTO_STRBUF struct strbuf path = { 0 };
        AUTO_FREE char *facts = NULL;
        strbuf_printf (&path, "%s/%s/information", root, entry->d_name);
        if (*entry->d_name == '.' || path.failed || io_read_file (path.text, 65536, &facts, NULL, NULL))
            continue;
        const char *model = strstr (facts, "Model:");
        model = model ? model + 6 + strspn (model + 6, " \t") : "unnamed";
        strbuf_printf (&text, "%s%.*s", text.length ? ", " : "", (int) strcspn (model, "\n"), model);
    }
    if (folder)
        closedir (folder);
    if (count)
        strlist_printf (values, "%d (%s)", count, text.length ? text.text : "NVIDIA");
    else
        strlist_add (values, "none");
}

void
machine_describe (struct strlist *names, struct strlist *values)
{
    AUTO_FREE char *python = machine_find_program ("python3");
    struct topology topology;
    topology_probe (&topology, true);
    strlist_add (names, "Platform");
    add_platform (values);
    strlist_add (names, "CPUs");
    strlist_printf (values, "%d usable, %d physical cores", topology.cpus, topology.physical_cores);
    strlist_add (names, "System RAM");
    add_memory (values);
    strlist_add (names, "GPUs");
    add_gpus (topology.gpus, values);
    strlist_add (names, "Python");
    strlist_add (values, python ? python : "not on PATH");
}
