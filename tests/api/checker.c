/* SPDX-License-Identifier: Apache-2.0 */
/* A program that ends by accel_check(), as its argument says. */
#include <accel/accel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static enum accel_status
refuse (void *user, float scale, struct accel_error *err)
{
    (void) scale;
    if (!user)
        return ACCEL_OK;
    snprintf (err->text, sizeof err->text, "the \"third\" layer is\tbroken");
    return err->code = ACCEL_ERR_CALLBACK;
}

static bool slow;

static void
at_exit (void)
{
    const struct timespec wait = { 0, 100000000 };
    if (slow)
        nanosleep (&wait, NULL); /* its peers have learnt of its failure long before it has ended */
    puts ("exit handlers ran");
}

int
main (int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    float value[1] = { 0 }, grad[1] = { 0 };
    struct accel_error err = { .code = ACCEL_OK };
    struct accel_tensor tensors[2];
    struct accel_model *model;
    struct accel *acc;
    atexit (at_exit);
    accel_check (ACCEL_OK, NULL);
    accel_check (accel_open (&acc, NULL, &err), &err);
    bool mine = accel_process_index (acc) == accel_num_processes (acc) - 1;
    if (!strcmp (how, "null") && mine)
        accel_check (ACCEL_ERR_FORMAT, NULL);
    if (!strcmp (how, "other") && mine)
        accel_check (ACCEL_ERR_NOMEM, &err);
    if (!strcmp (how, "argument") && mine)
        accel_check (accel_tensor_init (tensors, ACCEL_FLOAT32, -1, NULL, &err), &err);
    if (!strcmp (how, "collective"))
        accel_check (accel_reduce_number (acc, NULL, ACCEL_SUM, &err), &err);
    if (!strcmp (how, "leave") && mine)
        exit (0);
    for (int i = 0; i < 2; i++) {
        accel_check (accel_tensor_init (&tensors[i], ACCEL_FLOAT32, 0, NULL, &err), &err);
        tensors[i].dl.data = i ? grad : value;
    }
    accel_check (accel_model_create (&model, &(struct accel_parameter){ "w", &tensors[0].dl, &tensors[1].dl }, 1, &err),
                 &err);
    accel_check (accel_prepare (acc, &err, model), &err);
    bool broken = slow = !strcmp (how, "callback") && mine;
    accel_check (accel_backward (acc, model, 0, refuse, broken ? value : NULL, &err), &err);
    accel_model_destroy (model);
    accel_close (acc);
    puts ("done");
    return 0;
}
