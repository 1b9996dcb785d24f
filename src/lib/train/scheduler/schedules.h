/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules from the inside: one formula, a sequence of them or their product, over the groups of an optimizer. */
#ifndef LIB_TRAIN_SCHEDULES_H
#define LIB_TRAIN_SCHEDULES_H

#include <accel/scheduler.h>

#include "lib/base/object.h"
#include "lib/train/accumulate.h"
#include "lib/train/compare.h"
#include "lib/train/optimizer/optimizer_object.h"

enum { ONE_CYCLE_PHASES = 3 };

/** One-cycle goes from one value to another up to each of these steps. */
struct phase {
    double end_step;
    double start_lr, end_lr;
    double start_momentum, end_momentum;
};

/** One formula and its current step. */
struct schedule {
    struct accel_scheduler_options options; /* no field is 0 that has another default */
    uint64_t step;
    double *base_lr, *lr; /* [scheduler's group_count]; `lr` is what it set last */
    struct phase phases[ONE_CYCLE_PHASES];
    int phase_count;
};

/** A kind of schedule: one row of the table in schedules.c. */
struct schedule_kind {
    const char *name; /* "a cosine schedule" */
    /** How it has its rates: one of the three.  @{ */
    double (*factor) (const struct schedule *part);            /* what base is multiplied by; may call the program */
    double (*next) (const struct schedule *part, double lr);   /* the rate that follows @p lr, from step 1 on */
    double (*rate) (const struct schedule *part);              /* a rate of its own, whatever base is */
    /** @} */
    double (*momentum) (const struct schedule *part); /* NULL: it leaves momentum alone */
    void (*begin) (struct schedule *part, size_t group_count); /* set up what follows from its options; or NULL */
    enum accel_status (*check) (struct accel_scheduler_options *options, struct accel_error *err); /* or NULL */
    unsigned needs; /* the options that must be given */
    double cycles;  /* the default of this option; 0: 1 */
    bool warms_up;  /* it rises to base in the first warmup_steps, and the formula is for those that follow */
    bool ends;      /* it has no rate after total_steps */
};

enum composition { COMPOSED_OF_ONE, COMPOSED_IN_SEQUENCE, COMPOSED_AS_PRODUCT };

struct accel_scheduler {
    struct object object;
    struct accel_optimizer *optimizer;
    enum composition composition;
    struct schedule *parts; /* [part_count] */
    size_t part_count;
    uint64_t *milestones; /* [part_count - 1], of a sequence: the step in which part i + 1 begins */
    uint64_t step;
    size_t *groups; /* [group_count]: the groups of the optimizer that it moves */
    size_t group_count;
    double *lr, *momentum; /* [group_count]: what was set last; 0 if it has not been */
    bool moves_momentum; /* schedule_moves_momentum() of a part */
    double *memory;
    uint64_t unit;           /* steps of each of its calls, as many as there are ranks or 1; 0: none so far */
    struct step_shape shape; /* of the step of its latest call */
};

/** Put defaults in place of zeros, and check @p options for @p optimizer. */
enum accel_status schedule_check_options (struct accel_scheduler_options *options, struct accel_error *err);

/** @return the row of @p options, whose schedule is valid. */
const struct schedule_kind *schedule_kind_of (const struct accel_scheduler_options *options);

/** Set up what follows from the options of @p part.  `base_lr` is there, and may be changed. */
void schedule_begin (struct schedule *part, size_t group_count);

/** @return whether the next rate follows from the one before and not from the step alone, so that several multiply. */
bool schedule_is_recursive (const struct schedule *part);

/** @return what base is multiplied by in the step of @p part; 1 for one that is recursive.  May call the program. */
double schedule_factor (const struct schedule *part);

/** @return the rate of the group at @p place, whose rate was @p before and whose base is multiplied by @p factor. */
double schedule_rate (const struct schedule *part, size_t place, double before, double factor);

/** @return whether the step of a schedule with @p options sets momentum, too. */
bool schedule_moves_momentum (const struct accel_scheduler_options *options);

/** @return whether the schedule has an end, and has got there. */
bool schedule_is_at_end (const struct schedule *part);

/** @return "a cosine schedule"; static. */
const char *schedule_name (enum accel_schedule schedule);

/** @return state @p number of those of accel_scheduler_get_state(). */
struct accel_scheduler_state scheduler_record (const struct accel_scheduler *scheduler, size_t number);

/** Note the options of @p part.  @param kind  "part", if it is one of several; NULL: it is alone */
void schedule_note (const struct schedule *part, const char *kind, struct noted_numbers *numbers);

/** @return the steps that a call makes while @p loader runs, which may be NULL. */
uint64_t scheduler_unit (const struct accel_scheduler *scheduler, const struct accel_loader *loader);

/** Set the rates of the step that it is in.  May call the program, which may destroy it: ACCEL_ERR_CALLBACK. */
enum accel_status scheduler_apply (struct accel_scheduler *scheduler, struct accel_error *err);

/** Begin anew with the bases that the parts have, and make @p steps steps.  May call the program. */
enum accel_status scheduler_replay (struct accel_scheduler *scheduler, uint64_t steps, struct accel_error *err);

/** @return ACCEL_OK if @p scheduler and its optimizer are there for a call of @p function. */
enum accel_status scheduler_check (const char *function, const struct accel_scheduler *scheduler,
                                   struct accel_error *err);

/** accel_prepare(): compare schedulers over the ranks.  Collective. */
enum accel_status scheduler_prepare (struct object *object, struct accel *acc, const struct comm_site *site,
                                     struct accel_error *err);

/** scheduler_resume.c: what checkpoints have of a scheduler.  @{ */
void scheduler_save (const struct object *object, struct accel_state_dict *state);
enum accel_status scheduler_load (struct object *object, const struct accel_state_dict *state,
                                  struct accel_error *err);
/** @} */

#endif
