/* SPDX-License-Identifier: Apache-2.0 */
/* accel_save_model().  Shards are written beside the former model, by rank 0 or by all ranks of its host; rank 0 then
 * puts them in their places.  After each step all ranks agree on its result, so that all of them fail, or none. */
#include <config.h>

#include "files/index.h"
#include "files/safetensors_writer.h"
#include "files/shards.h"
#include "files/weights_save.h"
#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/checkpoint/agree.h"
#include "lib/checkpoint/checkpoint_part.h"
#include "lib/checkpoint/pieces.h"
#include "lib/formats/convert.h"
#include "lib/formats/safetensors_object.h"
#include "lib/kernels/matrix.h"
#include "lib/memory/memory.h"
#include "lib/train/file_names.h"
#include "lib/train/sharding.h"
#include "lib/train/sharding_layers.h"
#include "lib/train/tensor_parallel.h"
#include "util/cleanup.h"
#include "util/hash.h"
#include "util/memory.h"

#include <string.h>

enum {
    BLOCK_BYTES = 1 << 20,     /* converted at once */
    PARALLEL_BYTES = 64 << 20, /* from so many on, ranks write at the same time */
    LANES = 4,
};

struct save {
    struct accel *acc;
    const struct comm_site *site;
    struct accel_model *model;
    const char *directory;
    struct pieces pieces;
    size_t *shard_of; /* [pieces.count] */
    size_t shards;
    uint64_t total; /* bytes of tensors */
    bool is_collected;          /* rank 0 gets the masters of a sharded model */
    struct weights_save target; /* of rank 0 */
    int writers;                /* ranks that write */
};

/* ---- what goes where ---- */

static enum accel_status
find_limit (const struct accel_save_model_options *options, uint64_t *most, struct accel_error *err)
{
    if (options->max_shard_bytes && options->max_shard_size)
        return accel_fail (err, ACCEL_ERR_INVALID, "max_shard_size and max_shard_bytes cannot be combined");
    *most = options->max_shard_bytes;
    return *most ? ACCEL_OK
                 : shards_parse_size (options->max_shard_size ? options->max_shard_size : SHARDS_DEFAULT_SIZE, most,
                                      err);
}

static enum accel_status
check_precision (const struct accel_save_model_options *options, struct accel_error *err)
{
    if (options->precision > ACCEL_SAVE_AS)
        return accel_fail (err, ACCEL_ERR_INVALID, "invalid value for 'precision': %u", (unsigned) options->precision);
    if (options->precision == ACCEL_SAVE_AS
        && !convert_can (accel_dtype_to_dl (options->dtype), accel_dtype_to_dl (ACCEL_FLOAT32)))
        return accel_fail (err, ACCEL_ERR_INVALID, "invalid value for 'dtype': %s is not a float type",
                           accel_dtype_name (options->dtype));
    return ACCEL_OK;
}

static enum accel_status
plan (struct save *save, const struct accel_save_model_options *options, struct accel_error *err)
{
    uint64_t most;
    enum accel_status status = find_limit (options, &most, err);
    if (!status)
        status = check_precision (options, err);
    if (!status && (!save->directory || !*save->directory))
        status = accel_fail (err, ACCEL_ERR_INVALID, "directory is NULL or empty");
    if (!status)
        status = pieces_list (&save->pieces, save->model, options, err);
    if (status)
        return status;
    AUTO_FREE uint64_t *bytes = calloc (save->pieces.count, sizeof *bytes);
    save->shard_of = calloc (save->pieces.count, sizeof *save->shard_of);
    if (!bytes || !save->shard_of)
        return accel_fail_nomem (err);
    for (size_t i = 0; i < save->pieces.count; i++)
        save->total += bytes[i] = piece_bytes (&save->pieces.all[i]);
    save->shards = shards_split (bytes, save->pieces.count, most, save->shard_of);
    return ACCEL_OK;
}

/* ---- who writes ---- */

/* Four hashes at once are as fast as memory. */
struct hashing {
    uint64_t lanes[LANES], rest;
};

/* Of all pieces but the last, the length is a multiple of that of the lanes. */
static enum accel_status
hash_piece (void *user, const void *bytes, size_t length, struct accel_error *err)
{
    struct hashing *hashing = user;
    const char *at = bytes;
    (void) err;
    for (; length >= sizeof hashing->lanes; length -= sizeof hashing->lanes, at += sizeof hashing->lanes) {
        uint64_t words[LANES];
        memcpy (words, at, sizeof words);
        for (int i = 0; i < LANES; i++)
            hashing->lanes[i] = hash_word (hashing->lanes[i], words[i]);
    }
    hashing->rest = hash_bytes (hashing->rest, at, length);
    return ACCEL_OK;
}

static enum accel_status
hash_tensor (uint64_t *hash, const DLTensor *tensor, struct accel_error *err)
{
    struct hashing hashing = { { HASH_START, 1, 2, 3 }, *hash };
    enum accel_status status = memory_read_pieces (tensor, BLOCK_BYTES, hash_piece, &hashing, err);
    for (int i = 0; i < LANES; i++)
        hashing.rest = hash_word (hashing.rest, hashing.lanes[i]);
    *hash = hashing.rest;
    return status;
}

/* Several ranks can write only what is the same on all of them: a set must not be a mixture of replicas. */
static enum accel_status
choose_writers (struct save *save, struct accel_error *err)
{
    uint64_t hash = HASH_START;
    save->writers = 1;
    if (save->is_collected || save->shards < 2 || save->total < PARALLEL_BYTES || accel_num_processes (save->acc) == 1)
        return ACCEL_OK;
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; i < save->pieces.count && !status; i++)
        status = hash_tensor (&hash, &save->pieces.all[i].from, err);
    status = checkpoint_agree (save->acc, save->site, status, err);
    if (status)
        return status;
    int64_t most[3] = { (int64_t) (hash >> 1), -(int64_t) (hash >> 1), 0 };
    if (accel_is_main_process (save->acc))
        most[2] = accel_local_num_processes (save->acc);
    status = comm_all_reduce (accel_world (save->acc), save->site, most, most, 3, ACCEL_INT64, ACCEL_MAX, err);
    if (!status && most[0] == -most[1])
        save->writers = (int) most[2];
    return status;
}

/* Ranks of the first host; elsewhere the two numbers differ. */
static bool
writes (const struct save *save, size_t shard)
{
    int rank = accel_process_index (save->acc);
    return rank == accel_local_process_index (save->acc) && (int) (shard % (size_t) save->writers) == rank;
}

/* ---- writing ---- */

/* A piece that is written, from one type to another if they differ. */
struct writing {
    struct safetensors_writer *writer;
    size_t index;
    DLDataType to, from;
    void *block; /* [BLOCK_BYTES] */
};

/* At most as many as become a block. */
static enum accel_status
write_converted (void *user, const void *bytes, size_t length, struct accel_error *err)
{
    const struct writing *writing = user;
    size_t count = length / convert_element_bytes (writing->from);
    convert_elements (writing->block, writing->to, bytes, writing->from, count);
    return safetensors_writer_write (writing->writer, writing->index, writing->block,
                                     count * convert_element_bytes (writing->to), err);
}

static enum accel_status
append (void *user, const void *bytes, size_t length, struct accel_error *err)
{
    char **end = user;
    (void) err;
    memcpy (*end, bytes, length);
    *end += length;
    return ACCEL_OK;
}

static enum accel_status
write_piece (struct safetensors_writer *writer, size_t index, const struct piece *piece, void *block,
             struct accel_error *err)
{
    struct writing writing = { writer, index, piece->to, piece->from.dtype, block };
    if (writing.from.code == writing.to.code && writing.from.bits == writing.to.bits)
        return safetensors_write_tensor (writer, index, &piece->from, SIZE_MAX, err);
    size_t most = BLOCK_BYTES / convert_element_bytes (writing.to) * convert_element_bytes (writing.from);
    return memory_read_pieces (&piece->from, most, write_converted, &writing, err);
}

/* From a transposed copy in memory of the host. */
static enum accel_status
write_transposed (struct safetensors_writer *writer, size_t index, const struct piece *piece, void *block,
                  struct accel_error *err)
{
    size_t element = convert_element_bytes (piece->from.dtype);
    AUTO_FREE char *copy = memory_create (2 * accel_tensor_count (&piece->from) * element + 1);
    char *end = copy;
    if (!copy)
        return accel_fail_nomem (err);
    enum accel_status status = memory_read_pieces (&piece->from, SIZE_MAX, append, &end, err);
    struct piece turned = { .from = piece->from, .to = piece->to };
    turned.from.shape = (int64_t *) piece->turned;
    turned.from.device = (DLDevice){ kDLCPU, 0 };
    turned.from.byte_offset = 0;
    turned.from.data = end;
    if (!status)
        matrix_transpose (end, copy, (size_t) piece->turned[1], (size_t) piece->turned[0], element);
    return status ? status : write_piece (writer, index, &turned, block, err);
}

/* What a file needs, in the order of the model. */
struct shard {
    struct safetensors_entry *entries;
    const struct piece **pieces; /* by entry */
    size_t count;
    struct safetensors_pair *metadata;
    size_t pairs;
};

/* "format" as Accelerate writes it, and which name has the numbers of those that share them. */
static void
describe (const struct save *save, size_t number, struct shard *shard)
{
    const struct pieces *pieces = &save->pieces;
    shard->metadata[shard->pairs++] = (struct safetensors_pair){ (char *) "format", (char *) "pt" };
    for (size_t i = 0; i < pieces->count; i++) {
        const struct piece *piece = &pieces->all[i];
        if (save->shard_of[i] != number)
            continue;
        shard->entries[shard->count] = (struct safetensors_entry){ .name = piece->name,
                                                                   .dtype = safetensors_from_dl (piece->to),
                                                                   .ndim = (size_t) piece->from.ndim,
                                                                   .shape = piece->transposed ? piece->turned
                                                                                             : piece->from.shape };
        shard->pieces[shard->count++] = piece;
    }
    for (size_t i = 0; i < pieces->parameters; i++) {
        bool transposed;
        if (pieces->same_as[i] != i && save->shard_of[pieces->piece_of[i]] == number)
            shard->metadata[shard->pairs++] = (struct safetensors_pair){
                (char *) file_names_get (save->model, i, 0, &transposed), pieces->all[pieces->piece_of[i]].name
            };
    }
}

static enum accel_status
write_shard (const struct save *save, size_t number, struct accel_error *err)
{
    char name[SHARDS_NAME_SIZE];
    struct safetensors_writer *writer = NULL;
    struct shard shard = { 0 };
    AUTO_FREE char *path = weights_save_path (save->directory, shards_name (name, number, save->shards));
    AUTO_FREE void *block = memory_create (BLOCK_BYTES);
    shard.entries = calloc (save->pieces.count + 1, sizeof *shard.entries);
    shard.pieces = calloc (save->pieces.count + 1, sizeof *shard.pieces);
    shard.metadata = calloc (save->pieces.parameters + 1, sizeof *shard.metadata);
    enum accel_status status = ACCEL_OK;
    if (!path || !block || !shard.entries || !shard.pieces || !shard.metadata)
        status = accel_fail_nomem (err);
    if (!status) {
        describe (save, number, &shard);
        struct safetensors_plan plan = { .entries = shard.entries, .count = shard.count, .metadata = shard.metadata,
                                         .pairs = shard.pairs, .in_place = true };
        status = safetensors_writer_create (&writer, path, &plan, err);
    }
    for (size_t i = 0; i < shard.count && !status; i++) {
        size_t index = safetensors_writer_order (writer, i);
        const struct piece *piece = shard.pieces[index];
        status = (piece->transposed ? write_transposed : write_piece) (writer, index, piece, block, err);
    }
    if (!status)
        status = safetensors_writer_commit (writer, err);
    safetensors_writer_destroy (writer);
    free (shard.entries);
    free (shard.pieces);
    free (shard.metadata);
    return status;
}

static enum accel_status
write_shards (const struct save *save, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    struct io_progress progress;
    uint64_t bytes = 0;
    for (size_t i = 0; i < save->pieces.count; i++)
        bytes += writes (save, save->shard_of[i]) ? piece_bytes (&save->pieces.all[i]) : 0;
    io_progress_begin (&progress, checkpoint_show (save->acc), IO_PROGRESS_SAVE, save->directory, bytes);
    for (size_t i = 0; i < save->shards && !status; i++)
        if (writes (save, i))
            status = write_shard (save, i, err);
    io_progress_end (&progress, status);
    return status;
}

static enum accel_status
commit (struct save *save, struct accel_error *err)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    char name[SHARDS_NAME_SIZE];
    if (save->shards == 1)
        return weights_save_commit (&save->target, NULL, err);
    struct index_entry *entries = calloc (save->pieces.count, sizeof *entries);
    enum accel_status status
        = entries ? ACCEL_OK : accel_fail_nomem (err);
    for (size_t i = 0; i < save->pieces.count && !status; i++) {
        entries[i].name = save->pieces.all[i].name;
        entries[i].file = strdup (shards_name (name, save->shard_of[i], save->shards));
        if (!entries[i].file)
            status = accel_fail_nomem (err);
    }
    if (!status) {
        index_write (&text, entries, save->pieces.count, save->total);
        status = text.failed ? accel_fail_nomem (err)
                             : weights_save_commit (&save->target, &text, err);
    }
    for (size_t i = 0; entries && i < save->pieces.count; i++)
        free (entries[i].file);
    free (entries);
    return status;
}

static enum accel_status
save_model (struct save *save, const struct accel_save_model_options *options, struct accel_error *err)
{
    bool main = accel_is_main_process (save->acc);
    enum accel_status status = checkpoint_agree (save->acc, save->site, plan (save, options, err), err);
    if (status)
        return status;
    if (main)
        status = weights_save_begin (&save->target, save->directory, err);
    status = checkpoint_agree (save->acc, save->site, status, err);
    if (!status)
        status = choose_writers (save, err);
    if (status)
        return status;
    status = checkpoint_agree (save->acc, save->site, write_shards (save, err), err);
    if (status)
        return status;
    return checkpoint_agree (save->acc, save->site, main ? commit (save, err) : ACCEL_OK, err);
}

enum accel_status
accel_save_model_at (const char *file, int line, size_t options_size, struct accel *acc, struct accel_model *model,
                     const char *directory, const struct accel_save_model_options *options, struct accel_error *err)
{
    static const struct accel_save_model_options defaults;
    const struct comm_site site = { .file = file, .line = line, .call = JOBSEG_CALL_SAVE_MODEL };
    struct accel_save_model_options room;
    struct accel_error own = { 0 };
    enum accel_status status;
    if (!acc || !model)
        return accel_fail_null (err, "accel_save_model", acc ? "model" : "acc");
    options = SIZED (options, options_size, room, &status, err);
    if (status)
        return status;
    options = options ? options : &defaults;
    bool is_packed = model->sharding.packed;
    bool has_masters = !sharding_is_on (model) || model->object.owner; /* otherwise they would begin anew */
    bool takes_masters = options->precision != ACCEL_SAVE_TRAINED && has_masters;
    enum cut_extent extent = takes_masters ? CUT_MASTERS : CUT_PARAMETERS;
    struct save save = { .acc = acc, .site = &site, .model = model, .directory = directory,
                         .is_collected = model->cuts || is_packed || (takes_masters && sharding_is_on (model)),
                         .target = WEIGHTS_SAVE_NONE };
    uint64_t entered = checkpoint_enter (acc, &site);
    if (is_packed && takes_masters)
        masters_need (model); /* made from parameters, which are collected elsewhere next */
    if (is_packed) /* there need not be room for all on the GPU */
        status = sharding_collect_parameters (model, &site, &own);
    else
        status = sharding_summon (model, &site, &own);
    /* Before they are listed: whole ones are elsewhere. */
    if (!status && sharding_is_on (model) && takes_masters)
        status = sharding_collect_masters (model, &site, &own);
    if (!status && model->cuts)
        status = checkpoint_agree (acc, &site, cut_reserve_model (model, acc, extent, &own), &own);
    if (!status)
        status = cut_collect_model (model, acc, extent, &site, &own);
    if (!status)
        status = save_model (&save, options, &own);
    cut_end_collect_model (model);
    if (!is_packed)
        sharding_dismiss (model);
    if (save.is_collected && sharding_is_on (model) && model->object.owner)
        sharding_end_collect_masters (model);
    weights_save_end (&save.target);
    pieces_release (&save.pieces);
    free (save.shard_of);
    return checkpoint_leave (acc, &site, entered, status, &own, err);
}
