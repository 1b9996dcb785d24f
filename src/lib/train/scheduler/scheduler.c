/* SPDX-License-Identifier: Apache-2.0 */
/* Making schedulers: one schedule, a sequence or a product of several, over all groups of an optimizer or over one. */
#include <config.h>

#include "lib/train/scheduler/schedules.h"

#include "lib/base/error.h"
#include "lib/base/option.h"
#include "lib/base/sized.h"
#include "lib/state/prepared.h"
#include "util/cleanup.h"
#include "util/suggest.h"

#include <stdlib.h>
#include <string.h>

enum { SUGGESTION_SIZE = 120 };

/* What a caller of the three constructors asks for. */
struct request {
    const struct accel_scheduler_options *options; /* [count] */
    size_t count;
    enum composition composition;
    const uint64_t *milestones; /* [count - 1], of a sequence */
};

static void
end_scheduler (struct object *object)
{
    struct accel_scheduler *scheduler = (struct accel_scheduler *) (void *) object;
    prepared_remove (object);
    free (scheduler->parts);
    free (scheduler->milestones);
    free (scheduler->groups);
    free (scheduler->memory);
    object_let_go (&scheduler->optimizer->object);
}

static const struct object_kind kind_scheduler
    = { .name = "scheduler", .end = end_scheduler, .prepare = scheduler_prepare,
        .save = scheduler_save, .load = scheduler_load, .file = "scheduler", .floor = OBJECT_SCHEDULER };

/* The groups that @p name says: one, or all that the optimizer changes. */
static enum accel_status
find_groups (struct accel_scheduler *scheduler, const char *name, struct accel_error *err)
{
    const struct accel_optimizer *optimizer = scheduler->optimizer;
    struct suggest suggest = { .wanted = name ? name : "" };
    char space[SUGGESTION_SIZE];
    for (size_t i = 0; i < optimizer->group_count; i++) {
        const struct optimizer_group *group = &optimizer->groups[i];
        if (name)
            suggest_consider (&suggest, group->name);
        if (!group->skip && (!name || !strcmp (name, group->name)))
            scheduler->groups[scheduler->group_count++] = i;
    }
    if (scheduler->group_count)
        return ACCEL_OK;
    if (!name || accel_optimizer_find_group (optimizer, name) != ACCEL_NO_GROUP)
        return accel_fail (err, ACCEL_ERR_INVALID, "group '%.80s' is left to another optimizer: there is no learning "
                           "rate to schedule", name ? name : optimizer->groups->name);
    return accel_fail (err, ACCEL_ERR_INVALID, "the optimizer has no group '%.80s'%s", name,
                       suggest_text (&suggest, "", space, sizeof space));
}

/* Which groups are moved, and how steps are counted, is said once for all parts. */
static enum accel_status
check_common (const struct accel_scheduler_options *first, const struct accel_scheduler_options *other, size_t part,
              struct accel_error *err)
{
    bool same_group = !other->group || (first->group && !strcmp (first->group, other->group));
    if (same_group && (other->step_with_optimizer != ACCEL_NO || first->step_with_optimizer == ACCEL_NO)
        && (!other->split_batches || first->split_batches))
        return ACCEL_OK;
    return accel_fail (err, ACCEL_ERR_INVALID, "schedule %zu: %s must be set in the first schedule, for all of them",
                       part, !same_group ? "group" : other->split_batches ? "split_batches" : "step_with_optimizer");
}

static enum accel_status
check_momentum (const struct accel_scheduler *scheduler, const struct accel_scheduler_options *options,
                struct accel_error *err)
{
    if (!schedule_moves_momentum (options))
        return ACCEL_OK;
    for (size_t i = 0; i < scheduler->group_count; i++)
        if (!optimizer_momentum (scheduler->optimizer, scheduler->groups[i]))
            return accel_fail (err, ACCEL_ERR_INVALID,
                               "%s changes momentum or beta1, but this optimizer%s has neither: set "
                               "cycle_momentum to ACCEL_NO",
                               schedule_name (options->schedule),
                               scheduler->optimizer->group_count > 1 ? " or one of its groups" : "");
    return ACCEL_OK;
}

/* A schedule that ends has no rate then: a sequence that asks for one could never get to the next schedule. */
static enum accel_status
check_length (const struct request *request, size_t p, struct accel_error *err)
{
    const struct accel_scheduler_options *options = &request->options[p];
    if (!request->milestones || p + 1 >= request->count || !schedule_kind_of (options)->ends)
        return ACCEL_OK;
    uint64_t length = request->milestones[p] - (p ? request->milestones[p - 1] : 0);
    if (length - 1 <= options->total_steps)
        return ACCEL_OK;
    return accel_fail (err, ACCEL_ERR_INVALID,
                       "schedule %zu: %s has total_steps %llu, but the next schedule begins after %llu steps: "
                       "set total_steps to %llu", p, schedule_name (options->schedule),
                       (unsigned long long) options->total_steps, (unsigned long long) length,
                       (unsigned long long) length);
}

/* The options of part @p p, with defaults, and where it begins. */
static enum accel_status
make_part (struct accel_scheduler *scheduler, const struct request *request, size_t p, struct accel_error *err)
{
    struct schedule *part = &scheduler->parts[p];
    size_t count = scheduler->group_count;
    part->options = request->options[p];
    enum accel_status status = schedule_check_options (&part->options, err);
    if (!status)
        status = check_momentum (scheduler, &part->options, err);
    if (!status)
        status = check_common (request->options, &request->options[p], p, err);
    if (!status)
        status = check_length (request, p, err);
    if (status)
        return status;
    if (request->composition == COMPOSED_AS_PRODUCT && schedule_kind_of (&part->options)->rate)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s has its own rates and cannot be multiplied with other schedules",
                           schedule_name (part->options.schedule));
    part->options.group = NULL; /* the program's memory */
    part->base_lr = scheduler->memory + (2 * p + 2) * count;
    part->lr = part->base_lr + count;
    for (size_t i = 0; i < count; i++)
        part->base_lr[i] = part->lr[i] = *optimizer_lr_of (scheduler->optimizer, scheduler->groups[i]);
    schedule_begin (part, count);
    scheduler->moves_momentum = scheduler->moves_momentum || schedule_moves_momentum (&part->options);
    return ACCEL_OK;
}

static enum accel_status
make_parts (struct accel_scheduler *scheduler, const struct request *request, struct accel_error *err)
{
    size_t count = request->count;
    scheduler->groups = calloc (scheduler->optimizer->group_count, sizeof *scheduler->groups);
    scheduler->parts = calloc (count, sizeof *scheduler->parts);
    scheduler->milestones = request->milestones ? calloc (count, sizeof *scheduler->milestones) : NULL;
    if (!scheduler->groups || !scheduler->parts || (request->milestones && !scheduler->milestones))
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a scheduler");
    enum accel_status status = find_groups (scheduler, request->options->group, err);
    if (status)
        return status;
    scheduler->memory = calloc ((2 * count + 2) * scheduler->group_count, sizeof *scheduler->memory);
    if (!scheduler->memory)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a scheduler");
    scheduler->lr = scheduler->memory;
    scheduler->momentum = scheduler->lr + scheduler->group_count;
    for (size_t p = 0; p + 1 < count && request->milestones; p++)
        scheduler->milestones[p] = request->milestones[p];
    scheduler->part_count = count;
    for (size_t p = 0; p < count && !status; p++)
        status = make_part (scheduler, request, p, err);
    for (size_t i = 0; i < scheduler->group_count && !status && scheduler->moves_momentum; i++)
        scheduler->momentum[i] = *optimizer_momentum (scheduler->optimizer, scheduler->groups[i]);
    return status;
}

static enum accel_status
create (struct accel_scheduler **scheduler, struct accel_optimizer *optimizer, const struct request *request,
        struct accel_error *err)
{
    struct accel_scheduler *made = calloc (1, sizeof *made);
    if (!made)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a scheduler");
    made->object = (struct object) OBJECT_INIT (&kind_scheduler);
    made->optimizer = optimizer;
    object_hold (&optimizer->object);
    made->composition = request->composition;
    enum accel_status status = make_parts (made, request, err);
    if (!status)
        status = scheduler_apply (made, err);
    if (status)
        object_destroy (&made->object);
    else
        *scheduler = made;
    return status;
}

static enum accel_status
check_arguments (const char *function, struct accel_scheduler **scheduler, const struct accel_optimizer *optimizer,
                 const struct request *request, struct accel_error *err)
{
    if (scheduler)
        *scheduler = NULL;
    if (!scheduler || !optimizer || !request->options)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: %s is NULL", function,
                           !scheduler ? "scheduler" : !optimizer ? "optimizer" : "options");
    if (object_is_gone (&optimizer->object))
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: the optimizer has been destroyed", function);
    if (!request->count || request->count > UINT16_MAX)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: count is %zu, but must be between 1 and %u", function,
                           request->count, UINT16_MAX);
    return ACCEL_OK;
}

enum accel_status
accel_scheduler_create_sized (size_t options_size, struct accel_scheduler **scheduler,
                              struct accel_optimizer *optimizer, const struct accel_scheduler_options *options,
                              struct accel_error *err)
{
    struct request request = { .options = options, .count = 1 };
    struct accel_scheduler_options room;
    enum accel_status status = check_arguments ("accel_scheduler_create", scheduler, optimizer, &request, err);
    if (!status)
        request.options = SIZED (options, options_size, room, &status, err);
    return status ? status : create (scheduler, optimizer, &request, err);
}

enum accel_status
accel_scheduler_create_sequential_sized (size_t options_size, struct accel_scheduler **scheduler,
                                         struct accel_optimizer *optimizer,
                                         const struct accel_scheduler_options *schedules, size_t count,
                                         const uint64_t *milestones, struct accel_error *err)
{
    static const char call[] = "accel_scheduler_create_sequential";
    struct request request = { schedules, count, COMPOSED_IN_SEQUENCE, milestones };
    AUTO_FREE struct accel_scheduler_options *resized = NULL;
    enum accel_status status = check_arguments (call, scheduler, optimizer, &request, err);
    if (!status && count > 1 && !milestones)
        return accel_fail_null (err, call, "milestones");
    for (size_t i = 0; !status && i + 1 < count; i++)
        if (milestones[i] <= (i ? milestones[i - 1] : 0))
            return accel_fail (err, ACCEL_ERR_INVALID, "%s: milestone %zu is %llu, but must be greater than %llu",
                               call, i, (unsigned long long) milestones[i],
                               (unsigned long long) (i ? milestones[i - 1] : 0));
    if (!status)
        request.options = SIZED_ARRAY (schedules, options_size, count, resized, &status, err);
    return status ? status : create (scheduler, optimizer, &request, err);
}

enum accel_status
accel_scheduler_create_chained_sized (size_t options_size, struct accel_scheduler **scheduler,
                                      struct accel_optimizer *optimizer,
                                      const struct accel_scheduler_options *schedules, size_t count,
                                      struct accel_error *err)
{
    struct request request = { schedules, count, COMPOSED_AS_PRODUCT, NULL };
    AUTO_FREE struct accel_scheduler_options *resized = NULL;
    enum accel_status status = check_arguments ("accel_scheduler_create_chained", scheduler, optimizer, &request, err);
    if (!status)
        request.options = SIZED_ARRAY (schedules, options_size, count, resized, &status, err);
    return status ? status : create (scheduler, optimizer, &request, err);
}

void
accel_scheduler_destroy (struct accel_scheduler *scheduler)
{
    object_destroy (scheduler ? &scheduler->object : NULL);
}
