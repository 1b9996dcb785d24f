/* SPDX-License-Identifier: Apache-2.0 */
/* Decides what a launch starts; see plan.h. */
#include <config.h>

#include "launch/plan/plan.h"

#include "config/conditions.h"
#include "config/effect.h"
#include "config/envmap.h"
#include "config/host.h"
#include "config/mode.h"
#include "config/tee.h"
#include "launch/plan/external_launcher.h"
#include "launch/plan/gpu_choice.h"
#include "launch/plan/placement.h"
#include "util/cleanup.h"
#include "util/envnames.h"
#include "util/jobseg.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What plan_make() has found out on its way. */
struct draft {
    struct plan *plan;
    const struct settings *settings;
    const struct config *config;
    const struct topology *topology;
    int machines;
    int machine_rank;
    int local_ranks; /* on this machine, whatever starts them */
    bool on_cpu;
    bool is_native; /* the program may use libaccel, which needs no GPU for FSDP's ways of sharding */
    bool distributed; /* ranks get RANK and similar variables */
    bool divides_cores; /* --bind core or numa */
};

int64_t
plan_world_size (const struct settings *settings, int gpus)
{
    if (settings->num_processes > 0)
        return settings->num_processes;
    int64_t local = 1;
    if (!when_on_cpu (settings)) {
        if (when_gpus_chosen (settings))
            local = topology_visible_gpus (settings->gpu_ids, JOBSEG_MAX_LOCAL);
        else if (gpus > 0)
            local = gpus;
    }
    return (local > 0 ? local : 1) * (settings->num_machines > 0 ? settings->num_machines : 1);
}

/* The launch path that the settings ask for, on a machine with @gpus GPUs. */
static enum option_path
find_path (const struct settings *settings, int world_size, int gpus)
{
    return mode_path (settings, world_size > 1 && gpus > 0);
}

enum plan_port_scope
plan_port_scope (const struct settings *settings, int gpus)
{
    bool several_ranks = plan_world_size (settings, gpus) > 1, several_machines = settings->num_machines > 1;
    enum option_path path = find_path (settings, several_ranks ? 2 : 1, gpus);
    if (path == PATH_TPU || path == PATH_TPU_POD || (!several_ranks && (path == PATH_SIMPLE || path == PATH_MPIRUN)))
        return PLAN_PORT_NONE;
    if (!several_machines)
        return PLAN_PORT_LOCAL;
    if (external_launcher_is_wanted (path, settings))
        return PLAN_PORT_EXTERNAL;
    return settings->machine_rank > 0 ? PLAN_PORT_NONE : PLAN_PORT_SHARED;
}

static void
take_share (struct draft *draft, const struct topology_share *share)
{
    draft->machines = share->machines;
    draft->machine_rank = share->machine;
    draft->plan->world_size = share->world_size;
    draft->plan->local_world_size = share->ranks;
    draft->plan->first_rank = share->first_rank;
}

/* Ranks as evenly as possible: the first machines get one more.  Accelerate drops the remainder. */
static int
divide_ranks (struct draft *draft, int64_t world_size, struct fail *fail)
{
    struct plan *plan = draft->plan;
    const struct settings *settings = draft->settings;
    if (draft->topology->share) {
        take_share (draft, draft->topology->share);
        return 0;
    }
    int64_t machines = settings->num_machines > 0 ? settings->num_machines : 1;
    int64_t machine = machines > 1 ? settings->machine_rank : 0;
    if (world_size < machines)
        return fail_set (fail, FAIL_USAGE, "--num_processes %lld is less than --num_machines %lld: each machine needs "
                                           "at least one process",
                         (long long) world_size, (long long) machines);
    if (machine < 0 || machine >= machines)
        return fail_set (fail, FAIL_USAGE, "--machine_rank %lld is not in the range 0 to %lld", (long long) machine,
                         (long long) machines - 1);
    int64_t share = world_size / machines, rest = world_size % machines;
    int64_t local = share + (machine < rest);
    if (world_size > INT32_MAX || local > JOBSEG_MAX_LOCAL)
        return fail_set (fail, FAIL_USAGE, "%lld processes on one machine are too many: the maximum is %d "
                         "(--num_processes is the total across all machines)", (long long) local, JOBSEG_MAX_LOCAL);
    draft->machines = (int) machines;
    draft->machine_rank = (int) machine;
    plan->world_size = (int) world_size;
    plan->local_world_size = (int) local;
    plan->first_rank = (int) (machine * share + (machine < rest ? machine : rest));
    return 0;
}

/* Set NAME=VALUE in a sorted list of them, in the place of an older value. */
static void
set (struct strlist *env, const char *name, const char *value)
{
    size_t length = strlen (name), place = 0;
    strlist_printf (env, "%s=%s", name, value);
    if (env->failed)
        return;
    size_t last = env->count - 1;
    char *added = env->items[last];
    for (size_t i = 0; i < last; i++)
        if (!strncmp (env->items[i], added, length + 1)) {
            free (env->items[i]);
            env->items[i] = added;
            env->items[last] = NULL;
            env->count--;
            return;
        }
    while (place < last && strcmp (env->items[place], added) < 0)
        place++;
    memmove (&env->items[place + 1], &env->items[place], (last - place) * sizeof *env->items);
    env->items[place] = added;
}

static void
set_number (struct strlist *env, const char *name, int64_t value)
{
    char text[24];
    snprintf (text, sizeof text, "%lld", (long long) value);
    set (env, name, text);
}

/* How many of this host's ranks there are, as far as we know, whoever starts them. */
static int
count_neighbours (const struct draft *draft)
{
    int mpi = draft->topology->mpi_local_size;
    return mpi > draft->local_ranks ? mpi : draft->local_ranks;
}

/* OMP_NUM_THREADS if it was not chosen: on CPUs the cores are divided among the ranks of this machine, otherwise 1. */
static void
set_threads (const struct draft *draft, struct strlist *env)
{
    const char *given = draft->topology->omp_num_threads;
    if (draft->plan->path == PATH_DEEPSPEED) {
        if (!given && draft->local_ranks > 1)
            set (env, ENV_OMP_NUM_THREADS, "1"); /* there it is torch that sets it, and the option has no effect */
        return;
    }
    if (draft->settings->num_cpu_threads_per_process > 0)
        return; /* the option's row has set it */
    if (given && *given && strcmp (given, "0")) {
        set (env, ENV_OMP_NUM_THREADS, given); /* as it is: "4,2" is good OpenMP */
        return;
    }
    int local = count_neighbours (draft), threads = 1;
    if (draft->on_cpu || when_on_cpu (draft->settings))
        threads = draft->topology->physical_cores / local;
    set_number (env, ENV_OMP_NUM_THREADS, threads > 1 ? threads : 1);
    if (threads > 1 && !draft->divides_cores)
        strlist_printf (&draft->plan->choices,
                        "OMP_NUM_THREADS is %d: %d cores divided among %d process%s; --num_cpu_threads_per_process "
                        "changes it",
                        threads, draft->topology->physical_cores, local, local > 1 ? "es" : "");
}

static void
set_address (const struct draft *draft, struct strlist *env)
{
    const struct settings *settings = draft->settings;
    struct plan *plan = draft->plan;
    int64_t port = settings->main_process_port;
    bool any_port = false;
    if (port <= 0) {
        /* 0 is "not given", unless the user wrote it */
        struct origin origin = config_origin (draft->config, "main_process_port");
        any_port = origin.kind != ORIGIN_DEFAULT;
        port = draft->topology->free_port ? draft->topology->free_port : any_port ? 0 : PLAN_USUAL_PORT;
        if (any_port && !port)
            strlist_add (&plan->notes, "MASTER_PORT 0 means a free port, chosen when the job starts");
        else if (!any_port && port != PLAN_USUAL_PORT)
            strlist_printf (&plan->choices, "port %d is in use, so MASTER_PORT is %lld", PLAN_USUAL_PORT,
                            (long long) port);
    }
    if (draft->topology->port_taken)
        strlist_printf (&plan->notes, "port %lld is in use: rank 0 cannot listen on it", (long long) port);
    /* As in Accelerate, torch's ranks of one machine meet on it whatever the file says. */
    bool has_ip = settings->main_process_ip && *settings->main_process_ip
                  && (draft->machines > 1 || plan->path == PATH_SIMPLE || plan->path == PATH_MPIRUN);
    AUTO_STRBUF struct strbuf host = { 0 };
    host_add_bare (&host, has_ip ? settings->main_process_ip : "127.0.0.1");
    env->failed = env->failed || host.failed;
    set (env, ENV_MASTER_ADDR, host.text ? host.text : "");
    set_number (env, ENV_MASTER_PORT, port);
}

/* The keys of the file's section, in its order, as Accelerate lists them: its library refuses a DeepSpeed file that
 * sets the same things. */
static void
set_deepspeed_fields (const struct draft *draft, struct strlist *env)
{
    AUTO_STRBUF struct strbuf fields = { 0 };
    const struct config *config = draft->config;
    for (int place = 0;;) {
        const struct option *next = NULL;
        int next_place = 0;
        for (size_t i = 0; i < option_count; i++) {
            struct origin origin = config->origins[i];
            if (!options[i].section || strcmp (options[i].section, "deepspeed_config") || origin.file_place <= place
                || (next && origin.file_place >= next_place))
                continue;
            next = &options[i];
            next_place = origin.file_place;
        }
        if (!next)
            break;
        strbuf_printf (&fields, "%s%s", fields.length ? "," : "", next->key);
        place = next_place;
    }
    if (config_origin (config, "mixed_precision").kind == ORIGIN_FILE)
        strbuf_printf (&fields, "%smixed_precision", fields.length ? "," : "");
    set (env, ENV_DEEPSPEED_FIELDS, fields.text ? fields.text : "");
}

/* Where Python finds modules: DeepSpeed's in the current folder, as in Accelerate, and ours. */
static void
set_python_path (const struct draft *draft, struct strlist *env)
{
    AUTO_STRBUF struct strbuf path = { 0 };
    const struct topology *topology = draft->topology;
    const char *old = topology->python_path;
    bool is_deepspeed = draft->plan->path == PATH_DEEPSPEED;
    if (!is_deepspeed && !*topology->torch_package)
        return;
    for (size_t length; old && *old; old += length + (old[length] == ':')) {
        length = strcspn (old, ":");
        if (length)
            strbuf_printf (&path, "%s%.*s", path.length ? ":" : "", (int) length, old);
    }
    if (*topology->torch_package)
        strbuf_printf (&path, "%s%s", path.length ? ":" : "", topology->torch_package);
    if (is_deepspeed)
        strbuf_printf (&path, "%s%s", path.length ? ":" : "", topology->folder);
    set (env, ENV_PYTHONPATH, path.text ? path.text : "");
}

/* As in Accelerate: DeepSpeed's own launcher and TPUs decide for themselves. */
static bool
has_threads (const struct plan *plan)
{
    return plan->path != PATH_TPU && plan->path != PATH_TPU_POD && !(plan->path == PATH_DEEPSPEED && plan->is_external);
}

/* As in Accelerate, on the paths where several GPUs work together. */
static void
set_nccl (const struct draft *draft, struct strlist *env)
{
    const struct topology *topology = draft->topology;
    struct plan *plan = draft->plan;
    if (!topology->lacks_p2p || (plan->path != PATH_ELASTIC && plan->path != PATH_DEEPSPEED)
        || (topology->nccl_p2p_is_chosen && topology->nccl_ib_is_chosen))
        return;
    if (!topology->nccl_p2p_is_chosen)
        set (env, ENV_NCCL_P2P_DISABLE, "1");
    if (!topology->nccl_ib_is_chosen)
        set (env, ENV_NCCL_IB_DISABLE, "1");
    strlist_add (&plan->notes, "RTX 40 cards with a driver before 550.40.07: NCCL_P2P_DISABLE and NCCL_IB_DISABLE are "
                 "1 unless you set them");
}

/* What all ranks of this machine have in common. */
static void
set_common (const struct draft *draft, struct strlist *env)
{
    const struct plan *plan = draft->plan;
    set_python_path (draft, env);
    if (plan->path == PATH_DEEPSPEED)
        set_deepspeed_fields (draft, env);
    if (has_threads (plan))
        set_threads (draft, env);
    set_nccl (draft, env);
    if (plan->path == PATH_MPIRUN && (draft->settings->num_processes > 1 || draft->machines > 1))
        set_address (draft, env);
    if (!draft->distributed)
        return;
    set_address (draft, env);
    set_number (env, ENV_WORLD_SIZE, plan->world_size);
    set_number (env, ENV_LOCAL_WORLD_SIZE, plan->local_world_size);
    set_number (env, ENV_GROUP_RANK, draft->machine_rank);
    set_number (env, ENV_GROUP_WORLD_SIZE, draft->machines);
    set (env, ENV_ROLE_NAME, draft->settings->role);
    set_number (env, ENV_ROLE_WORLD_SIZE, plan->world_size);
    set (env, ENV_RUN_ID, "none");
    set (env, ENV_RESTART_COUNT, "0");
    set_number (env, ENV_MAX_RESTARTS, draft->settings->max_restarts);
    /* "True" would make every rank a client of a store that torch's launcher serves and this one does not. */
    set (env, ENV_USE_AGENT_STORE, "False");
    if (draft->on_cpu)
        set (env, ENV_USE_CPU, "True");
    else
        set (env, ENV_NCCL_ASYNC_ERROR_HANDLING,
             draft->topology->nccl_async_error_handling ? draft->topology->nccl_async_error_handling : "1");
}

/* What runs on GPUs only, in the user's words: a user of --use_fsdp may not know --multi_gpu. */
static const char *
gpu_mode (const struct settings *settings)
{
    return settings->use_fsdp ? "FSDP" : settings->use_megatron_lm ? "Megatron-LM" : "multi-GPU training";
}

/* How many GPUs the ranks see; 0: none, or those of another maker, which we do not know. */
static int
count_gpus (const struct draft *draft)
{
    return when_gpus_chosen (draft->settings) ? topology_visible_gpus (draft->settings->gpu_ids, JOBSEG_MAX_LOCAL)
                                              : draft->topology->gpus;
}

/* "XPU" of distributed_type: MULTI_XPU; NULL: the settings name no accelerator of another maker. */
static const char *
find_other_maker (const struct settings *settings)
{
    static const char prefix[] = "MULTI_";
    const char *type = settings->distributed_type;
    bool is_one = !strncmp (type, prefix, sizeof prefix - 1) && strcmp (type, "MULTI_GPU")
                  && strcmp (type, "MULTI_CPU");
    return is_one ? type + sizeof prefix - 1 : NULL;
}

/* Whether GPUs were asked for by name; otherwise they are only assumed because there are some. */
static bool
asks_for_gpus (const struct settings *settings)
{
    bool is_for_cpus = !strcmp (settings->distributed_type, "MULTI_CPU");
    return (settings->multi_gpu && !is_for_cpus && !find_other_maker (settings)) || settings->use_fsdp
           || settings->use_megatron_lm || settings->use_deepspeed || when_gpus_chosen (settings);
}

/* Whether the ranks may compute on GPUs that we count, if the settings do not say. */
static bool
may_use_cuda (const struct draft *draft)
{
    const char *named = draft->topology->ds_accelerator;
    if (draft->settings->use_deepspeed && named)
        return !strcmp (named, "cuda");
    return !draft->topology->names_other_makers && !find_other_maker (draft->settings);
}

/* NCCL refuses two ranks on one GPU, but only when the programs first communicate. */
static int
check_gpus (const struct draft *draft, struct fail *fail)
{
    struct plan *plan = draft->plan;
    const struct settings *settings = draft->settings;
    int gpus = count_gpus (draft), ranks = plan->local_world_size;
    if (when_on_cpu (settings) || draft->on_cpu || plan->is_external || !may_use_cuda (draft))
        return 0;
    if (when_gpus_chosen (settings) && gpu_choice_check (settings->gpu_ids, draft->topology, fail))
        return -1;
    if ((plan->path != PATH_ELASTIC && plan->path != PATH_DEEPSPEED) || !gpus || ranks <= gpus)
        return 0;
    if (asks_for_gpus (settings) && !settings->share_gpus)
        return fail_set (fail, FAIL_USAGE, "%d processes on %s, but %s %d GPU%s: start one process for each GPU "
                         "(--num_processes), or give --share_gpus to let several use one",
                         ranks, draft->topology->host, when_gpus_chosen (settings) ? "gpu_ids lists" : "it has", gpus,
                         gpus > 1 ? "s" : "");
    strlist_printf (&plan->notes, "%d processes share %d GPU%s%s", ranks, gpus, gpus > 1 ? "s" : "",
                    settings->share_gpus ? "" : ", which NCCL refuses: for a program on CPUs, give --cpu");
    return 0;
}

static void
add_device_notes (const struct draft *draft)
{
    struct plan *plan = draft->plan;
    const struct settings *settings = draft->settings;
    if (when_on_cpu (settings))
        return;
    if (draft->on_cpu)
        strlist_printf (&plan->notes, "no GPU found: the %d processes run on CPUs, as with --cpu", plan->world_size);
    else if (plan->path == PATH_ELASTIC && !draft->topology->gpus && !find_other_maker (settings)
             && !(settings->use_fsdp && draft->is_native))
        strlist_printf (&plan->notes, "no NVIDIA GPU found, but %s needs one", gpu_mode (settings));
}

/* The list of GPUs that the ranks see; NULL: all. */
static const char *
list_gpus (const struct draft *draft)
{
    return when_gpus_chosen (draft->settings) ? draft->settings->gpu_ids : draft->topology->visible;
}

/* CUDA shows a process only the first MIG device of a list, so each rank gets its own. */
static void
choose_mig (const struct draft *draft, struct plan_process *process)
{
    const char *list = list_gpus (draft);
    AUTO_STRBUF struct strbuf entry = { 0 };
    if (draft->plan->local_world_size == 1 || draft->plan->is_external || draft->on_cpu || when_on_cpu (draft->settings)
        || !list || !gpu_choice_has_mig (list))
        return;
    gpu_choice_add_entry (list, process->local_rank, &entry);
    process->env.failed = process->env.failed || entry.failed;
    set (&process->env, ENV_CUDA_VISIBLE_DEVICES, entry.text ? entry.text : "");
    snprintf (process->device, sizeof process->device, "cuda:0");
}

/* Whether a rank before this one is not bound, so that a note has said why. */
static bool
has_noted (const struct plan *plan, const struct plan_process *process)
{
    for (int i = 0; i < process->local_rank; i++)
        if (!plan->processes[i].cpus)
            return true;
    return false;
}

static int
set_cpus (const struct draft *draft, struct plan_process *process, const char *cpus, const char *why,
          struct fail *fail)
{
    struct strlist *notes = &draft->plan->notes;
    if (why && !has_noted (draft->plan, process)) {
        if (draft->divides_cores) /* what keeps one rank from it keeps all of them */
            strlist_printf (notes, "--bind %s has no effect: %s", draft->settings->bind, why);
        else
            strlist_printf (notes, "rank %d is not bound to the CPUs near its GPU: %s", process->rank, why);
    }
    process->cpus = why ? NULL : strdup (cpus);
    return why || process->cpus ? 0 : fail_nomem (fail);
}

/* --bind core and numa: also the number of threads, unless the user has chosen it, or GPUs compute. */
static int
bind_to_share (const struct draft *draft, struct plan_process *process, struct fail *fail)
{
    const struct topology *topology = draft->topology;
    struct placement placement;
    if (count_neighbours (draft) > draft->plan->local_world_size)
        return set_cpus (draft, process, NULL, "ranks that other launchers start share this machine", fail);
    const char *why = placement_choose (topology, !strcmp (draft->settings->bind, "numa"), process->local_rank,
                                        draft->plan->local_world_size, &placement);
    bool are_given = draft->settings->num_cpu_threads_per_process > 0
                     || (topology->omp_num_threads && *topology->omp_num_threads
                         && strcmp (topology->omp_num_threads, "0"));
    if (!why && !are_given && has_threads (draft->plan) && draft->plan->path != PATH_DEEPSPEED
        && (draft->on_cpu || when_on_cpu (draft->settings))) {
        set_number (&process->env, ENV_OMP_NUM_THREADS, placement.threads);
        if (process->local_rank == 0)
            strlist_add (&draft->plan->choices, "OMP_NUM_THREADS follows from the cores that each rank is bound to; "
                         "--num_cpu_threads_per_process changes it");
    }
    return set_cpus (draft, process, placement.cpus, why, fail);
}

/* --bind and --enable_cpu_affinity */
static int
bind_process (const struct draft *draft, struct plan_process *process, struct fail *fail)
{
    char cpus[GPU_CHOICE_CPUS];
    bool uses_gpu = !strncmp (process->device, "cuda:", 5) && draft->topology->gpus;
    if (draft->plan->is_external)
        return 0;
    if (draft->divides_cores)
        return bind_to_share (draft, process, fail);
    if (!when_bound_near_gpus (draft->settings) || (!uses_gpu && draft->settings->enable_cpu_affinity))
        return 0;
    const char *why = uses_gpu ? gpu_choice_find_cpus (list_gpus (draft), process->local_rank, draft->topology, cpus)
                               : "it uses none";
    return set_cpus (draft, process, cpus, why, fail);
}

/* For --report_bindings. */
static void
name_nodes (const struct draft *draft, struct plan_process *process)
{
    if (draft->plan->reports_bindings)
        placement_nodes (draft->topology, process->cpus ? process->cpus : draft->plan->cpus, process->nodes,
                         sizeof process->nodes);
}

char *
plan_log_path (const struct plan *plan, const struct plan_process *process, const char *name)
{
    char *path;
    return asprintf (&path, "%s/attempt_%lld/%d/%s", plan->logs.run, (long long) plan->restarts, process->local_rank,
                     name) < 0 ? NULL : path;
}

static int
set_error_file (const struct plan *plan, struct plan_process *process, struct fail *fail)
{
    if (!plan->logs.run)
        return 0;
    AUTO_FREE char *path = plan_log_path (plan, process, "error.json");
    if (!path)
        return fail_nomem (fail);
    set (&process->env, ENV_ERROR_FILE, path);
    return 0;
}

/* Whether --tee and --log_dir ask for files; Accelerate's word for names without files is /dev/null. */
static bool
wants_files (const struct draft *draft)
{
    const struct settings *settings = draft->settings;
    struct plan *plan = draft->plan;
    bool wanted = settings->log_dir && *settings->log_dir;
    for (int i = 0; i < plan->local_world_size; i++)
        wanted = wanted || tee_of_rank (settings->tee, i);
    if (wanted && plan->is_external) {
        strlist_add (&plan->notes, "--tee and --log_dir have no effect: another launcher starts the ranks");
        return false;
    }
    if (tee_greatest_rank (settings->tee) >= plan->local_world_size)
        strlist_printf (&plan->notes, "--tee names local rank %d, which does not exist: the last one is %d",
                        tee_greatest_rank (settings->tee), plan->local_world_size - 1);
    return wanted && !(settings->log_dir && !strcmp (settings->log_dir, "/dev/null"));
}

/* Names are absolute: a program may change its folder before it writes its error file. */
static int
decide_logs (const struct draft *draft, struct fail *fail)
{
    struct plan *plan = draft->plan;
    const struct topology *topology = draft->topology;
    const char *given = draft->settings->log_dir;
    AUTO_STRBUF struct strbuf base = { 0 };
    plan->role = strdup (draft->settings->role);
    if (!wants_files (draft))
        return plan->role ? 0 : fail_nomem (fail);
    plan->logs.is_temporary = !given || !*given;
    if (plan->logs.is_temporary)
        strbuf_printf (&base, "%s/accelerate_XXXXXX", topology->tmp_folder ? topology->tmp_folder : "/tmp");
    else
        strbuf_printf (&base, "%s%s%s", *given == '/' ? "" : topology->folder, *given == '/' ? "" : "/", given);
    plan->logs.base = strbuf_take (&base);
    if (!plan->role || !plan->logs.base || asprintf (&plan->logs.run, "%s/none_XXXXXX", plan->logs.base) < 0) {
        plan->logs.run = NULL;
        return fail_nomem (fail);
    }
    return 0;
}

/* As Accelerate's state chooses it: by local rank, in turns if there are more ranks than devices. */
static void
name_device (const struct draft *draft, struct plan_process *process)
{
    const struct settings *settings = draft->settings;
    const char *maker = find_other_maker (settings);
    int gpus = count_gpus (draft);
    if (draft->plan->is_external)
        snprintf (process->device, sizeof process->device, "chosen by the other launcher");
    else if (when_tpu (settings))
        snprintf (process->device, sizeof process->device, "xla:%d", process->local_rank);
    else if (draft->on_cpu || when_on_cpu (settings) || (!gpus && !draft->distributed))
        snprintf (process->device, sizeof process->device, "cpu");
    else if (maker) {
        snprintf (process->device, sizeof process->device, "%s:%d", maker, process->local_rank);
        for (char *at = process->device; *at; at++)
            *at = (char) tolower ((unsigned char) *at);
    } else {
        draft->plan->gpus_are_missing = draft->topology->gpus_present == 0;
        snprintf (process->device, sizeof process->device, "cuda:%d",
                  gpus > 0 ? process->local_rank % gpus : process->local_rank);
    }
}

static void
fill_process (const struct draft *draft, const struct program *program, const struct strlist *common, int local_rank)
{
    struct plan *plan = draft->plan;
    struct plan_process *process = &plan->processes[local_rank];
    process->local_rank = local_rank;
    process->rank = plan->first_rank + local_rank;
    name_device (draft, process);
    process->is_hidden = !plan->is_external && draft->settings->only_rank != SETTING_AUTO
                         && draft->settings->only_rank != process->rank;
    process->tee = plan->is_external ? 0 : tee_of_rank (draft->settings->tee, local_rank);
    for (size_t i = 0; !plan->is_external && i < program->argv.count; i++) {
        strlist_add (&process->argv, program->argv.items[i]);
        if (i == 0 && program->python && (draft->distributed || process->tee & TEE_OUT))
            strlist_add (&process->argv, "-u"); /* or lines of several ranks come late and cut in pieces */
    }
    for (char **word = draft->config->program_args; word && *word; word++)
        strlist_add (&process->argv, *word);
    for (size_t i = 0; i < common->count; i++)
        strlist_add (&process->env, common->items[i]);
    if (!draft->distributed)
        return;
    set_number (&process->env, ENV_RANK, process->rank);
    set_number (&process->env, ENV_LOCAL_RANK, local_rank);
    set_number (&process->env, ENV_ROLE_RANK, process->rank);
}

static int
fill_processes (const struct draft *draft, const struct program *program, struct fail *fail)
{
    struct plan *plan = draft->plan;
    AUTO_STRLIST struct strlist common = { 0 };
    if (envmap_emit (draft->config, plan->path, &common, fail))
        return -1;
    set_common (draft, &common);
    add_device_notes (draft);
    if (when_accel_on_cpu (draft->settings) && !*draft->topology->torch_package)
        strlist_add (&plan->notes, "the Python package accel_torch is not installed beside this command: programs "
                                   "use gloo unless their Python has it (make install-python)");
    if (check_gpus (draft, fail))
        return -1;
    if (*draft->topology->port_note)
        strlist_add (&plan->notes, draft->topology->port_note);
    if (!draft->machine_rank) /* once, not on every host */
        effect_note_flags (draft->config, &plan->notes);
    if (draft->config->deferred)
        strlist_printf (&plan->notes, "%s; it has no effect here", draft->config->deferred);
    plan->processes = calloc ((size_t) plan->local_world_size, sizeof *plan->processes);
    if (!plan->processes || common.failed || plan->notes.failed || plan->choices.failed)
        return fail_nomem (fail);
    plan->process_count = plan->local_world_size;
    for (int i = 0; i < plan->process_count; i++) {
        if (plan->is_external
            && external_launcher_add_argv (&plan->processes[i].argv, plan->path, draft->config, draft->topology,
                                           program, fail))
            return -1;
        fill_process (draft, program, &common, i);
        choose_mig (draft, &plan->processes[i]);
        if (bind_process (draft, &plan->processes[i], fail))
            return -1;
        name_nodes (draft, &plan->processes[i]);
        if (set_error_file (plan, &plan->processes[i], fail))
            return -1;
        if (plan->processes[i].argv.failed || plan->processes[i].env.failed)
            return fail_nomem (fail);
    }
    return 0;
}

static int
check_only_rank (const struct draft *draft, struct fail *fail)
{
    int64_t rank = draft->settings->only_rank;
    if (rank == SETTING_AUTO)
        return 0;
    if (draft->plan->is_external)
        strlist_add (&draft->plan->notes, "--only_rank has no effect: another launcher starts the ranks");
    else if (rank >= draft->plan->world_size)
        return fail_set (fail, FAIL_USAGE, "--only_rank %lld does not exist: the last rank is %d", (long long) rank,
                         draft->plan->world_size - 1);
    return 0;
}

/* Lines of another launcher's output are from all ranks. */
static enum plan_label
label_of (const struct settings *settings, bool is_external)
{
    if (is_external || !strcmp (settings->label, "no"))
        return PLAN_LABEL_NO;
    return strcmp (settings->label, "yes") ? PLAN_LABEL_AUTO : PLAN_LABEL_YES;
}

int
plan_make (struct plan *plan, const struct config *config, const struct topology *topology,
           const struct program *program, struct fail *fail)
{
    const struct settings *settings = &config->settings;
    struct draft draft = { .plan = plan, .settings = settings, .config = config, .topology = topology,
                           .is_native = !program->python };
    *plan = (struct plan){ .grace_s = settings->grace, .stall_s = settings->stall_timeout };
    if (when_sagemaker (settings))
        return fail_set (fail, FAIL_GENERAL, "%s is for SageMaker, but the flags choose a launch on this machine: "
                         "leave them out, or choose another --config_file", config->file);
    if (divide_ranks (&draft, plan_world_size (settings, topology->gpus), fail))
        goto error;
    plan->path = find_path (settings, plan->world_size, topology->gpus);
    plan->is_external = external_launcher_is_wanted (plan->path, settings);
    plan->label = label_of (settings, plan->is_external);
    plan->has_no_input = !strcmp (settings->input, "none");
    plan->reports_bindings = settings->report_bindings;
    draft.local_ranks = plan->local_world_size;
    draft.divides_cores = !plan->is_external && (!strcmp (settings->bind, "core") || !strcmp (settings->bind, "numa"));
    if (check_only_rank (&draft, fail))
        goto error;
    if (plan->is_external) {
        plan->world_size = plan->local_world_size = 1;
        plan->first_rank = 0;
    }
    draft.on_cpu = (plan->path == PATH_SIMPLE || plan->path == PATH_MPIRUN)
                   && (when_on_cpu (settings) || !strcmp (settings->distributed_type, "MULTI_CPU")
                       || (plan->world_size > 1 && topology->gpus == 0));
    draft.distributed = !plan->is_external && (plan->world_size > 1 || plan->path != PATH_SIMPLE);
    if (decide_logs (&draft, fail))
        goto error;
    plan->host = strdup (topology->host);
    memcpy (plan->cpus, topology->cpu_list, sizeof plan->cpus);
    plan->program = strdup (config->program);
    plan->python_note = program->python_note ? strdup (program->python_note) : NULL;
    if (!plan->host || !plan->program || !plan->python_note != !program->python_note) {
        fail_nomem (fail);
        goto error;
    }
    if (fill_processes (&draft, program, fail))
        goto error;
    return 0;
error:
    plan_release (plan);
    return -1;
}

int
plan_set_restarts (struct plan *plan, int64_t count, struct fail *fail)
{
    plan->restarts = count;
    for (int i = 0; i < plan->process_count; i++) {
        struct strlist *env = &plan->processes[i].env;
        if (count || strlist_variable (env, ENV_RESTART_COUNT))
            set_number (env, ENV_RESTART_COUNT, count);
        if (set_error_file (plan, &plan->processes[i], fail))
            return -1;
        if (env->failed)
            return fail_nomem (fail);
    }
    return 0;
}

int
plan_set_variable_of (struct plan_process *process, const char *name, const char *value, struct fail *fail)
{
    set (&process->env, name, value);
    return process->env.failed ? fail_nomem (fail) : 0;
}

int
plan_set_variable (struct plan *plan, const char *name, const char *value, struct fail *fail)
{
    for (int i = 0; i < plan->process_count; i++)
        if (plan_set_variable_of (&plan->processes[i], name, value, fail))
            return -1;
    return 0;
}

void
plan_release (struct plan *plan)
{
    for (int i = 0; i < plan->process_count; i++) {
        strlist_release (&plan->processes[i].argv);
        strlist_release (&plan->processes[i].env);
        free (plan->processes[i].cpus);
    }
    free (plan->processes);
    free (plan->host);
    free (plan->program);
    free (plan->python_note);
    free (plan->role);
    free (plan->logs.base);
    free (plan->logs.run);
    strlist_release (&plan->notes);
    strlist_release (&plan->choices);
    *plan = (struct plan){ 0 };
}
