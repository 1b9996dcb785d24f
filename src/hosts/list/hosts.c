/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts from settings; see hosts.h. */
#include <config.h>

#include "hosts/list/hosts.h"

#include "config/mode.h"
#include "config/text/json_text.h"
#include "hosts/list/hostlist.h"
#include "util/cleanup.h"
#include "util/io.h"
#include "util/printable.h"
#include "util/procfs.h"

#include <ctype.h>
#include <jansson.h>
#include <limits.h>
#include <string.h>
#include <sys/utsname.h>

enum { HOSTFILE_BYTES = 4 * 1024 * 1024 };

static int
read_hostfile (struct hostlist *list, const char *name, struct fail *fail)
{
    AUTO_FREE char *text = NULL;
    size_t length;
    if (io_read_input (name, HOSTFILE_BYTES, &text, &length, fail))
        return fail_prefix (fail, "--hostfile");
    if (strlen (text) != length)
        return fail_set (fail, FAIL_USAGE, "%s: not a text file", name);
    return hostlist_add_file (list, name, text, fail);
}

int
hosts_read_list (struct hostlist *list, const struct settings *settings, struct fail *fail)
{
    if (settings->hosts ? hostlist_add_text (list, settings->hosts, fail)
                        : read_hostfile (list, settings->hostfile, fail))
        return settings->hosts ? fail_prefix (fail, "--hosts") : -1;
    hostlist_finish (list);
    return 0;
}

/* A job of several machines that were named in another way is launched by hand, one launcher on each. */
static bool
is_by_hand (const struct config *config)
{
    return config_origin (config, "num_machines").kind != ORIGIN_DEFAULT
           || config_origin (config, "machine_rank").kind != ORIGIN_DEFAULT || mode_is_mpirun (&config->settings)
           || config->settings.tpu || mode_is_deepspeed_launcher (&config->settings);
}

/* The hosts of an allocation are used without being asked for only if there are several. */
static int
find_allocation (struct hosts *hosts, bool asked, struct fail *fail)
{
    if (allocation_find (&hosts->list, &hosts->source, getenv, fail))
        return -1;
    if (asked && !hosts->list.count)
        return fail_set (fail, FAIL_USAGE, "--hosts auto needs an allocation of Slurm, PBS or LSF, but this process is "
                         "not in one");
    if (!asked && hosts->list.count == 1) {
        hostlist_release (&hosts->list);
        hosts->source = NULL;
    }
    return 0;
}

/* The other hosts execute the same file, which is given to a shell there: a path with characters that a shell might
 * take for something else is left to their PATH. */
static int
find_program (struct hosts *hosts, struct fail *fail)
{
    char path[PATH_MAX];
    procfs_own_path (path, sizeof path);
    bool is_plain = *path == '/';
    for (const char *c = path; *c; c++)
        is_plain = is_plain && (isalnum ((unsigned char) *c) || strchr ("/._+-", *c));
    hosts->program = strdup (is_plain ? path : "accelerate");
    return hosts->program ? 0 : fail_nomem (fail);
}

/* Several heads would each start the whole job. */
static int
check_alone (const struct config *config, struct fail *fail)
{
    const char *starter, *key = config->settings.hosts ? "hosts" : "hostfile";
    int64_t tasks = allocation_tasks (&starter, getenv);
    if (tasks < 2)
        return 0;
    return fail_set (fail, FAIL_USAGE, "%s: %s has started %lld of this command, and each would start the job on all "
                     "hosts: start it once, or one on each host with --machine_rank auto --main_process_ip auto", key,
                     starter, (long long) tasks);
}

int
hosts_find (struct hosts *hosts, const struct config *config, struct fail *fail)
{
    const struct settings *settings = &config->settings;
    struct utsname name;
    bool asked = settings->hosts && !strcmp (settings->hosts, "auto");
    *hosts = (struct hosts){ 0 };
    if ((settings->hosts || settings->hostfile) && check_alone (config, fail))
        return -1;
    if (asked || (!settings->hosts && !settings->hostfile && !is_by_hand (config))) {
        if (find_allocation (hosts, asked, fail))
            return -1;
    } else if ((settings->hosts || settings->hostfile) && hosts_read_list (&hosts->list, settings, fail))
        return -1;
    if (!hosts->list.count)
        return 0;
    snprintf (hosts->own, sizeof hosts->own, "%s", uname (&name) ? "" : name.nodename);
    if (starter_choose (&hosts->starter, config, &hosts->list, fail))
        return -1;
    return find_program (hosts, fail);
}

bool
hosts_is_own (const struct hosts *hosts, const char *name)
{
    return !strcmp (name, "localhost") || !strcmp (name, hosts->own);
}

void
hosts_add_argv (const struct hosts *hosts, const char *name, bool batch, struct strlist *argv)
{
    if (hosts_is_own (hosts, name)) {
        strlist_add (argv, "/proc/self/exe");
        strlist_add (argv, "--agent");
    } else
        starter_add_agent (&hosts->starter, name, hosts->program, batch, argv);
}

static void
print_text (const struct hosts *hosts, const struct config *config, bool has_ranks)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    strbuf_printf (&out, "hosts%s%s\n", hosts->source ? ", from " : "", hosts->source ? hosts->source : "");
    for (size_t i = 0; i < hosts->list.count; i++) {
        const struct hostlist_host *host = &hosts->list.hosts[i];
        AUTO_STRLIST struct strlist argv = { 0 };
        hosts_add_argv (hosts, host->name, false, &argv);
        strbuf_printf (&out, "  %s\n    ", host->name);
        if (!has_ranks && host->slots)
            strbuf_printf (&out, "%d rank%s", host->slots, host->slots > 1 ? "s" : "");
        else if (!has_ranks)
            strbuf_add (&out, "as many ranks as it has GPUs, or 1");
        else if (host->ranks > 1)
            strbuf_printf (&out, "ranks %d-%d", host->first_rank, host->first_rank + host->ranks - 1);
        else
            strbuf_printf (&out, "rank %d", host->first_rank);
        strbuf_add (&out, "\n    started by");
        for (size_t j = 0; j < argv.count; j++)
            strbuf_printf (&out, strchr (argv.items[j], ' ') ? " '%s'" : " %s", argv.items[j]);
        strbuf_add_char (&out, '\n');
    }
    if (has_ranks)
        strbuf_printf (&out, "\nworld size\n  %d\n", hostlist_world_size (&hosts->list));
    strbuf_add (&out, "\nprogram\n  ");
    printable_add (&out, config->program);
    if (hosts->starter.mpi)
        strbuf_printf (&out, "\n\nprocesses of MPI\n  by %s", starter_mpi_name (&hosts->starter));
    strbuf_add (&out, "\n\nnotes\n  each host plans its own ranks\n"
                      "  MASTER_ADDR and MASTER_PORT are chosen when the job starts\n");
    fputs (out.text ? out.text : "", stdout);
}

static int
print_json (const struct hosts *hosts, const struct config *config, bool has_ranks, struct fail *fail)
{
    json_t *root = json_object (), *list = json_array ();
    for (size_t i = 0; i < hosts->list.count; i++) {
        const struct hostlist_host *host = &hosts->list.hosts[i];
        AUTO_STRLIST struct strlist argv = { 0 };
        json_t *words = json_array ();
        hosts_add_argv (hosts, host->name, false, &argv);
        for (size_t j = 0; j < argv.count; j++)
            json_array_append_new (words, json_text (argv.items[j]));
        int ranks = has_ranks ? host->ranks : host->slots;
        json_t *one = json_pack ("{so so so so}", "host", json_text (host->name), "argv", words, "first_rank",
                                 has_ranks ? json_integer (host->first_rank) : json_null (), "ranks",
                                 ranks ? json_integer (ranks) : json_null ());
        json_array_append_new (list, one);
    }
    json_object_set_new (root, "program", json_text (config->program));
    json_object_set_new (root, "world_size",
                         has_ranks ? json_integer (hostlist_world_size (&hosts->list)) : json_null ());
    json_object_set_new (root, "mpi",
                         hosts->starter.mpi ? json_text (starter_mpi_name (&hosts->starter)) : json_null ());
    json_object_set_new (root, "hosts", list);
    AUTO_FREE char *text = json_dumps (root, JSON_INDENT (2));
    json_decref (root);
    if (!text)
        return fail_nomem (fail);
    puts (text);
    return 0;
}

int
hosts_print (struct hosts *hosts, const struct config *config, struct fail *fail)
{
    int64_t processes = config->settings.num_processes;
    bool has_ranks = hostlist_is_complete (&hosts->list, processes);
    if (has_ranks && hostlist_divide (&hosts->list, processes, fail))
        return -1;
    if (config->settings.json)
        return print_json (hosts, config, has_ranks, fail);
    print_text (hosts, config, has_ranks);
    return 0;
}

void
hosts_release (struct hosts *hosts)
{
    hostlist_release (&hosts->list);
    free (hosts->program);
    starter_release (&hosts->starter);
    *hosts = (struct hosts){ 0 };
}
