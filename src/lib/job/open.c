/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a job: what the program and the environment say, the parts, the connection; and before it is
 * closed, the end of training. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/base/option.h"
#include "lib/base/sized.h"
#include "lib/checkpoint/agree.h"
#include "lib/checkpoint/best.h"
#include "lib/checkpoint/checkpoint_part.h"
#include "lib/checkpoint/memory_tier.h"
#include "lib/checkpoint/save.h"
#include "lib/collectives/parallel.h"
#include "lib/comm/comm_object.h"
#include "lib/data/active.h"
#include "lib/data/generator.h"
#include "lib/job/stack.h"
#include "lib/memory/device.h"
#include "lib/state/launched.h"
#include "lib/state/log.h"
#include "lib/state/prepared.h"
#include "lib/state/state_object.h"
#include "lib/track/track_part.h"
#include "lib/train/accumulate.h"
#include "lib/train/outliers.h"
#include "lib/train/precision.h"
#include "lib/train/reducer/join_round.h"
#include "lib/train/reducer/rank_state.h"
#include "lib/utility/preemption.h"
#include "lib/utility/profile.h"
#include "lib/utility/transfer.h"
#include "util/envnames.h"
#include "util/parse.h"
#include "util/precisions.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_STALL_MS = 60000 }; /* as of --stall_timeout */

/* @param[in,out] value  stays if the variable is not set */
static enum accel_status
read_ms (const char *name, uint32_t least, uint32_t *value, struct accel_error *err)
{
    const char *text = getenv (name);
    int64_t number = *value;
    if (text && parse_int64 (text, least, UINT32_MAX, &number) != PARSE_OK)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "environment: %s='%.40s' is not a number of milliseconds from %u to %u", name, text, least,
                           UINT32_MAX);
    *value = (uint32_t) number;
    return ACCEL_OK;
}

static enum accel_status
read_timeout (const struct accel_options *options, uint32_t *timeout_ms, struct accel_error *err)
{
    *timeout_ms = options && options->timeout_ms ? options->timeout_ms : DEFAULT_TIMEOUT_MS;
    return options && options->timeout_ms ? ACCEL_OK : read_ms (ENV_TIMEOUT_MS, 1, timeout_ms, err);
}

static void
say_wait (void *acc, const char *text)
{
    accel_logger_log (acc, ACCEL_LOG_WARNING | ACCEL_LOG_EVERYWHERE, "%s", text);
}

/* A launcher that has made the segment sees all its ranks, and was told when to speak. */
static enum accel_status
warn_of_waits (struct accel *acc, struct accel_error *err)
{
    uint32_t after_ms = DEFAULT_STALL_MS;
    enum accel_status status = read_ms (ENV_STALL_TIMEOUT_MS, 0, &after_ms, err);
    if (!status && after_ms && !(acc->segment.header && acc->segment.header->launcher_pid))
        acc->world->watch.warning
            = (struct watch_warning){ .say = say_wait, .context = acc, .after_ms = after_ms };
    return status;
}

/* @return the engines to try; NULL: any.  An empty variable counts as unset. */
static const char *
read_engine (const struct accel_options *options)
{
    if (options && options->engine)
        return *options->engine ? options->engine : NULL;
    const char *text = getenv (ENV_ENGINE);
    return text && *text ? text : NULL;
}

static enum accel_status
read_precision (const struct accel_options *options, const struct precision_mode **precision, struct accel_error *err)
{
#define X(name, ...) ", " name
    static const char names[] = PRECISION_MAP (X);
#undef X
    const char *given = options ? options->mixed_precision : NULL, *text = given ? given : getenv (ENV_MIXED_PRECISION);
    *precision = precision_mode_find (text);
    if (*precision)
        return ACCEL_OK;
    return accel_fail (err, ACCEL_ERR_INVALID, "%s%s='%.40s' is invalid: expected one of %s",
                       given ? "" : "environment: ", given ? "mixed_precision" : ENV_MIXED_PRECISION, text,
                       names + strlen (", "));
}

/* DeepSpeed's file decides if it does not say "auto", as in Accelerate, which refuses what contradicts it. */
static enum accel_status
settle_precision (const struct deepspeed_file *file, const struct precision_mode **precision, struct accel_error *err)
{
    const struct deepspeed_value *fp16 = &file->values[DEEPSPEED_FP16], *bf16 = &file->values[DEEPSPEED_BF16];
    const char *asked = (*precision)->name;
    bool is_fp16 = !strcmp (asked, "fp16"), is_fp8 = !strcmp (asked, "fp8");
    bool is_bf16 = is_fp8 || !strcmp (asked, "bf16"); /* which 8-bit formats compute in */
    if ((is_fp16 && bf16->number > 0) || (is_bf16 && fp16->number > 0))
        return accel_fail (err, ACCEL_ERR_INVALID, "mixed_precision is %s, but DeepSpeed's configuration file enables "
                           "%s: write \"auto\" there", asked, is_fp16 ? "bf16" : "fp16");
    is_fp16 = fp16->is == DEEPSPEED_SET ? fp16->number > 0 : is_fp16;
    is_bf16 = bf16->is == DEEPSPEED_SET ? bf16->number > 0 : is_bf16;
    if (file->is_read && !is_fp8)
        *precision = precision_mode_find (is_fp16 ? "fp16" : is_bf16 ? "bf16" : "no");
    return ACCEL_OK;
}

static enum accel_status
read_bool (const char *name, bool *value, struct accel_error *err)
{
    const char *text = getenv (name);
    *value = false;
    if (text && parse_bool (text, value) != PARSE_OK)
        return accel_fail (err, ACCEL_ERR_INVALID, "environment: %s='%.40s' is not a boolean: expected true or false",
                           name, text);
    return ACCEL_OK;
}

static enum accel_status
read_flags (struct accel *acc, const struct accel_options *options, struct accel_error *err)
{
    enum accel_status status = read_bool (ENV_USE_CPU, &acc->cpu, err);
    acc->cpu = acc->cpu || (options && options->cpu);
    if (!status)
        status = read_bool (ENV_CHECK_GRADIENTS, &acc->check_gradients, err);
    acc->check_gradients = acc->check_gradients || (options && options->check_gradients);
    if (!status && launched_is_on (ENV_USE_FSDP))
        status = read_bool (ENV_FSDP_ACTIVATION_CHECKPOINTING, &acc->activation_checkpointing, err);
    return status ? status : read_bool (ENV_DEBUG_MODE, &acc->debug, err);
}

/* Saves and loads that take long show how far they are. */
static enum accel_status
show_transfers (struct accel *acc, struct accel_error *err)
{
    bool silent;
    enum accel_status status = read_bool (ENV_NO_PROGRESS, &silent, err);
    if (!status && !silent)
        checkpoint_of (acc)->show = transfer_show;
    return status;
}

/* The path names a process by its number, which may by now be that of another launcher. */
static int
attach_own (struct jobseg *segment, const char *path, struct fail *fail)
{
    const char *id = getenv (ENV_JOB_ID);
    if (jobseg_attach (segment, path, fail))
        return -1;
    if (!id || !strncmp (id, segment->header->job_id, sizeof segment->header->job_id))
        return 0;
    fail_set (fail, FAIL_GENERAL, "%s: the segment of job %.39s, but this process belongs to job %.39s (%s)", path,
              segment->header->job_id, id, ENV_JOB_ID);
    jobseg_detach (segment);
    return -1;
}

/* A process alone needs no segment, so it does without one that it cannot open. */
static enum accel_status
attach (struct jobseg *segment, struct identity *identity, struct accel_error *err)
{
    const char *path = getenv (ENV_JOB_SEGMENT);
    struct fail fail;
    bool failed = path && *path && attach_own (segment, path, &fail);
    enum accel_status status = identity_discover (identity, segment, err);
    if (status || !failed || identity->world_size == 1)
        return status;
    return accel_fail (err, ACCEL_ERR_INVALID,
                       "environment: %s: %.300s: is the launcher gone, or in another container? Unset the variable to "
                       "connect without it",
                       ENV_JOB_SEGMENT, fail.text);
}

/* What each job has of higher floors.  It is opened in this order, and closed in the opposite one. */
static const struct part_kind *const parts[] = {
    &part_parallel,
    &part_loaders,
    &part_random,
    &part_precision,
    &part_accumulation,
    &part_join,
    &part_gradients,
    &part_power_sgd,
    &part_outliers,
    &part_prepared,
    &part_best,
    &part_checkpoint,
    &part_memory_tier,
    &part_track,
    &part_preemption,
    NULL,
};

/* NULL: there is no segment. */
static struct jobseg_slot *
own_slot (const struct jobseg *segment, const struct identity *identity)
{
    return segment->header ? jobseg_slot (segment, identity->local_rank) : NULL;
}

static void
leave (struct object *object)
{
    struct accel *acc = (struct accel *) (void *) object;
    stack_hide (own_slot (&acc->segment, &acc->identity));
    parts_close (acc);
    comm_close (acc->world);
    jobseg_detach (&acc->segment);
    deepspeed_release (&acc->deepspeed);
}

static const struct object_kind kind_job = { .name = "job", .end = leave };

/* What the variables of the environment are laid over.  Once per job: `cold` asks for small code, not for fast code. */
__attribute__ ((cold)) static enum accel_status
read_options (struct accel *made, const struct accel_options *options, uint32_t *timeout_ms, struct accel_error *err)
{
    made->split_batches = options && options->split_batches;
    made->device_placement = !options || flag_or (options->device_placement, true);
    enum accel_status status = options ? flag_check (options->device_placement, "device_placement", err) : ACCEL_OK;
    if (!status)
        status = read_timeout (options, timeout_ms, err);
    if (!status)
        status = launched_deepspeed (&made->deepspeed, err);
    if (!status)
        status = read_precision (options, &made->precision, err);
    if (!status)
        status = settle_precision (&made->deepspeed, &made->precision, err);
    if (!status)
        status = read_flags (made, options, err);
    if (!status)
        status = parts_open (made, parts, options, err);
    return status ? status : show_transfers (made, err);
}

/* By another process: this one is a second program of its rank, a child for instance. */
static bool
is_in_use (const struct jobseg_slot *slot)
{
    pid_t pid = atomic_load (&slot->pid);
    return atomic_load (&slot->state) == JOBSEG_READY && pid > 0 && pid != getpid () && !kill (pid, 0);
}

/* In a segment of the launcher's before the processes meet, which may be what takes long.
 * @param is_open  they have met: other launchers' processes have made a segment by then */
static enum accel_status
show_stack (const struct accel *acc, const struct jobseg *segment, const struct accel_options *options, bool is_open,
            struct accel_error *err)
{
    struct jobseg_slot *slot = own_slot (segment, &acc->identity);
    if (!is_open && (!slot || is_in_use (slot)))
        return ACCEL_OK;
    return stack_show (slot, options ? options->stack_signal : 0, err);
}

__attribute__ ((cold)) static enum accel_status
open_job (struct accel **acc, const struct accel_options *options, struct accel_error *err)
{
    struct engine_job job = { .base.size = sizeof job.base, .engines = read_engine (options),
                              .segment = JOBSEG_NONE };

    char why[ACCEL_ERROR_TEXT_SIZE] = "";
    struct accel *made = calloc (1, sizeof *made);
    if (!made)
        return accel_fail (err, ACCEL_ERR_NOMEM, "accel_open: out of memory");
    made->object = (struct object) OBJECT_INIT (&kind_job);
    enum accel_status status = read_options (made, options, &job.base.timeout_ms, err);
    if (!status)
        status = log_check_environment (err);
    if (!status)
        status = attach (&job.segment, &made->identity, err);
    const struct identity *identity = &made->identity;
    job.base.rank = identity->rank;
    job.base.world_size = identity->world_size;
    job.base.local_rank = identity->local_rank;
    job.base.local_world_size = identity->local_world_size;
    if (!status)
        status = show_stack (made, &job.segment, options, false, err);
    if (!status)
        memory_tier_begin_check (made);
    if (!status) /* before engines are chosen for it */
        made->device = job.base.device = device_choose (identity->local_rank, made->cpu, why);
    if (!status)
        status = comm_open (&made->world, &job, err);
    made->segment = job.segment;
    if (!status)
        status = show_stack (made, &job.segment, options, true, err);
    if (!status)
        status = warn_of_waits (made, err);
    if (!status)
        status = parallel_connect (made, err);
    if (status)
        goto error;
    preemption_begin (made);
    bool falls_back = made->device.device_type != kDLCPU && identity->world_size > 1
                      && !comm_link_for (made->world, made->device);
    if (falls_back) {
        made->device = (DLDevice){ .device_type = kDLCPU }; /* where its ranks can work together */
        accel_logger_log (made, ACCEL_LOG_WARNING, "this program computes on CPUs: %s", made->world->refusal);
    }
    if (*why && device_memory ()) /* so it is this rank that has none */
        accel_logger_log (made, ACCEL_LOG_WARNING | ACCEL_LOG_EVERYWHERE, "this program computes on CPUs: %s", why);
    else if (*why)
        accel_logger_log (made, ACCEL_LOG_WARNING, "this program computes on CPUs: %s", why);
    *acc = made;
    return ACCEL_OK;
error:
    if (made->world) /* the report says why, not that the program has closed the job */
        comm_give_up (made->world, err ? err->text : "accel_open failed");
    accel_close (made);
    return status;
}

enum accel_status
accel_open_sized (size_t options_size, size_t accumulation_size, size_t scaler_size, struct accel **acc,
                  const struct accel_options *options, struct accel_error *err)
{
    if (!acc)
        return accel_fail_null (err, "accel_open", "acc");
    *acc = NULL;
    struct accel_options own, room;
    struct accel_gradient_accumulation accumulation;
    struct accel_grad_scaler scaler;
    enum accel_status status;
    options = SIZED (options, options_size, room, &status, err);
    if (status || !options)
        return status ? status : open_job (acc, NULL, err);
    own = *options;
    own.gradient_accumulation_plugin
        = SIZED (options->gradient_accumulation_plugin, accumulation_size, accumulation, &status, err);
    if (!status)
        own.grad_scaler = SIZED (options->grad_scaler, scaler_size, scaler, &status, err);
    return status ? status : open_job (acc, &own, err);
}

/* What is still running comes to its end, on all processes. */
enum accel_status
accel_end_training_at (const char *file, int line, struct accel *acc, struct accel_error *err)
{
    struct comm_site site = { file, line, JOBSEG_CALL_END_TRAINING };
    if (!acc)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_end_training: acc is NULL");
    if (join_steps (acc))
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "accel_end_training: end accel_join_uneven_inputs with accel_join_end first");
    prepared_stop (acc);
    track_end (acc);
    struct accel_error own = { 0 };
    uint64_t entered = checkpoint_enter (acc, &site);
    enum accel_status status = checkpoint_leave (acc, &site, entered, save_finish (acc, &site, &own), &own, err);
    if (status)
        return status;
    status = profile_is_recording (acc) ? accel_profile_stop_at (file, line, acc, err) : ACCEL_OK;
    return status ? status : comm_barrier (acc->world, &site, err);
}

void
accel_close (struct accel *acc)
{
    object_destroy (acc ? &acc->object : NULL);
}
