/* SPDX-License-Identifier: Apache-2.0 */
/* Schedulers: learning rates that change from step to step. */
#ifndef ACCEL_SCHEDULER_H
#define ACCEL_SCHEDULER_H

#include <accel/base.h>
#include <accel/train.h>

ACCEL_BEGIN_DECLS

/** How a learning rate changes.  "base" is the learning rate of each parameter group when the scheduler is made. */
enum accel_schedule {
    ACCEL_SCHEDULE_CONSTANT,        /**< up to base in warmup_steps, then base */
    ACCEL_SCHEDULE_LINEAR,          /**< up to base in warmup_steps, then down to 0 at total_steps */
    ACCEL_SCHEDULE_COSINE,          /**< up to base in warmup_steps, then along `cycles` waves of a cosine */
    ACCEL_SCHEDULE_COSINE_RESTARTS, /**< the same, each wave begins at base again */
    ACCEL_SCHEDULE_STEP,            /**< times gamma every step_size steps: torch's StepLR */
    ACCEL_SCHEDULE_POLYNOMIAL,      /**< down to 0 at total_steps by a power: torch's PolynomialLR */
    ACCEL_SCHEDULE_ONE_CYCLE,       /**< up to max_lr and down again: torch's OneCycleLR */
    ACCEL_SCHEDULE_LAMBDA,          /**< base times what a function of the program says: torch's LambdaLR */
    ACCEL_SCHEDULE_WARMUP_STABLE_DECAY, /**< up to base, then base, then down: transformers' get_wsd_schedule() */
};

/** The curve of a warm-up or a decay in ACCEL_SCHEDULE_WARMUP_STABLE_DECAY. */
enum accel_schedule_shape {
    ACCEL_SHAPE_DEFAULT,
    ACCEL_SHAPE_LINEAR,
    ACCEL_SHAPE_COSINE,
    ACCEL_SHAPE_ONE_MINUS_SQRT, /**< transformers' "1-sqrt" */
};

/** @return what the base learning rate is multiplied by in step @p step, which counts from 0. */
typedef double (*accel_lr_lambda) (void *user, uint64_t step);

/** A schedule; 0 is each field's default, and ACCEL_ZERO is 0. */
struct accel_scheduler_options {
    enum accel_schedule schedule;
    uint64_t warmup_steps; /**< constant, linear, both cosines, warm-up-stable-decay */
    uint64_t total_steps;  /**< linear, both cosines, polynomial (0: 5, as in torch), one-cycle (must be given) */
    double cycles;         /**< cosine: waves (0: 0.5, once down); with restarts: a whole number (0: 1), else refused */
    double final_fraction; /**< linear, both cosines, warm-up-stable-decay: ends at this fraction of base; 0: at 0 */
    uint64_t stable_steps; /**< warm-up-stable-decay: 0: what warm-up and decay leave of total_steps */
    uint64_t decay_steps;  /**< warm-up-stable-decay: must be given */
    enum accel_schedule_shape warmup_shape; /**< warm-up-stable-decay, from final_fraction of base on; linear */
    enum accel_schedule_shape decay_shape;  /**< warm-up-stable-decay; cosine */
    uint64_t step_size;    /**< step: must be given */
    double gamma;          /**< step; 0: 0.1 */
    double power;          /**< polynomial; 0: 1 */

    double max_lr;           /**< one-cycle: must be given; takes the place of the optimizer's learning rate */
    double pct_start;        /**< one-cycle: the rising part of total_steps; 0: 0.3 */
    double div_factor;       /**< one-cycle: begins at max_lr / div_factor; 0: 25 */
    double final_div_factor; /**< one-cycle: ends at the first rate / final_div_factor; 0: 10000 */
    bool linear;             /**< one-cycle: straight lines instead of cosines */
    bool three_phase;        /**< one-cycle: down to the first rate as fast as up, then to the last */
    bool keep_momentum;      /**< one-cycle: leave momentum (of Adam and Lion: beta1) alone, cycle_momentum=False */
    double base_momentum;    /**< one-cycle: the lowest; 0: 0.85 */
    double max_momentum;     /**< one-cycle: the highest, where the learning rate is lowest; 0: 0.95 */

    accel_lr_lambda lambda; /**< lambda: must be given */
    void *user;             /**< its first argument */

    bool without_optimizer; /**< one step per call, whatever the optimizer did: step_scheduler_with_optimizer=False */
    bool split_batches;     /**< one step per call, however many processes there are; so it is without this where the
                                 prepared loader that is running (or, where none is, any) has split_batches */
    const char *group;      /**< the parameter group to move, by name; NULL: all of them, each from its own base */
};

/** Changes the learning rate of an optimizer. */
struct accel_scheduler;

/**
 * Make a scheduler and set the learning rate of step 0.
 *
 * @param optimizer  once it is destroyed, the scheduler's calls fail with ACCEL_ERR_INVALID
 * @retval ACCEL_ERR_INVALID  a field that must be given is not, or is out of range; or one-cycle is to change the
 *                            momentum of an optimizer that has none
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_scheduler_create (struct accel_scheduler **scheduler, struct accel_optimizer *optimizer,
                        const struct accel_scheduler_options *options, struct accel_error *err);

/**
 * Make a scheduler that runs through several schedules, one after the other: torch's SequentialLR.  Schedule 0 begins at
 * step 0, schedule i at step milestones[i - 1], each at its own step 0 and with the same base.
 *
 *   const struct accel_scheduler_options parts[] = {
 *       { .schedule = ACCEL_SCHEDULE_CONSTANT, .warmup_steps = 100 },
 *       { .schedule = ACCEL_SCHEDULE_STEP, .step_size = 30, .gamma = 0.5 },
 *   };
 *   accel_scheduler_create_sequential (&scheduler, optimizer, parts, (uint64_t[]){ 500 }, 2, &err);
 *
 * @param options     [count]; `group`, `without_optimizer` and `split_batches` of the first hold for all
 * @param milestones  [count - 1], ascending, greater than 0; not read where count is 1
 * @retval ACCEL_ERR_INVALID  as accel_scheduler_create(), or bad milestones
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_scheduler_create_sequential (struct accel_scheduler **scheduler, struct accel_optimizer *optimizer,
                                   const struct accel_scheduler_options *options, const uint64_t *milestones,
                                   size_t count, struct accel_error *err);

/**
 * Make a scheduler whose rate is base times the factors of several schedules that run at the same time.  For step and
 * polynomial schedules that is torch's ChainedScheduler, to the last bit.  (There the others replace the rate instead
 * of multiplying it.)  One-cycle, which has rates of its own, is refused.
 *
 * @param options  [count]; `group`, `without_optimizer` and `split_batches` of the first hold for all
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_scheduler_create_chained (struct accel_scheduler **scheduler, struct accel_optimizer *optimizer,
                                const struct accel_scheduler_options *options, size_t count, struct accel_error *err);

/** Free @p scheduler; the optimizer keeps its learning rate.  Accepts NULL. */
ACCEL_API void accel_scheduler_destroy (struct accel_scheduler *scheduler);

/**
 * Go on to the next learning rate: call it behind each accel_optimizer_step().
 *
 * Once prepared, with accel_prepare(), it steps as the original's does.  Schedules are counted in steps of one process:
 * a call goes as many steps on as there are processes, for so many batches were trained on (but see split_batches), and
 * one-cycle stops at its end.  It goes none on while gradients are being accumulated, and where the optimizer's step
 * was skipped.  Nothing is sent.
 *
 * @retval ACCEL_ERR_INVALID  one-cycle has come to its end; once prepared only with without_optimizer or split_batches
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_scheduler_step (struct accel_scheduler *scheduler, struct accel_error *err);

/** @return the learning rate that @p scheduler set last, of the first group that it moves. */
ACCEL_API double accel_scheduler_lr (const struct accel_scheduler *scheduler);

/** @return the momentum (of Adam and Lion: beta1) as one-cycle left it last in that group; 0: it is not changed. */
ACCEL_API double accel_scheduler_momentum (const struct accel_scheduler *scheduler);

/** Where one schedule of a scheduler is in one parameter group.  Plain bytes, to be written to a file as they are. */
struct accel_scheduler_state {
    uint32_t version;
    uint32_t schedule; /**< enum accel_schedule; more than 64 for a sequence or a chain as a whole */
    uint64_t step;     /**< steps since step 0: torch's last_epoch */
    double base_lr;
    double lr;
    double momentum; /**< of the optimizer; 0 where it is not changed */
};

/** @return the number of states that a scheduler is described by: 1 for one schedule over one group. */
ACCEL_API size_t accel_scheduler_state_count (const struct accel_scheduler *scheduler);

/**
 * Note where @p scheduler is: all that is needed to go on.
 *
 * @param[out] states  [accel_scheduler_state_count()]; may be NULL
 */
ACCEL_API void accel_scheduler_get_states (const struct accel_scheduler *scheduler,
                                           struct accel_scheduler_state *states);

/**
 * Go on from @p states, and give their learning rates (and momenta, where they are changed) to the optimizer.
 *
 * @param states  [count]
 * @retval ACCEL_ERR_FORMAT  these are not states, or they are of another release or of other schedules, or count is not
 *                           accel_scheduler_state_count(); nothing has changed
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_scheduler_set_states (struct accel_scheduler *scheduler, const struct accel_scheduler_state *states, size_t count,
                            struct accel_error *err);

/** Note where @p scheduler is, if it has one schedule over one group; else only the first of its states. */
ACCEL_API void accel_scheduler_get_state (const struct accel_scheduler *scheduler,
                                          struct accel_scheduler_state *state);

/**
 * The same as accel_scheduler_set_states() with one state.
 *
 * @retval ACCEL_ERR_FORMAT  it is no state, or of another release or of another schedule; or the scheduler has several
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_scheduler_set_state (struct accel_scheduler *scheduler, const struct accel_scheduler_state *state,
                           struct accel_error *err);

ACCEL_END_DECLS

#endif
