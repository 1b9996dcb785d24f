/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's loop; see host_job.h. */
#include <config.h>

#include "hosts/agent/host_job.h"

#include "hosts/agent/checks.h"
#include "hosts/agent/child.h"
#include "hosts/agent/copies.h"
#include "hosts/job_spec.h"
#include "hosts/mpi/mpi.h"
#include "hosts/net/address.h"
#include "hosts/net/wire.h"
#include "launch/plan/plan.h"
#include "launch/process/process.h"
#include "util/cleanup.h"
#include "util/clock.h"

#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>

enum {
    JOB_MS = 30000,     /* for the job to come, which is sent at once after the greeting */
    REACH_MS = 5000,    /* for the address of the first host, at most */
    EXTRA_MS = 10000,   /* beyond the grace period, for a launcher to end */
};

extern char **environ;

struct agent {
    struct pipe_end head;
    host_job_run *run;
    struct job_spec spec;
    bool has_job;
    bool is_ip_given, is_port_given; /* by the user; otherwise both are found by each start of the ranks */
    struct listener listener;
    struct port_lock port_lock;
    struct agent_child child;
    struct memtier memtier; /* outlives the launcher, which is another one after each restart */
    struct copies copies;   /* of it */
    struct mpi_proxies proxies;
    int64_t attempt, awaited; /* of WIRE_START_PROXIES: MPI proxies of this attempt that are waited for; 0: none */
    struct net_benchmark benchmark; /* of a check */
    sigset_t signals, old_mask;
    int signal_fd;
    bool end_requested; /* to end the ranks: processes of MPI may end, too */
    bool is_lost;    /* no head listens any more: only the end of the ranks is waited for */
    bool is_stopped; /* the head has been stopped from its terminal, and is silent for that reason */
    int64_t kill_ms; /* when to kill the launcher; 0: it has not been told to end by us */
};

/* The connection is gone, and with it all that could wait for the ranks. */
static void
lose_head (struct agent *agent)
{
    if (agent->is_lost)
        return;
    agent->is_lost = true;
    pipe_close (&agent->head);
    if (!agent->child.pid)
        return;
    agent_child_fail (&agent->child, SIGTERM);
    agent_child_kill (&agent->child, SIGCONT);
    agent->kill_ms = clock_ms () + agent->spec.config.settings.grace * 1000 + EXTRA_MS;
}

static void
refuse (struct agent *agent, const struct fail *fail)
{
    size_t begin = wire_begin (&agent->head.to_write, WIRE_REFUSED);
    wire_put_number (&agent->head.to_write, fail->status);
    wire_put_text (&agent->head.to_write, fail->text);
    wire_end (&agent->head.to_write, begin);
}

/* From now on this process's environment is the one of the ranks: what the head has sent over what this host has. */
static int
take_environment (const struct strlist *sent, struct fail *fail)
{
    size_t own = 0, count = 0;
    while (environ[own])
        own++;
    char **made = calloc (own + sent->count + 1, sizeof *made);
    if (!made)
        return fail_nomem (fail);
    for (size_t i = 0; i < own; i++)
        if (!strlist_variable (sent, environ[i]))
            made[count++] = environ[i];
    for (size_t i = 0; i < sent->count; i++)
        made[count++] = sent->items[i];
    environ = made; /* until the end of this process */
    return 0;
}

static void
set_variables_of_host (struct config *config, bool is_first)
{
    free (config->settings.failure_report); /* the head writes it */
    config->settings.failure_report = NULL;
    config->settings.quiet = config->settings.quiet || !is_first; /* notes once */
}

/* Which processes would run here, and where the host before this one finds us. */
static int
tell_ready (struct agent *agent, int64_t ranks, struct fail *fail)
{
    const struct settings *settings = &agent->spec.config.settings;
    AUTO_STRLIST struct strlist addresses = { 0 };
    if (settings->max_restarts && copies_listen (&agent->copies, fail))
        return -1;
    if (settings->max_restarts)
        address_list (&addresses, settings->interface);
    size_t begin = wire_begin (&agent->head.to_write, WIRE_READY);
    wire_put_number (&agent->head.to_write, ranks);
    wire_put_number (&agent->head.to_write, agent->copies.port);
    wire_put_list (&agent->head.to_write, &addresses);
    wire_end (&agent->head.to_write, begin);
    return addresses.failed ? fail_nomem (fail) : 0;
}

static int
take_job (struct agent *agent, struct wire_frame *frame, struct fail *fail)
{
    struct job_spec *spec = &agent->spec;
    struct topology topology;
    if (agent->has_job || job_spec_take (spec, frame, fail))
        return agent->has_job ? fail_set (fail, FAIL_GENERAL, "the head has sent a second job") : -1;
    agent->has_job = true;
    agent->is_ip_given = config_origin (&spec->config, "main_process_ip").kind != ORIGIN_DEFAULT;
    agent->is_port_given = config_origin (&spec->config, "main_process_port").kind != ORIGIN_DEFAULT;
    if (take_environment (&spec->environment, fail))
        return -1;
    if (chdir (spec->folder))
        return fail_set (fail, FAIL_GENERAL, "cannot change to folder %s: %s; the hosts need the same folders, as on a "
                         "shared file system", spec->folder, strerror (errno));
    set_variables_of_host (&spec->config, spec->host == 0);
    struct settings alone = spec->config.settings;
    alone.num_processes = 0;
    alone.num_machines = 1;
    topology_probe (&topology, false);
    if (spec->proxies && mpi_proxies_listen (&agent->proxies, spec->proxies, fail))
        return -1;
    return tell_ready (agent, plan_world_size (&alone, topology.gpus), fail);
}

static void
check_mpi_proxies (struct agent *agent)
{
    if (agent->awaited && mpi_proxies_of (&agent->proxies, agent->attempt) >= agent->awaited) {
        wire_put_frame (&agent->head.to_write, WIRE_PROXIES_READY, agent->attempt);
        agent->awaited = 0;
    }
}

/* Before the head is heard: it may say that the ranks must end, because of what we have not noticed yet. */
static void
watch_mpi (struct agent *agent)
{
    struct strbuf *out = &agent->head.to_write;
    struct mpi_proxy_end end;
    while (mpi_proxies_take_end (&agent->proxies, &end)) {
        if (!end.is_of_attempt || agent->is_lost || agent->end_requested || !agent_child_is_busy (&agent->child, out))
            continue;
        size_t begin = wire_begin (out, WIRE_MPI_ENDED);
        wire_put_number (out, clock_ns ());
        wire_put_number (out, end.is_daemon);
        wire_put_number (out, end.status);
        wire_put_text (out, end.text);
        wire_end (out, begin);
    }
}

static void
take_start_proxies (struct agent *agent, struct wire_frame *frame)
{
    agent->attempt = wire_number (frame);
    agent->awaited = wire_number (frame);
    check_mpi_proxies (agent);
}

/* Find a port as a launch on this host alone would, and listen there until the ranks start. */
static int
take_listen (struct agent *agent, struct wire_frame *frame, struct fail *fail)
{
    struct config *config = &agent->spec.config;
    struct topology topology;
    AUTO_STRLIST struct strlist addresses = { 0 };
    if ((!agent->is_ip_given && config_reset (config, option_find ("main_process_ip"), fail))
        || (!agent->is_port_given && config_reset (config, option_find ("main_process_port"), fail)))
        return -1; /* the host of an earlier start may be gone */
    config->settings.num_processes = wire_number (frame);
    config->settings.num_machines = 1;
    topology_probe (&topology, false);
    listener_close (&agent->listener);
    port_lock_release (&agent->port_lock);
    if (port_lock_for_job (&agent->port_lock, &topology, config, fail))
        return -1;
    int given = (int) config->settings.main_process_port;
    int port = topology.free_port ? topology.free_port : given > 0 ? given : PLAN_USUAL_PORT;
    if (listener_open (&agent->listener, port, fail))
        return -1;
    if (config->settings.main_process_ip)
        strlist_add (&addresses, config->settings.main_process_ip);
    else
        address_list (&addresses, config->settings.interface);
    if (!addresses.count)
        return config->settings.interface
                   ? fail_set (fail, FAIL_GENERAL, "--interface %s: it has no address", config->settings.interface)
                   : fail_set (fail, FAIL_GENERAL, "no network interface has an address");
    struct strbuf *out = &agent->head.to_write;
    size_t begin = wire_begin (out, WIRE_LISTENING);
    wire_put_text (out, agent->listener.token);
    wire_put_number (out, port);
    wire_put_list (out, &addresses);
    wire_end (out, begin);
    return addresses.failed ? fail_nomem (fail) : 0;
}

static int
take_reach (struct agent *agent, struct wire_frame *frame, struct fail *fail)
{
    AUTO_STRLIST struct strlist addresses = { 0 };
    const char *token = wire_text (frame);
    int port = (int) wire_number (frame);
    wire_list (frame, &addresses);
    AUTO_FREE bool *reached = calloc (addresses.count + 1, sizeof *reached);
    if (!reached || addresses.failed)
        return fail_nomem (fail);
    if (!token || strlen (token) != ADDRESS_TOKEN_BYTES - 1)
        return fail_set (fail, FAIL_GENERAL, "the head has sent no token");
    int64_t limit_ms = agent->spec.timeout_ms / 2;
    address_reach (&addresses, port, token, limit_ms < REACH_MS ? limit_ms : REACH_MS, false, reached);
    struct strbuf *out = &agent->head.to_write;
    size_t begin = wire_begin (out, WIRE_REACHED);
    for (size_t i = 0; i < addresses.count; i++)
        wire_put_number (out, reached[i]);
    wire_end (out, begin);
    return 0;
}

static int
keep_memtier (struct agent *agent, struct host_job *host_job, struct fail *fail)
{
    const struct settings *settings = &agent->spec.config.settings;
    struct fail cause;
    if (!settings->max_restarts)
        return 0;
    if (!agent->memtier.header && memtier_create (&agent->memtier, &cause))
        return settings->memory_checkpoint_every
                   ? fail_set (fail, FAIL_GENERAL, "--memory_checkpoint_every: %s", cause.text) : 0;
    host_job->memtier = &agent->memtier;
    return 0;
}

/* Without another host, the state is kept here alone. */
static int
start_copies (struct agent *agent, const struct host_job *host_job, struct wire_frame *frame, struct fail *fail)
{
    struct copies_next next = { .first = memtier_number ((uint64_t) host_job->restarts, 1),
                                .is_first = !host_job->share.machine };
    const char *name = wire_text (frame);
    next.name = strdup (name ? name : "");
    next.port = (int) wire_number (frame);
    wire_list (frame, &next.addresses);
    const char *key = wire_text (frame);
    next.key = strdup (key ? key : "");
    return copies_start (&agent->copies, host_job->memtier, &next, fail);
}

/* An MPI proxy has ended since all had come.  That is a failure of this start of the ranks, and no refusal: the next
 * one has MPI proxies of its own. */
static void
tell_lack_of_proxies (struct agent *agent, const struct fail *fail)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    strbuf_printf (&text, "accelerate: %s\n", fail->text);
    wire_put_end (&agent->head.to_write, WIRE_END_FAILED, fail->status, text.text, NULL);
    mpi_proxies_forget (&agent->proxies);
}

/* The part is described as if this launcher had been started by hand, with the share besides. */
static int
take_start (struct agent *agent, struct wire_frame *frame, struct fail *fail)
{
    struct config *config = &agent->spec.config;
    struct host_job host_job = { .port_lock = agent->port_lock, .proxies = &agent->proxies,
                                 .job_id = agent->spec.job_id };
    const char *address = wire_text (frame);
    int64_t port = wire_number (frame);
    host_job.share.machine = (int) wire_number (frame);
    host_job.share.machines = (int) wire_number (frame);
    host_job.share.first_rank = (int) wire_number (frame);
    host_job.share.ranks = (int) wire_number (frame);
    host_job.share.world_size = (int) wire_number (frame);
    host_job.restarts = wire_number (frame);
    if (!agent->has_job || agent->child.pid || frame->failed || host_job.share.ranks < 1
        || host_job.share.ranks > JOBSEG_MAX_LOCAL)
        return fail_set (fail, FAIL_GENERAL, "the head has sent an invalid start message");
    if (config_compute_number (config, "num_processes", host_job.share.world_size, "hosts", fail)
        || config_compute_number (config, "num_machines", host_job.share.machines, "hosts", fail)
        || config_compute_number (config, "machine_rank", host_job.share.machine, "hosts", fail)
        || config_compute_number (config, "main_process_port", port, "hosts", fail)
        || (address && config_compute (config, "main_process_ip", address, "hosts", fail)))
        return -1;
    agent->spec.host = host_job.share.machine; /* hosts before it may have been lost: rank 0 has the input */
    if (keep_memtier (agent, &host_job, fail) || start_copies (agent, &host_job, frame, fail))
        return -1;
    listener_close (&agent->listener);
    if (mpi_proxies_check (&agent->proxies, host_job.share.ranks, fail)) {
        tell_lack_of_proxies (agent, fail);
        return 0;
    }
    if (agent_child_start (&agent->child, &agent->spec, &host_job, agent->run, &agent->old_mask, fail))
        return -1;
    agent->end_requested = false;
    mpi_proxies_forget (&agent->proxies); /* the launcher has them, and they end with it */
    wire_put_frame (&agent->head.to_write, WIRE_STARTED, 0);
    return 0;
}

/* From the head.  If the ranks have ended in the meantime, it comes too late, and the agent stays: the head may start
 * them again. */
static void
take_signal (struct agent *agent, struct wire_frame *frame)
{
    int signal = (int) wire_number (frame);
    bool of_failure = wire_number (frame);
    if (signal == SIGTSTP || signal == SIGCONT)
        agent->is_stopped = signal == SIGTSTP;
    agent->end_requested = agent->end_requested || signals_end_job (signal);
    if (of_failure)
        agent_child_fail (&agent->child, signal);
    else
        agent_child_kill (&agent->child, signal);
    if (signals_end_job (signal))
        agent_child_kill (&agent->child, SIGCONT); /* another process may have stopped it */
}

static void
answer_heartbeat (struct agent *agent, struct wire_frame *frame)
{
    agent->is_stopped = false; /* or the head would send none */
    wire_put_frame (&agent->head.to_write, WIRE_HEARTBEAT, wire_number (frame), clock_ns ());
}

static void
take_stacks (struct agent *agent, struct wire_frame *frame)
{
    uint32_t number = (uint32_t) wire_number (frame);
    agent_watch_take_stacks (&agent->child.watch, agent->child.worker, number, (int) wire_number (frame));
}

static void
take_sample (struct agent *agent, struct wire_frame *frame)
{
    uint32_t request = (uint32_t) wire_number (frame);
    bool asks_gpus = wire_number (frame);
    agent_watch_answer (&agent->child.watch, agent->child.worker, request, asks_gpus, &agent->head.to_write);
}

static void
take_frame (struct agent *agent, struct wire_frame *frame)
{
    struct fail fail = { 0 };
    int result = 0;
    switch (frame->type) {
    case WIRE_JOB: result = take_job (agent, frame, &fail); break;
    case WIRE_LISTEN: result = take_listen (agent, frame, &fail); break;
    case WIRE_REACH: result = take_reach (agent, frame, &fail); break;
    case WIRE_START_PROXIES: take_start_proxies (agent, frame); break;
    case WIRE_START: result = take_start (agent, frame, &fail); break;
    case WIRE_SIGNAL: take_signal (agent, frame); break;
    case WIRE_SIZE:
        agent->spec.rows = (int) wire_number (frame);
        agent->spec.columns = (int) wire_number (frame);
        agent_child_resize (&agent->child, &agent->spec);
        break;
    case WIRE_UNREAD: agent_child_lose_reader (&agent->child); break;
    case WIRE_IN: agent_child_feed (&agent->child, frame->at, frame->left); break;
    case WIRE_SAMPLE: take_sample (agent, frame); break;
    case WIRE_STACKS: take_stacks (agent, frame); break;
    case WIRE_ACK: agent->child.unread -= wire_number (frame); break;
    case WIRE_HEARTBEAT: answer_heartbeat (agent, frame); break;
    case WIRE_CHECK:
        result = check_agent_take (&agent->benchmark, frame, agent->spec.config.settings.interface,
                                   &agent->head.to_write, &fail);
        break;
    default: lose_head (agent);
    }
    if (result)
        refuse (agent, &fail);
}

static void
read_head (struct agent *agent)
{
    struct wire_frame frame;
    bool is_open = pipe_fill (&agent->head);
    int result;
    while (!agent->is_lost && (result = pipe_next (&agent->head, &frame)) != 0)
        if (result < 0)
            lose_head (agent);
        else
            take_frame (agent, &frame);
    if (!is_open)
        lose_head (agent);
}

/* Of sshd, or of a user on this host: our part ends as a launcher's would. */
static void
read_signals (struct agent *agent)
{
    struct signalfd_siginfo info;
    while (read (agent->signal_fd, &info, sizeof info) == sizeof info) {
        if (!signals_end_job ((int) info.ssi_signo))
            continue;
        if (agent->child.pid)
            agent_child_kill (&agent->child, (int) info.ssi_signo);
        else
            lose_head (agent);
        agent->end_requested = true;
    }
}

static int64_t
head_deadline (const struct agent *agent)
{
    if (agent->is_lost || agent->is_stopped)
        return INT64_MAX;
    return agent->has_job ? agent->head.heard_ms + agent->spec.timeout_ms : agent->head.heard_ms + JOB_MS;
}

static int
find_timeout (const struct agent *agent)
{
    int64_t now = clock_ms (), until = head_deadline (agent), child = agent_child_deadline (&agent->child);
    if (agent->kill_ms && agent->kill_ms < until)
        until = agent->kill_ms;
    if (child < until)
        until = child;
    return until <= now ? 0 : until - now > 60000 ? 60000 : (int) (until - now);
}

static void
keep_deadlines (struct agent *agent)
{
    if (clock_ms () >= head_deadline (agent))
        lose_head (agent);
    if (agent->kill_ms && clock_ms () >= agent->kill_ms && agent->child.pid) {
        agent_child_kill_all (&agent->child);
        agent->kill_ms = clock_ms () + EXTRA_MS;
    }
}

/* A user who has stopped us, or put the machine to sleep, has stopped the launcher, too. */
static int
sleep_on (struct agent *agent, struct pollfd *fds, nfds_t count)
{
    int timeout = find_timeout (agent);
    int64_t before = clock_ms ();
    int result = poll (fds, count, timeout);
    int64_t late = clock_ms () - before - timeout;
    agent_child_forgive (&agent->child, late > 0 ? late : 0);
    return result;
}

/* One turn of the loop. */
static void
serve_once (struct agent *agent)
{
    enum { HEAD_IN, HEAD_OUT, SIGNALS, LISTENER, MPI_PROXIES, MPI, CHILD };
    struct pollfd fds[CHILD + AGENT_CHILD_FDS] = {
        [HEAD_IN] = { .fd = agent->head.in, .events = POLLIN },
        [HEAD_OUT] = { .fd = pipe_has_output (&agent->head) ? agent->head.out : -1, .events = POLLOUT },
        [SIGNALS] = { .fd = agent->signal_fd, .events = POLLIN },
        [LISTENER] = { .fd = agent->listener.fd, .events = POLLIN },
        [MPI_PROXIES] = { .fd = agent->proxies.listener, .events = POLLIN },
        [MPI] = { .fd = agent->proxies.ends, .events = POLLIN },
    };
    agent_child_poll (&agent->child, &fds[CHILD], agent->is_lost);
    if (sleep_on (agent, fds, sizeof fds / sizeof *fds) < 0)
        return;
    if (fds[MPI].revents)
        watch_mpi (agent);
    if (fds[SIGNALS].revents)
        read_signals (agent);
    if (fds[LISTENER].revents)
        listener_answer (&agent->listener);
    if (fds[HEAD_IN].revents)
        read_head (agent);
    if (fds[MPI_PROXIES].revents) {
        mpi_proxies_accept (&agent->proxies);
        check_mpi_proxies (agent);
    }
    copies_keep (&agent->copies, &agent->memtier);
    agent_child_take (&agent->child, &fds[CHILD], agent->is_lost ? NULL : &agent->head.to_write);
    keep_deadlines (agent);
    if (!agent->is_lost && (agent->head.to_write.failed || !pipe_flush (&agent->head)))
        lose_head (agent);
}

static void
greet (struct agent *agent)
{
    char name[256] = "";
    struct strbuf *out = &agent->head.to_write;
    gethostname (name, sizeof name - 1);
    strbuf_add (out, WIRE_GREETING);
    size_t begin = wire_begin (out, WIRE_HELLO);
    wire_put_text (out, PACKAGE_VERSION);
    wire_put_text (out, name);
    wire_end (out, begin);
    if (!pipe_flush (&agent->head))
        lose_head (agent);
}

int
agent_serve (host_job_run *run)
{
    struct agent agent = { .run = run, .listener = LISTENER_NONE, .port_lock = PORT_LOCK_NONE,
                           .memtier = MEMTIER_NONE, .copies = COPIES_NONE, .proxies = MPI_PROXIES_NONE };
    agent_child_init (&agent.child);
    signals_block (&agent.signals, &agent.old_mask);
    agent.signal_fd = signalfd (-1, &agent.signals, SFD_CLOEXEC | SFD_NONBLOCK);
    pipe_init (&agent.head, 0, 1);
    greet (&agent);
    while (!agent.is_lost || agent.child.pid)
        serve_once (&agent);
    mpi_proxies_end_daemons (&agent.proxies);
    mpi_proxies_release (&agent.proxies);
    copies_release (&agent.copies);
    memtier_release (&agent.memtier);
    listener_close (&agent.listener);
    port_lock_release (&agent.port_lock);
    net_benchmark_stop (&agent.benchmark);
    job_spec_release (&agent.spec);
    return 0;
}
