/* SPDX-License-Identifier: Apache-2.0 */
/* Schedulers: change the learning rate from step to step. */
#ifndef ACCEL_SCHEDULER_H
#define ACCEL_SCHEDULER_H

#include <accel/base.h>
#include <accel/train.h>

ACCEL_BEGIN_DECLS

/** How a learning rate changes.  "base" is the learning rate of each parameter group when the scheduler is created. */
enum accel_schedule {
    ACCEL_SCHEDULE_CONSTANT,        /**< up to base in warmup_steps, then base */
    ACCEL_SCHEDULE_LINEAR,          /**< up to base in warmup_steps, then down to 0 at total_steps */
    ACCEL_SCHEDULE_COSINE,          /**< up to base in warmup_steps, then along `cycles` waves of a cosine */
    ACCEL_SCHEDULE_COSINE_RESTARTS, /**< the same, but each wave starts at base again */
    ACCEL_SCHEDULE_STEP,            /**< times gamma every step_size steps: torch's StepLR */
    ACCEL_SCHEDULE_POLYNOMIAL,      /**< down to 0 at total_steps by a power: torch's PolynomialLR */
    ACCEL_SCHEDULE_ONE_CYCLE,       /**< up to max_lr and down again: torch's OneCycleLR */
    ACCEL_SCHEDULE_LAMBDA,          /**< base times the result of a function of the program: torch's LambdaLR */
    ACCEL_SCHEDULE_WARMUP_STABLE_DECAY, /**< up to base, then base, then down: transformers' get_wsd_schedule() */
    ACCEL_SCHEDULE_KINDS, /**< how many there are */
};

/** The curve of the warm-up or the decay of ACCEL_SCHEDULE_WARMUP_STABLE_DECAY. */
enum accel_schedule_shape {
    ACCEL_SHAPE_DEFAULT,
    ACCEL_SHAPE_LINEAR,
    ACCEL_SHAPE_COSINE,
    ACCEL_SHAPE_ONE_MINUS_SQRT, /**< transformers' "1-sqrt" */
};

/** @return the factor for the base learning rate in step @p step, which is counted from 0. */
typedef double (*accel_lr_lambda) (void *user, uint64_t step);

/** A schedule; 0 is each field's default, and ACCEL_ZERO means 0. */
struct accel_scheduler_options {
    enum accel_schedule schedule; /**< 0: ACCEL_SCHEDULE_CONSTANT */
    uint64_t warmup_steps; /**< constant, linear, both cosines, warm-up-stable-decay; at most total_steps */
    bool warmup_from_one;  /**< its first step has base / warmup_steps, not 0, and its last one base: as in llm.c */
    uint64_t total_steps;  /**< linear, both cosines, polynomial, one-cycle: required */
    double cycles;         /**< cosine: waves (0: 0.5, falls once); restarts: a whole number (0: 1), or refused */
    double final_fraction; /**< linear, both cosines, warm-up-stable-decay: ends at this fraction of base; 0: at 0 */
    uint64_t stable_steps; /**< warm-up-stable-decay; 0: what warm-up and decay leave of total_steps */
    uint64_t decay_steps;  /**< warm-up-stable-decay: required */
    enum accel_schedule_shape warmup_shape; /**< warm-up-stable-decay, from final_fraction of base; default: linear */
    enum accel_schedule_shape decay_shape;  /**< warm-up-stable-decay; default: cosine */
    uint64_t step_size;    /**< step: required */
    double gamma;          /**< step; 0: 0.1 */
    double power;          /**< polynomial; 0: 1 */

    double max_lr;           /**< one-cycle: required; replaces the optimizer's learning rate */
    double pct_start;        /**< one-cycle: the rising part of total_steps; 0: 0.3 */
    double div_factor;       /**< one-cycle: starts at max_lr / div_factor; 0: 25 */
    double final_div_factor; /**< one-cycle: ends at the initial rate / final_div_factor; 0: 10000 */
    bool linear;             /**< one-cycle: straight lines instead of cosines */
    bool three_phase;        /**< one-cycle: falls to the initial rate as fast as it rose, then to the last */
    enum accel_flag cycle_momentum; /**< one-cycle: change momentum (Adam and Lion: beta1), too: yes unless ACCEL_NO */
    double base_momentum;    /**< one-cycle: lowest momentum; 0: 0.85 */
    double max_momentum;     /**< one-cycle: highest momentum, at the lowest learning rate; 0: 0.95 */

    accel_lr_lambda lambda; /**< lambda: required */
    void *user;             /**< its first argument */

    enum accel_flag step_with_optimizer; /**< yes unless ACCEL_NO: one step per call, whatever the optimizer did */
    bool split_batches;     /**< one step per call, for any number of processes.  Not needed if the running loader has
                                 split_batches (if none is running: any loader that was prepared) */
    const char *group;      /**< name of the one parameter group to change; NULL: all groups, each from its own base */
};

/** Changes the learning rate of an optimizer. */
struct accel_scheduler;

/**
 * Create a scheduler and set the learning rate of step 0.
 *
 * @param optimizer  once it is destroyed, the scheduler's calls fail with ACCEL_ERR_INVALID
 * @retval ACCEL_ERR_INVALID  a required field is missing, a field is out of range, or one-cycle would change the
 *                            momentum of an optimizer that has none
 */
#define accel_scheduler_create(...) accel_scheduler_create_sized (sizeof (struct accel_scheduler_options), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_scheduler_create_sized (size_t options_size, struct accel_scheduler **scheduler,
                              struct accel_optimizer *optimizer, const struct accel_scheduler_options *options,
                              struct accel_error *err);

/**
 * Create a scheduler that runs several schedules one after the other: torch's SequentialLR.  Schedule 0 begins in step
 * 0, schedule i in step milestones[i - 1], each with its own step 0 and the same base.
 *
 *   const struct accel_scheduler_options parts[] = {
 *       { .schedule = ACCEL_SCHEDULE_CONSTANT, .warmup_steps = 100 },
 *       { .schedule = ACCEL_SCHEDULE_STEP, .step_size = 30, .gamma = 0.5 },
 *   };
 *   accel_scheduler_create_sequential (&scheduler, optimizer, parts, 2, (uint64_t[]){ 500 }, &err);
 *
 * @param schedules   [count]; `group`, `step_with_optimizer` and `split_batches` of the first apply to all
 * @param milestones  [count - 1], ascending, greater than 0; ignored if count is 1
 * @retval ACCEL_ERR_INVALID  as for accel_scheduler_create(), invalid milestones, or a one-cycle schedule whose
 *                            total_steps end before the next schedule begins
 */
#define accel_scheduler_create_sequential(...)                                                     \
    accel_scheduler_create_sequential_sized (sizeof (struct accel_scheduler_options), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_scheduler_create_sequential_sized (size_t options_size, struct accel_scheduler **scheduler,
                                         struct accel_optimizer *optimizer,
                                         const struct accel_scheduler_options *schedules, size_t count,
                                         const uint64_t *milestones, struct accel_error *err);

/**
 * Create a scheduler whose learning rate is base times the factors of several schedules that run at the same time.  For
 * step and polynomial schedules, this is torch's ChainedScheduler, bit for bit.  (In torch, other schedules replace the
 * rate instead of multiplying it.)  One-cycle sets absolute rates, and is refused.
 *
 * @param schedules  [count]; `group`, `step_with_optimizer` and `split_batches` of the first apply to all
 */
#define accel_scheduler_create_chained(...)                                                     \
    accel_scheduler_create_chained_sized (sizeof (struct accel_scheduler_options), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_scheduler_create_chained_sized (size_t options_size, struct accel_scheduler **scheduler,
                                      struct accel_optimizer *optimizer,
                                      const struct accel_scheduler_options *schedules, size_t count,
                                      struct accel_error *err);

/** Free @p scheduler; the optimizer keeps its learning rate.  Accepts NULL. */
ACCEL_API void accel_scheduler_destroy (struct accel_scheduler *scheduler);

/**
 * Advance to the next learning rate: call it after each accel_optimizer_step().
 *
 * Once prepared with accel_prepare(), it steps like Accelerate's.  Schedules count steps of one process: a call
 * advances by as many steps as there are processes, because all of their batches were trained on (but see
 * split_batches), and one-cycle stops at its end.  It does not advance while gradients are being accumulated, or if the
 * optimizer's step was skipped.  Nothing is sent.
 *
 * @retval ACCEL_ERR_INVALID  one-cycle has reached its end; once prepared, only if step_with_optimizer is
 *                            ACCEL_NO, or with split_batches
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_scheduler_step (struct accel_scheduler *scheduler, struct accel_error *err);

/** @return the learning rate that @p scheduler set last, in the first group that it changes.  Its momentum, which
 *  one-cycle changes, is in accel_optimizer_get_group(). */
ACCEL_API double accel_scheduler_lr (const struct accel_scheduler *scheduler);

/** The state of one schedule in one parameter group.  Plain bytes that can be written to a file directly. */
struct accel_scheduler_state {
    uint32_t version;
    uint32_t schedule; /**< enum accel_schedule; above 64 for a sequence or a chain as a whole */
    uint64_t step;     /**< steps since step 0: torch's last_epoch */
    double base_lr;
    double lr;
    double momentum; /**< of the optimizer; 0 if it is not changed */
};

/** @return the number of states of @p scheduler: 1 for one schedule and one group. */
ACCEL_API size_t accel_scheduler_state_count (const struct accel_scheduler *scheduler);

/**
 * Get the complete state of @p scheduler: everything needed to resume.
 *
 * @param[out] states  [accel_scheduler_state_count()]; may be NULL
 */
ACCEL_API void accel_scheduler_get_state (const struct accel_scheduler *scheduler,
                                          struct accel_scheduler_state *states);

/**
 * Resume from @p states, and set the optimizer's learning rates (and momenta, if the schedule changes them).
 *
 * @param states  [count]
 * @retval ACCEL_ERR_FORMAT  not valid states, or from a different release or other schedules, or `count` is not
 *                           accel_scheduler_state_count(); nothing has changed
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_scheduler_set_state (struct accel_scheduler *scheduler, const struct accel_scheduler_state *states, size_t count,
                           struct accel_error *err);

ACCEL_END_DECLS

#endif
