/* SPDX-License-Identifier: Apache-2.0 */
/* What a folder of a higher floor keeps for each job: the loader that runs, the scaler, accumulation.  accel_open() has
 * the list of these parts (job/open.c). */
#ifndef LIB_STATE_PART_H
#define LIB_STATE_PART_H

#include <accel/state.h>

struct accel_state_dict;
struct part;

/** The functions of one part, whose struct is a struct part, or begins with one. */
struct part_kind {
    size_t size_bytes; /* of the struct */
    /**
     * accel_open(): read the options and the environment.  The part is zeroed but for its job, whose precision and
     * flags have been read; no process is connected yet.
     *
     * @param options  NULL: the defaults
     */
    enum accel_status (*open) (struct part *part, const struct accel_options *options,
                               struct accel_error *err); /* NULL: zeros are right */
    /** accel_prepare(): objects were added.  NULL: the part does not care. */
    enum accel_status (*prepared) (struct part *part, struct accel_error *err);
    /** accel_free_memory(): forget where training is.  NULL: there is nothing to forget. */
    void (*release) (struct part *part);
    /** accel_close(): let go of what the part has, while the communicator is still open.  NULL: it has nothing. */
    void (*close) (struct part *part);
    /** accel_save_state(): say what is to be restored; nothing, if there is nothing now.  NULL: there never is. */
    void (*save) (const struct part *part, struct accel_state_dict *state);
    /**
     * accel_load_state(): restore it.  Not collective.
     *
     * @param state  NULL: the checkpoint has nothing of this part, or of this rank
     */
    enum accel_status (*load) (struct part *part, const struct accel_state_dict *state, struct accel_error *err);
    /**
     * accel_load_state() on another number of processes than saved: restore a part of each rank from what all ranks
     * saved.  NULL: rank r continues what rank r saved.
     *
     * @param states  [count] by rank
     */
    enum accel_status (*reshard) (struct part *part, const struct accel_state_dict *states, size_t count,
                                  struct accel_error *err);
    const char *file; /* what its file is called: "scaler"; NULL: nothing is saved */
    bool of_each_rank; /* each rank saves its own: FILE_0, FILE_1 ...; otherwise rank 0 saves for all */
};

struct part {
    const struct part_kind *kind;
    const struct accel *acc; /* whose it is */
    struct part *next;
};

/** @return the part of this kind of @p acc, which is not NULL. */
struct part *part_find (const struct accel *acc, const struct part_kind *kind);

/** Make the parts of @p kinds, in their order; a NULL ends the list.  After a failure parts_close() frees them. */
enum accel_status parts_open (struct accel *acc, const struct part_kind *const *kinds,
                              const struct accel_options *options, struct accel_error *err);

/** Close and free the parts, the latest first. */
void parts_close (struct accel *acc);

/** Tell the parts that accel_prepare() has added objects. */
enum accel_status parts_prepared (struct accel *acc, struct accel_error *err);

/** Have the parts forget where training is. */
void parts_release (struct accel *acc);

#endif
