/* SPDX-License-Identifier: Apache-2.0 */
/* A native program that leaves everything to the launcher, and prints on rank 0 what it got.  With the argument
 * "silent", it does not call accel_model_set_sharding(); with "shared", it shares parameters; with "file", they are in
 * a file. */
#include <config.h>

#include <accel/accel.h>

#include <stdio.h>
#include <string.h>

int
main (int argc, char **argv)
{
    static int64_t shape[] = { 300, 300 };
    static const char *const strategies[] = { "DEFAULT", "NONE", "OPTIMIZER", "SHARD_GRAD_OP", "FULL_SHARD",
                                              "HYBRID_SHARD", "HYBRID_SHARD_ZERO2" };
    DLTensor data = { .device = { kDLCPU, 0 }, .ndim = 2, .shape = shape, .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    DLTensor grad = data;
    struct accel_parameter parameter = { "w", &data, &grad };
    struct accel *acc = NULL;
    struct accel_model *model = NULL;
    struct accel_optimizer *optimizer = NULL;
    struct accel_error err = { 0 };
    const char *word = argc > 1 ? argv[1] : "";
    bool in_file = !strcmp (word, "file");
    const struct accel_sharding_options options
        = { .share_parameters = !strcmp (word, "shared"),
            .offload_param_device = in_file ? ACCEL_OFFLOAD_NVME : ACCEL_OFFLOAD_DEFAULT,
            .offload_param_nvme_path = in_file ? "." : NULL };
    const void *before;
    enum accel_status status = accel_open (&acc, NULL, &err);
    if (!status)
        status = accel_model_create (&model, &parameter, 1, &err);
    if (!status && strcmp (word, "silent") != 0)
        status = accel_model_set_sharding (model, &options, &err);
    if (!status)
        status = accel_optimizer_create (&optimizer, model, ACCEL_ADAMW, NULL, &err);
    before = data.data;
    if (!status)
        status = accel_prepare (acc, &err, model, optimizer);
    if (!status && accel_is_main_process (acc))
        printf ("%s, %u passes, norm %g, %s%s%s\n", strategies[accel_model_sharding (model)],
                accel_gradient_accumulation_steps (acc), accel_gradient_clipping (acc), accel_mixed_precision (acc),
                data.data == before ? "" : ", moved", accel_activation_checkpointing (acc) ? ", segments" : "");
    if (status)
        fprintf (stderr, "%s\n", err.text);
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (model);
    accel_close (acc);
    return status ? 1 : 0;
}
