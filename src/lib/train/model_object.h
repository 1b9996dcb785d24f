/* SPDX-License-Identifier: Apache-2.0 */
/* A model from the inside: its parameters, the memory it owns, and the spans in which its gradients are reduced. */
#ifndef LIB_TRAIN_MODEL_OBJECT_H
#define LIB_TRAIN_MODEL_OBJECT_H

#include <accel/sharding.h>

#include "lib/base/object.h"
#include "lib/comm/comm_private.h"
#include "lib/memory/lists.h"
#include "lib/state/prepared.h"

/** A bucket: contiguous gradients of one element type that are reduced together. */
struct span {
    void *data;
    size_t count; /* elements, with those between gradients */
    enum accel_dtype dtype;
    bool allocated;    /* by us, with accel_alloc(); gradients lie there */
    bool is_private;   /* allocated, too, but with create_sparse(): pages are given back where they are not shared */
    bool scattered;    /* allocated too, but gradients are copied in before a reduction, and out of it */
    size_t begin, end; /* its gradients are those parameters from begin to end - 1 whose `span_of` names it */
    size_t gradients;  /* their number */
    size_t pending;    /* those that the present backward pass has not reported */
};

enum { NO_SPAN = -1 };

/** The float32 values of a parameter of fewer bits. */
struct master {
    DLTensor tensor; /* data NULL: there are none */
    float scale;     /* what 8-bit elements are to be multiplied by */
};

/** Lists of tensors, for devices that take many at once. */
enum list_kind { LIST_GRADIENTS, LIST_NARROWED, LIST_SCALED, LISTS };

/** Where the gradients of a model are between the scale of a loss and a step. */
struct model_scale {
    bool unscaled;    /* since the last step, from scaled_by, which is 0 if no loss has been scaled */
    bool found_inf;   /* then: a gradient is infinite or NaN on some process */
    float scaled_by;
    float pending;    /* what 16-bit gradients are still to be multiplied by */
    bool is_live;     /* the host knows neither number, nor what was found: they are in struct model_live */
    uint64_t unscalings; /* so far */
    bool stepped;        /* an optimizer has since; what it found, until the next backward pass */
    bool stepped_inf;
    float stepped_pending;
    bool stepped_live;
};

/** What of that is on the device. */
struct model_live {
    float pending, scaled_by;
    uint8_t found; /* what found_inf is read from, also if the host knows the others */
};

/** What the launcher has asked of sharding (sharding_launched.h), where accel_model_set_sharding() leaves it open. */
struct launched_sharding {
    enum accel_sharding strategy;                        /* never ACCEL_SHARDING_DEFAULT */
    enum accel_offload offload_optimizer, offload_param; /* nor this */
    char *optimizer_path, *param_path;                   /* folders; NULL: none */
    uint64_t min_num_params, group_size, prefetch_layers, max_live_params;
    bool shares;
};

/** What is divided among processes (sharding.h). */
struct model_sharding {
    struct launched_sharding launched;

    enum accel_sharding asked, strategy; /* the latter if it is */
    bool is_set; /* by accel_model_set_sharding(): so the program follows addresses */
    uint64_t min_num_params;
    bool shares;     /* if it can */
    bool has_shared; /* so states of small parameters are rank 0's */
    uint64_t group_size, prefetch_layers, max_live_params; /* see struct accel_sharding_options */
    enum accel_offload offload_optimizer, offload_param; /* as asked for */
    char *optimizer_path, *param_path;                   /* folders; NULL: the launcher's */
    struct memory_file *masters_file, *parameters_file;  /* (sharding_offload.h) NULL: they are in memory */
    bool states_at_home;    /* states and masters are in host memory while the model is on a GPU (staging.h) */
    bool params_at_home;     /* and so is this process's part of the parameters (packed_home.h) */
    struct staging *staging; /* with the former: what a step goes through; NULL: the model has ended */
    bool divides_gradients; /* on a GPU */
    int size, rank; /* size > 1: it is, since accel_prepare(); of a group */
    int replica;    /* the number of the group, of which the first saves */
    struct accel_comm *shards;   /* the group; NULL: all processes are in it */
    struct accel_comm *replicas; /* those with the same chunks; NULL: no other */
    struct sharding_layers *layers; /* NULL: parameters are not divided */
    struct packed_parameters *packed; /* (packed_parameters.h) NULL: they are whole, or in host memory */
    struct packed_gradients *grads;   /* (packed_gradients.h) the same of gradients */
    struct packed_whole *wholes; /* what rank 0 has whole while it saves, if the model is on a GPU (packed.h) */
    bool is_partial; /* others' chunks of parameters were given back when the model was released */
    bool reduced;   /* gradients: this process's chunks are averages, and the others' are 0 */
};

/** Where parameters are while the processes of a host share them, or are to be in a file (shared_parameters.h). */
struct shared_parameters {
    void *memory; /* NULL: in the program's */
    bool is_alone; /* it is this process's own */
    size_t bytes;
    void **places; /* [count]: the program's memory */
};

/** The shape that the program has given a tensor. */
struct cut_shape {
    int64_t *shape, *strides;
};

/** How a parameter is cut among the processes that divide tensors (tensor_parallel.h). */
struct model_cut {
    uint64_t blocks; /* 0: it is whole */
    int dim, ndim;
    int64_t shape[ACCEL_MAX_DIMS]; /* of the part, which tensors point to */
    bool is_shaped;                /* they do, and have had: */
    struct cut_shape data, grad;
};

struct accel_model {
    struct object object;
    size_t count;
    const struct memory *memory; /* where all tensors are, on `device`, and what is made beside them */
    DLDevice device;
    struct placement *placement; /* since accel_prepare() has put it there (model_device.h); NULL: the program has */
    DLDevice target;             /* while it is compared: where it will be */
    struct accel_optimizer *optimizers; /* the latest; the next is `beside` it */
    struct accel_parameter *parameters; /* [count]; names are ours */
    struct file_names *file_names;      /* NULL: files have the same names */
    void **owned;                       /* [count]: memory of parameters that we allocated, or NULL */
    struct accel_tensor *views; /* [2 * count]: the tensors, if accel_model_from_...() made them, or NULL */
    void *array;                /* memory of all parameters, if accel_model_from_array() allocated it, or NULL */
    void **kept;                        /* [count]: memory of gradients that accel_unwrap_model() allocated, or NULL */
    struct accel_ddp_options ddp;       /* no field is 0 that has another default */
    struct model_sharding sharding;
    struct shared_parameters shared;
    struct model_cut *cuts;  /* [count]; NULL: all parameters are whole */
    int tp_size, tp_rank;    /* then: among how many processes, and whose parts these are */
    struct cut_collection *collection; /* what rank 0 has whole while it saves, or NULL */
    struct accel_parameter *trained;    /* [count]: the parameters as optimizers see them, with masters as data */
    struct master *masters;             /* [count] */
    bool widened;                       /* the masters have values */
    struct model_live *live; /* on the device */
    float *norms;    /* on the device, [count + 1]: of trained gradients, while they are clipped; then the factor */
    float *host_norms; /* [count]: read from there */
    struct memory_list lists[LISTS];
    float *scales;     /* on the device, [count]: of 8-bit parameters, in their order; NULL: masters have them */
    bool scales_read;  /* masters have them, too */
    struct model_scale scale;
    /* From here on: made by model_prepare(). */
    struct span *spans; /* in the order in which they are reduced */
    size_t span_count;
    ptrdiff_t *span_of; /* [count]: index in `spans`, NO_SPAN if there is no gradient, or an empty one */
    struct reducer *reducer;
    unsigned unsynced; /* accel_no_sync() that have not ended */
    bool held;         /* by accel_accumulate(): this pass does not average */
    bool triggered;    /* the next pass averages all the same */
    bool unstepped;    /* a backward pass has ended since the latest step of an optimizer */
};

/** The parameters of a model whose gradients lie in span s: `for (size_t i; ...)`. */
#define FOR_GRADIENTS_OF(model, s, i)                                              \
    for (size_t i = (model)->spans[s].begin; i < (model)->spans[s].end; i++)       \
        if ((model)->span_of[i] == (ptrdiff_t) (s))

/** The name of the kind. */
extern const char kind_of_model[];

/** The models that @p acc has prepared: the latest, and the one before @p model.  They begin with the object.  @{ */
static inline struct accel_model *
model_first (const struct accel *acc)
{
    return (struct accel_model *) (void *) prepared_first (acc, kind_of_model);
}

static inline struct accel_model *
model_next (const struct accel_model *model)
{
    return (struct accel_model *) (void *) prepared_next (&model->object, kind_of_model);
}
/** @} */

/** @return whether parameter @p index is trained. */
bool model_is_trained (const struct accel_model *model, size_t index);

/** @param parameters  [count]: the model's, or as optimizers see them
 *  @return whether the data of two trained ones, in memory of the host, has elements in common; not where it has no
 *          address */
bool model_has_tied (const struct accel_model *model, const struct accel_parameter *parameters);

/** @return ACCEL_OK if @p model was prepared with @p acc; they may be NULL in a call of @p function. */
enum accel_status model_check_owner (const char *function, const struct accel *acc, const struct accel_model *model,
                                     struct accel_error *err);

/** @return ACCEL_OK if all tensors are where they were when the model was made, else an error that names the first. */
enum accel_status model_check_place (const struct accel_model *model, struct accel_error *err);

/** The same, and every trained parameter must have memory for its gradient. */
enum accel_status model_check_gradients (const struct accel_model *model, struct accel_error *err);

/** Free all that model_prepare() made; the program's tensors stop pointing into memory that goes away. */
void model_release (struct accel_model *model);

/** The parts of accel_model_create() and accel_model_destroy(), which also takes half of it, that masters need.  @{ */
enum accel_status masters_create (struct accel_model *model, struct accel_error *err);
void masters_destroy (struct accel_model *model);
/** @} */

/** @{ Make and free the lists. */
enum accel_status model_lists_create (struct accel_model *model, struct accel_error *err);
void model_lists_destroy (struct accel_model *model);
/** Free what the device has of the lists, and of those of the model's optimizers. */
void model_lists_forget (struct accel_model *model);
/** @} */

/** All gradients, with what is in them now: if they are divided, what this process has of them. */
struct memory_list *model_gradients (struct accel_model *model);

/** Masters and their parameters: 8-bit ones, which are scaled, or others. */
struct memory_list *model_narrowed (struct accel_model *model, bool is_scaled);

/** Give the masters values, unless they have them. */
void masters_need (struct accel_model *model);

/** Write all 8-bit parameters from their masters, each with a new scale. */
void masters_narrow_scaled (struct accel_model *model);

/** @return where element @p element of 16-bit parameter @p index, one that this process changes, is written from its
 *          master in the step itself; NULL: it is not. */
void *master_target (const struct accel_model *model, size_t index, size_t element);

/** From now on, the host knows what is on the device of `scale`, for which it waits. */
enum accel_status model_fetch_scale (struct accel_model *model, struct accel_error *err);

/** The next gradients have not been scaled, nor unscaled. */
void model_forget_scale (struct accel_model *model);

/** What 16-bit gradients are still to be multiplied by. */
static inline struct memory_factor
model_pending (const struct accel_model *model)
{
    return (struct memory_factor){ model->scale.pending, model->scale.is_live ? &model->live->pending : NULL };
}

/** Set accel_model_set_ddp()'s defaults. */
void model_set_defaults (struct accel_ddp_options *ddp);

/** Memory of the model's kind that makes collectives of @p acc fast; zeroed.  @{ */
enum accel_status model_alloc (const struct accel_model *model, struct accel *acc, void **memory, size_t bytes,
                               struct accel_error *err);
void model_free (const struct accel_model *model, void *memory);
/** @} */

/** Find the first trained gradient that is infinite or NaN.
 *  @param[out] text  names its parameter, element and rank  @return whether there is one */
bool model_describe_nonfinite (const struct accel_model *model, char *text, size_t size);

/** The element type of parameter @p index's gradient, and its size in bytes.  @{ */
enum accel_dtype model_grad_dtype (const struct accel_model *model, size_t index);
size_t model_grad_bytes (const struct accel_model *model, size_t index);
/** @} */

/** The kind of memory of `owned` and `kept`: that of the model, or where it was before it was placed. */
static inline const struct memory *
model_home (const struct accel_model *model)
{
    return model->placement ? &memory_host : model->memory;
}

/** The kind of memory of states and masters, and what their tensors say of it.  @{ */
static inline const struct memory *
model_state_memory (const struct accel_model *model)
{
    return model->sharding.states_at_home ? &memory_host : model->memory;
}

static inline DLDevice
model_state_device (const struct accel_model *model)
{
    return model->sharding.states_at_home ? (DLDevice){ kDLCPU, 0 } : model->device;
}
/** @} */

/** Whether the program has memory for this gradient itself. */
bool model_has_own_gradient (const struct accel_model *model, size_t index);

/** Bytes from the beginning of gradient @p index of @p span to that of the next one. */
size_t span_room (const struct span *span, const struct accel_model *model, size_t index);

/** If a span is scattered: copy its gradients in, or out; those only that @p mask has a mark for, or all (NULL). */
void span_copy (const struct accel_model *model, size_t s, const unsigned char *mask, bool out);

/** Make `spans` and `span_of`, and give gradients memory.  Collective. */
enum accel_status model_make_spans (struct accel *acc, struct accel_model *model, const struct comm_site *site,
                                    struct accel_error *err);

/** Give all ranks the parameters of rank 0, if they have not the same already.  Collective. */
enum accel_status model_make_equal (struct accel_model *model, const struct accel *acc, struct accel_comm *comm,
                                    const struct comm_site *site, struct accel_error *err);

/** Copy the parameters of rank @p root to all.  Collective. */
enum accel_status model_broadcast (struct accel_model *model, struct accel_comm *comm, const struct comm_site *site,
                                   int root, struct accel_error *err);

/** accel_prepare(): compare models over the ranks, copy parameters from rank 0, give gradients memory.  Collective. */
enum accel_status model_prepare (struct object *object, struct accel *acc, const struct comm_site *site,
                                 struct accel_error *err);

/** What checkpoints have of a model.  @{ */
void model_save (const struct object *object, struct accel_state_dict *state);
enum accel_status model_load (struct object *object, const struct accel_state_dict *state, struct accel_error *err);
/** @} */

/** accel_unwrap_model(), for accel_free_memory(). */
enum accel_status model_unwrap (struct object *object, struct accel_error *err);

#endif
