/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor parallelism: the hidden units of a network are divided over the processes of a row of the grid, and the
 * samples over its columns.  The losses do not depend on how many processes there are of either.
 *
 *   accelerate launch --num_processes 4 tensor_parallel 2    a grid of 2 x 2
 *
 * y = relu ((s x) W1) W2, as in Megatron-LM: W1 is divided by its columns (a column-parallel layer) and W2 by its rows
 * (a row-parallel one), so one all-reduce gives y, and one more the gradient of s x, which all have.  The layers know
 * when.  Arrays may be on a GPU as well, with a product of the program's own; here, the processor computes. */
#include <accel/accel.h>

#include <stdlib.h>

enum { INPUTS = 8, HIDDEN = 16, OUTPUTS = 4, SAMPLES = 32, STEPS = 200 };

static struct accel_error err;
static struct accel_comm *tp, *dp; /* this process's row and column of the grid */
static int units;                  /* of the hidden ones, this process's */
static float s[INPUTS], w1[INPUTS * HIDDEN], w2[HIDDEN * OUTPUTS]; /* [INPUTS, units], [units, OUTPUTS] */
static float ds[INPUTS], dw1[INPUTS * HIDDEN], dw2[HIDDEN * OUTPUTS];
static struct accel_parallel_linear first = { .in = INPUTS, .weight = w1, .grad = dw1, .kind = ACCEL_COLUMN_PARALLEL };
static struct accel_parallel_linear second = { .out = OUTPUTS, .weight = w2, .grad = dw2, .kind = ACCEL_ROW_PARALLEL,
                                               .input_is_parallel = true };

static void
sum (struct accel_comm *comm, float *values, size_t count)
{
    accel_check (accel_comm_all_reduce (comm, values, values, count, ACCEL_FLOAT32, ACCEL_SUM, &err), &err);
}

/* All draw all numbers, and keep their own: the network is the same in any grid. */
static void
make_network (struct accel_generator *generator)
{
    int before = accel_comm_rank (tp) * units;
    for (int i = 0; i < INPUTS; i++)
        s[i] = 1;
    for (int h = -before; h < HIDDEN - before; h++)
        for (int i = 0; i < INPUTS + OUTPUTS; i++) {
            float number = (2 * accel_generator_uniform (generator) - 1) / 2;
            if (h >= 0 && h < units)
                *(i < INPUTS ? &w1[i * units + h] : &w2[h * OUTPUTS + i - INPUTS]) = number;
        }
    first.comm = second.comm = tp;
    first.out = second.in = (size_t) units;
}

/* Forward and back for one sample.  @return its loss, and add its gradients */
static float
learn (const float *x, const float *wanted)
{
    float scaled[INPUTS], hidden[HIDDEN], dhidden[HIDDEN], y[OUTPUTS], dy[OUTPUTS], dx[INPUTS], loss = 0;
    for (int i = 0; i < INPUTS; i++)
        scaled[i] = s[i] * x[i];
    accel_check (accel_parallel_linear (&first, scaled, hidden, 1, &err), &err);
    for (int h = 0; h < units; h++)
        hidden[h] = hidden[h] > 0 ? hidden[h] : 0;
    accel_check (accel_parallel_linear (&second, hidden, y, 1, &err), &err);
    for (int o = 0; o < OUTPUTS; o++) {
        dy[o] = y[o] - wanted[o];
        loss += dy[o] * dy[o] / 2;
    }
    accel_check (accel_parallel_linear_backward (&second, hidden, dy, dhidden, 1, &err), &err);
    for (int h = 0; h < units; h++)
        dhidden[h] = hidden[h] > 0 ? dhidden[h] : 0;
    accel_check (accel_parallel_linear_backward (&first, scaled, dhidden, dx, 1, &err), &err);
    for (int i = 0; i < INPUTS; i++)
        ds[i] += dx[i] * x[i];
    return loss;
}

/* Gradients of all samples, and a step down. */
static void
step (float *values, float *gradients, size_t count)
{
    sum (dp, gradients, count);
    for (size_t i = 0; i < count; i++) {
        values[i] -= 0.1F / SAMPLES * gradients[i];
        gradients[i] = 0;
    }
}

int
main (int argc, char **argv)
{
    static float x[SAMPLES][INPUTS], wanted[SAMPLES][OUTPUTS];
    static const char *const names[] = { "dp", "tp" };
    struct accel *acc;
    struct accel_mesh *mesh;
    struct accel_generator *generator;
    accel_check (accel_open (&acc, NULL, &err), &err);
    int row = argc > 1 ? atoi (argv[1]) : 1, size = accel_num_processes (acc);
    if (row < 1 || size % row || HIDDEN % row || SAMPLES % (size / row)) {
        accel_print (acc, "tensor_parallel: %d processes cannot be rows of %d\n", size, row);
        accel_close (acc);
        return 2;
    }
    accel_check (accel_mesh_create (&mesh, acc, names, (int[]){ size / row, row }, 2, &err), &err);
    dp = accel_mesh_comm (mesh, "dp");
    tp = accel_mesh_comm (mesh, "tp");
    units = HIDDEN / row;
    accel_check (accel_generator_create (&generator, 1, &err), &err);
    make_network (generator);
    for (int n = 0; n < SAMPLES; n++) {
        for (int i = 0; i < INPUTS; i++)
            x[n][i] = 2 * accel_generator_uniform (generator) - 1;
        for (int o = 0; o < OUTPUTS; o++)
            wanted[n][o] = x[n][o] * x[n][o + 1] + x[n][o + 4];
    }
    accel_generator_destroy (generator);

    for (int t = 1; t <= STEPS; t++) {
        float loss = 0;
        for (int n = accel_comm_rank (dp); n < SAMPLES; n += accel_comm_size (dp))
            loss += learn (x[n], wanted[n]) / SAMPLES;
        sum (dp, &loss, 1);
        step (s, ds, INPUTS);
        step (w1, dw1, (size_t) units * INPUTS);
        step (w2, dw2, (size_t) units * OUTPUTS);
        if (t % 50 == 0 || t == 1)
            accel_print (acc, "step %3d  loss %.4f\n", t, (double) loss);
    }
    accel_mesh_destroy (mesh);
    accel_close (acc);
    return 0;
}
