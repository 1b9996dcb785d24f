/* SPDX-License-Identifier: Apache-2.0 */
/* An optimizer from the inside: a kind with its numbers, and its states per parameter. */
#ifndef LIB_TRAIN_OPTIMIZER_OBJECT_H
#define LIB_TRAIN_OPTIMIZER_OBJECT_H

#include <accel/optimizer.h>

#include "lib/base/object.h"
#include "lib/kernels/rules.h"
#include "lib/train/compare.h"
#include "lib/train/model_object.h"

/** A tensor that an optimizer remembers of one parameter. */
struct optimizer_state {
    DLTensor tensor; /* data NULL: its parameter is not trained */
    int64_t shape[ACCEL_STATE_DIMS];
};

enum { NO_GROUP_YET = -1, NUMBERS_OF_A_GROUP = 10, FLAGS_OF_A_GROUP = 4 };

/** The numbers and flags of a group, in the order of the tables in optimizer_numbers.c. */
enum group_number {
    GROUP_LR,
    GROUP_WEIGHT_DECAY,
    GROUP_BETA1,
    GROUP_BETA2,
    GROUP_EPS,
    GROUP_MOMENTUM,
    GROUP_DAMPENING,
    GROUP_ALPHA,
    GROUP_LR_DECAY,
    GROUP_INITIAL_ACCUMULATOR_VALUE,
};
enum group_flag { GROUP_NESTEROV, GROUP_AMSGRAD, GROUP_CENTERED, GROUP_MAXIMIZE };

/** Sets of them. */
#define NUMBER_BIT(number) (1U << (number))
#define FLAG_BIT(flag) (1U << (NUMBERS_OF_A_GROUP + (flag)))

/** What a parameter group has of its own; all is there, whatever the kind uses. */
struct group_numbers {
    double number[NUMBERS_OF_A_GROUP]; /* GROUP_LR: NAN if it has not been given */
    bool flag[FLAGS_OF_A_GROUP];
};

struct optimizer_group;

/** A kind of optimizer: one row of the table in optimizer_kinds.c. */
struct optimizer_kind {
    const char *name; /* for people and checkpoints */
    unsigned has;     /* the numbers and flags that mean something to it */
    double defaults[NUMBERS_OF_A_GROUP]; /* torch's; NAN: none, it must be given */
    /** What it remembers of each element, in the order in which its rules take them; names are torch's. */
    struct {
        const char *name;
        unsigned needs;   /* numbers and flags, without one of which (0 or false) the state is missing */
        unsigned initial; /* the number that it starts as; 0: GROUP_LR is never one, so it starts as 0 */
    } states[RULE_STATES];
    unsigned cycled;  /* the number that a one-cycle schedule moves against the learning rate; 0: it has none */
    bool decoupled;   /* its weight decay is not part of the gradient */
    bool needs_step;  /* its rule depends on how many steps there were */
    /** @return what is wrong with the numbers of a group together; NULL: nothing, as if there is no such function */
    const char *(*check) (const struct group_numbers *own);
    /** Set what a step of a group needs: its numbers, and its pace, which adds what depends on the number of the step.
     *  @return the rule of that group */
    enum rule (*begin) (struct optimizer_group *group);
};

/** The program's own: it has all numbers and flags, and `custom` of its optimizers is what rules are to others. */
extern const struct optimizer_kind optimizer_custom;

struct optimizer_group {
    char *name;
    bool skip;
    struct group_numbers own;
    unsigned states;    /* of its parameters: bit j is set if there is state j of the kind's */
    size_t *indices;    /* [count], ascending */
    size_t count;
    /* The present step's. */
    enum rule rule;
    struct rule_numbers numbers;
    struct rule_pace pace;
    struct accel_param_group shown; /* for the program's own optimizer */
};

/** What is on the device of an optimizer's steps; all NULL: the host counts them (optimizer_live.h). */
struct optimizer_live {
    struct rule_steps *steps; /* on the device; behind it a struct rule_group for each group */
    struct rule_group *known; /* [group_count]: what was written there */
    bool may_skip;            /* as the last step: the scaler is there, too */
};

struct accel_optimizer {
    struct object object;
    struct accel_model *model;
    struct accel_optimizer *beside; /* the one before it of the same model */
    const struct optimizer_kind *kind;
    struct group_numbers base; /* of groups that say nothing; used while the optimizer is made */
    struct optimizer_group *groups; /* [group_count] */
    size_t group_count;
    ptrdiff_t *group_of; /* [model's count]; NO_GROUP_YET if it is not trained */
    struct accel_custom_optimizer custom; /* the program's functions; none (0) if the kind has rules */
    uint64_t step;         /* 1 in the first step; optimizer_steps() reads it from where it is */
    bool is_capturable;    /* the program has asked for that */
    struct optimizer_live live;
    uint64_t stepped_by;   /* the unscaling of the model's gradients that the last step went by */
    bool step_was_skipped; /* the last one, as far as the host knows: a scaler found infinite gradients, or there was
                            * an outlier */
    uint64_t jumps_seen;   /* outliers for which a step was skipped */
    unsigned threads;

    size_t state_count;
    unsigned kind_states[RULE_STATES]; /* [state_count]: which of the kind's they are; nothing if it is custom */
    char **state_names;             /* [state_count] */
    struct optimizer_state *states; /* [model's count][state_count] */
    DLTensor **state_tensors;       /* the same, their addresses,
        as callbacks want them; NULL: the parameter has none */
    void *state_memory;
    size_t state_bytes;
    struct memory_file *state_file; /* sharding_offload.h; NULL: all is in memory */
    struct memory_list zeroed, stepped; /* gradients; all that a step changes */
    struct memory_rule *rules;          /* [group_count]: of a step */
};

/** The groups that a program has given. */
struct given_groups {
    const struct accel_param_group *groups;
    size_t count;
    const char *function; /* to which */
    size_t size;          /* of each, in the program */
};

/** Make @p like an optimizer over @p model: groups, and states, of parameters' shapes unless it is custom. */
enum accel_status optimizer_create (struct accel_optimizer **optimizer, struct accel_model *model,
                                    const struct accel_optimizer *like, struct given_groups given,
                                    struct accel_error *err);

/** Make `groups` and `group_of` of @p optimizer, whose `base` is there. */
enum accel_status optimizer_make_groups (struct accel_optimizer *optimizer, struct given_groups given,
                                         struct accel_error *err);

void optimizer_free_groups (struct accel_optimizer *optimizer);

/**
 * Lay what @p given says over @p numbers, and check the result.
 *
 * @param group  its name, for messages; NULL: the optimizer's own numbers
 * @retval ACCEL_ERR_INVALID  a number out of range, or one that this kind does not have; @p numbers is as it was
 */
enum accel_status optimizer_take_numbers (const struct accel_optimizer *optimizer, const char *group,
                                          const struct accel_param_group *given, struct group_numbers *numbers,
                                          struct accel_error *err);

/**
 * Check numbers that do not come from options, as if they did.
 *
 * @retval ACCEL_ERR_INVALID  one is out of range, or does not fit others; the message names the group
 */
enum accel_status optimizer_check_numbers (const struct optimizer_kind *kind, const struct optimizer_group *group,
                                           const struct group_numbers *numbers, struct accel_error *err);

/** @return the numbers and flags in @p options, as a group has them. */
struct accel_param_group optimizer_numbers_in (const struct accel_optimizer_options *options);

/** @return the states of the kind's that a parameter with @p numbers needs: bit j for state j. */
unsigned optimizer_states_of (const struct optimizer_kind *kind, const struct group_numbers *numbers);

/** @return which number or flag of @p numbers needs a state that @p group does not have: "momentum"; NULL: none */
const char *optimizer_lacks_state (const struct accel_optimizer *optimizer, const struct optimizer_group *group,
                                   const struct group_numbers *numbers);

/** @return @p group as the public struct shows it. */
struct accel_param_group optimizer_show_group (const struct optimizer_group *group);

/** @return ACCEL_OK if @p optimizer, which may be NULL, and its model are there for a call of @p function. */
enum accel_status optimizer_check (const char *function, const struct accel_optimizer *optimizer,
                                   struct accel_error *err);

/** @return the group that changes parameter @p index; NULL: it is not trained, or left to another optimizer. */
static inline struct optimizer_group *
optimizer_group_at (const struct accel_optimizer *optimizer, size_t index)
{
    ptrdiff_t group = optimizer->group_of[index];
    return group == NO_GROUP_YET || optimizer->groups[group].skip ? NULL : &optimizer->groups[group];
}

/** @return the master of parameter @p index, if this optimizer changes it and it has one: such are saved; or NULL. */
static inline DLTensor *
optimizer_master_at (const struct accel_optimizer *optimizer, size_t index)
{
    DLTensor *trained = optimizer->model->trained[index].data;
    bool is_master = optimizer_group_at (optimizer, index) && trained != optimizer->model->parameters[index].data;
    return is_master ? trained : NULL;
}

/** @return the learning rate of group @p group, to be changed. */
static inline double *
optimizer_lr_of (const struct accel_optimizer *optimizer, size_t group)
{
    return &optimizer->groups[group].own.number[GROUP_LR];
}

/** @return state @p state of parameter @p parameter. */
static inline struct optimizer_state *
optimizer_state_at (const struct accel_optimizer *optimizer, size_t parameter, size_t state)
{
    return &optimizer->states[parameter * optimizer->state_count + state];
}

/** The number of steps that it has taken; and whether the last one was skipped.  On a device: the host waits. @{ */
uint64_t optimizer_steps (const struct accel_optimizer *optimizer);
void optimizer_set_steps (struct accel_optimizer *optimizer, uint64_t count);
bool optimizer_skipped (const struct accel_optimizer *optimizer);
/** @} */

/** @return the highest number of steps that an optimizer of @p model, or of any model of @p acc, has taken.  @{ */
static inline uint64_t
model_latest_step (const struct accel_model *model)
{
    uint64_t latest = 0;
    for (const struct accel_optimizer *of = model->optimizers; of; of = of->beside) {
        uint64_t steps = optimizer_steps (of);
        latest = steps > latest ? steps : latest;
    }
    return latest;
}

static inline uint64_t
optimizer_latest_step (const struct accel *acc)
{
    uint64_t latest = 0;
    for (const struct accel_model *model = model_first (acc); model; model = model_next (model)) {
        uint64_t step = model_latest_step (model);
        latest = step > latest ? step : latest;
    }
    return latest;
}
/** @} */

/** The name of a number or flag of groups: "lr"; static.  @{ */
const char *group_number_name (size_t number);
const char *group_flag_name (size_t flag);
/** @} */

/** Gather in @p data what parameter @p index has of states, from element @p from on, in the order of its rule.
 *  @return the same of the parameter as the optimizer sees it */
float *optimizer_gather_states (const struct accel_optimizer *optimizer, size_t index, size_t from,
                                float *data[RULE_STATES]);

/** What checkpoints have of an optimizer.  @{ */
void optimizer_save (const struct object *object, struct accel_state_dict *state);
enum accel_status optimizer_load (struct object *object, const struct accel_state_dict *state,
                                  struct accel_error *err);
/** @} */

/** accel_prepare(): compare optimizers over the ranks.  Collective. */
enum accel_status optimizer_prepare (struct object *object, struct accel *acc, const struct comm_site *site,
                                     struct accel_error *err);

typedef enum accel_status update_callback (void *user, const struct accel_update *update, struct accel_error *err);

/**
 * Have @p callback of a custom optimizer, which may be NULL, see every trained parameter.
 *
 * @param what  what it does, for the message: "the optimizer's step"
 */
enum accel_status optimizer_for_each (const struct accel_optimizer *optimizer, const char *what,
                                      update_callback *callback, struct accel_error *err);

/** Run each group's rule over its parameters, with several threads where that pays. */
void optimizer_run (const struct accel_optimizer *optimizer);

/** The same at once.  @param steps  on the device, as are numbers in `rules` then; NULL: on the host
 *  @return false: the device cannot, and nothing has been done */
bool optimizer_run_list (struct accel_optimizer *optimizer, const struct rule_steps *steps);

/** @{ What that needs; also of a half-made optimizer. */
enum accel_status optimizer_lists_create (struct accel_optimizer *optimizer, struct accel_error *err);
void optimizer_lists_destroy (struct accel_optimizer *optimizer);
/** @} */

/** The gradients of the parameters that it changes, with what is in them now. */
struct memory_list *optimizer_gradients (struct accel_optimizer *optimizer);

/** @return where the number of group @p group is that one-cycle schedules change; NULL: it has none. */
double *optimizer_momentum (const struct accel_optimizer *optimizer, size_t group);

#endif
