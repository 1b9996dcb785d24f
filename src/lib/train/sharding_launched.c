/* SPDX-License-Identifier: Apache-2.0 */
/* What launchers ask of sharding; see sharding_launched.h. */
#include <config.h>

#include "lib/train/sharding_launched.h"

#include "lib/base/error.h"
#include "lib/state/launched.h"
#include "util/envnames.h"
#include "util/parse.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- DeepSpeed ---- */

/* As in Accelerate: what its file says, which a variable replaces only if that is "auto".
 * @return the number; @otherwise if nothing is known */
static double
number_of (const struct deepspeed_file *file, enum deepspeed_key key, double otherwise)
{
    return file->values[key].is == DEEPSPEED_SET ? file->values[key].number : otherwise;
}

/* DeepSpeed's plugin has stage 2 unless it is told otherwise, but its file has stage 0. */
static enum accel_status
read_stage (const struct deepspeed_file *file, enum accel_sharding *strategy, struct accel_error *err)
{
    static const enum accel_sharding of_stages[] = { ACCEL_SHARDING_NONE, ACCEL_SHARDING_OPTIMIZER,
                                                     ACCEL_SHARDING_SHARD_GRAD_OP, ACCEL_SHARDING_FULL_SHARD };
    const char *text = getenv (ENV_ZERO_STAGE);
    bool is_left = !file->is_read || file->values[DEEPSPEED_STAGE].is == DEEPSPEED_AUTO;
    int64_t stage = is_left ? 2 : 0;
    if (is_left && text && *text && parse_int64 (text, 0, 3, &stage) != PARSE_OK)
        return accel_fail (err, ACCEL_ERR_INVALID, "environment: %s='%.40s' is not a stage from 0 to 3", ENV_ZERO_STAGE,
                           text);
    *strategy = of_stages[(int) number_of (file, DEEPSPEED_STAGE, (double) stage)];
    return ACCEL_OK;
}

static enum accel_offload
offload_of_deepspeed (const struct deepspeed_file *file, enum deepspeed_key key, const char *variable)
{
    static const char *const words[] = { [DEEPSPEED_NONE] = "none", [DEEPSPEED_CPU] = "cpu",
                                         [DEEPSPEED_NVME] = "nvme" };
    const char *text = getenv (variable);
    bool is_left = !file->is_read || file->values[key].is == DEEPSPEED_AUTO;
    double device = number_of (file, key, DEEPSPEED_NONE);
    for (int i = DEEPSPEED_NONE; is_left && text && i <= DEEPSPEED_NVME; i++)
        if (!strcasecmp (text, words[i]))
            device = i;
    return ACCEL_OFFLOAD_NONE + (enum accel_offload) device;
}

static enum accel_status
path_of_deepspeed (const struct deepspeed_file *file, enum deepspeed_key key, const char *variable, char **path,
                   struct accel_error *err)
{
    bool is_left = !file->is_read || file->values[key].is == DEEPSPEED_AUTO;
    const char *text = is_left ? getenv (variable) : file->values[key].text;
    if (text && *text && strcasecmp (text, "none") && !(*path = strdup (text)))
        return accel_fail_nomem (err);
    return ACCEL_OK;
}

static enum accel_status
read_deepspeed (struct launched_sharding *launched, struct accel_error *err)
{
    struct deepspeed_file file;
    enum accel_status status = launched_deepspeed (&file, err);
    if (!status)
        status = read_stage (&file, &launched->strategy, err);
    launched->offload_optimizer = offload_of_deepspeed (&file, DEEPSPEED_OPTIMIZER_DEVICE, ENV_OFFLOAD_OPTIMIZER);
    launched->offload_param = offload_of_deepspeed (&file, DEEPSPEED_PARAM_DEVICE, ENV_OFFLOAD_PARAM);
    launched->min_num_params = (uint64_t) number_of (&file, DEEPSPEED_PERSISTENCE, 0);
    launched->max_live_params = (uint64_t) number_of (&file, DEEPSPEED_MAX_LIVE, 0);
    if (file.values[DEEPSPEED_MAX_LIVE].is == DEEPSPEED_SET && !launched->max_live_params)
        launched->max_live_params = 1; /* to DeepSpeed, 0 is the least, not no limit */
    if (!status)
        status = path_of_deepspeed (&file, DEEPSPEED_OPTIMIZER_PATH, ENV_OFFLOAD_OPTIMIZER_PATH,
                                    &launched->optimizer_path, err);
    if (!status)
        status = path_of_deepspeed (&file, DEEPSPEED_PARAM_PATH, ENV_OFFLOAD_PARAM_PATH, &launched->param_path, err);
    deepspeed_release (&file);
    return status;
}

/* ---- FSDP ---- */

static bool
has_version_2 (void)
{
    const char *version = getenv (ENV_FSDP_VERSION);
    return version && !strcmp (version, "2");
}

/* In version 2: whether parameters stay whole between a forward and a backward pass. */
static enum accel_status
read_reshard (enum accel_sharding *strategy, struct accel_error *err)
{
    const char *text = getenv (ENV_FSDP_RESHARD);
    bool reshards = true;
    if (text && *text && parse_bool (text, &reshards) != PARSE_OK)
        return accel_fail (err, ACCEL_ERR_INVALID, "environment: %s='%.40s' is neither true nor false, as version 2 of "
                           "FSDP needs", ENV_FSDP_RESHARD, text);
    *strategy = reshards ? ACCEL_SHARDING_FULL_SHARD : ACCEL_SHARDING_SHARD_GRAD_OP;
    return ACCEL_OK;
}

static enum accel_status
read_strategy (enum accel_sharding *strategy, struct accel_error *err)
{
    static const struct {
        const char *name, *number;
        enum accel_sharding strategy;
    } all[] = { { "FULL_SHARD", "1", ACCEL_SHARDING_FULL_SHARD },
                { "SHARD_GRAD_OP", "2", ACCEL_SHARDING_SHARD_GRAD_OP },
                { "NO_SHARD", "3", ACCEL_SHARDING_NONE },
                { "HYBRID_SHARD", "4", ACCEL_SHARDING_HYBRID_SHARD },
                { "HYBRID_SHARD_ZERO2", "5", ACCEL_SHARDING_HYBRID_SHARD_ZERO2 } };
    const char *text = getenv (ENV_FSDP_STRATEGY);
    if (!text || !*text)
        text = all[0].name;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcasecmp (text, all[i].name) || !strcmp (text, all[i].number))
            return *strategy = all[i].strategy, ACCEL_OK;
    return accel_fail (err, ACCEL_ERR_INVALID, "environment: %s='%.40s' is not one of FULL_SHARD, SHARD_GRAD_OP, "
                       "NO_SHARD, HYBRID_SHARD, HYBRID_SHARD_ZERO2", ENV_FSDP_STRATEGY, text);
}

/* Its offloading is to host memory.  Only version 1 can be asked not to gather ahead, for each kind of pass. */
static enum accel_status
read_fsdp (struct launched_sharding *launched, struct accel_error *err)
{
    const char *prefetch = getenv (ENV_FSDP_BACKWARD_PREFETCH);
    if (launched_is_on (ENV_FSDP_OFFLOAD))
        launched->offload_optimizer = launched->offload_param = ACCEL_OFFLOAD_CPU;
    if (has_version_2 ())
        return read_reshard (&launched->strategy, err);
    if (prefetch && !strcasecmp (prefetch, "NO_PREFETCH") && !launched_is_on (ENV_FSDP_FORWARD_PREFETCH))
        launched->prefetch_layers = ACCEL_NONE;
    return read_strategy (&launched->strategy, err);
}

/* ---- groups ---- */

/* accel_open() refuses what is not a number. */
static uint64_t
size_of (const char *variable)
{
    const char *text = getenv (variable);
    int64_t size = 1;
    return text && parse_int64 (text, 1, INT32_MAX, &size) == PARSE_OK ? (uint64_t) size : 1;
}

/* What shards a model are groups, and with version 2 of FSDP, replicas are asked for by their number alone. */
static void
read_groups (struct launched_sharding *launched)
{
    uint64_t shards = launched_is_on (ENV_USE_PARALLELISM) ? size_of (ENV_PARALLELISM_DP_SHARD_SIZE) : 1;
    if (shards == 1)
        return;
    launched->group_size = shards;
    if (size_of (ENV_PARALLELISM_DP_REPLICATE_SIZE) == 1 || launched_is_on (ENV_USE_DEEPSPEED)
        || !launched_is_on (ENV_USE_FSDP) || !has_version_2 ())
        return;
    launched->strategy = launched->strategy == ACCEL_SHARDING_FULL_SHARD ? ACCEL_SHARDING_HYBRID_SHARD
                                                                         : ACCEL_SHARDING_HYBRID_SHARD_ZERO2;
}

/* ---- all ---- */

enum accel_status
sharding_read_launched (struct accel_model *model, struct accel_error *err)
{
    struct launched_sharding *launched = &model->sharding.launched;
    enum accel_status status = ACCEL_OK;
    *launched = (struct launched_sharding){ .strategy = ACCEL_SHARDING_NONE, .offload_optimizer = ACCEL_OFFLOAD_NONE,
                                            .offload_param = ACCEL_OFFLOAD_NONE };
    if (launched_is_on (ENV_USE_DEEPSPEED))
        status = read_deepspeed (launched, err);
    else if (launched_is_on (ENV_USE_FSDP))
        status = read_fsdp (launched, err);
    read_groups (launched);
    launched->shares = launched_is_on (ENV_SHARE_PARAMETERS);
    if (launched->strategy == ACCEL_SHARDING_FULL_SHARD) /* whose parameters it is about */
        model->sharding.min_num_params = launched->min_num_params;
    model->sharding.group_size = launched->group_size;
    model->sharding.prefetch_layers = launched->prefetch_layers;
    model->sharding.max_live_params = launched->max_live_params;
    return status;
}

void
sharding_forget_launched (struct accel_model *model)
{
    free (model->sharding.launched.optimizer_path);
    free (model->sharding.launched.param_path);
}
