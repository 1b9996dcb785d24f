/* SPDX-License-Identifier: Apache-2.0 */
/* Learns which of three spirals a point is on: a network with one hidden layer, in C. */
#include <accel/accel.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES = 3, HIDDEN = 96, BATCH = 64, TRAINED = 1920, TESTED = 480, EPOCHS = 60 };

struct point {
    float at[2];
    int class;
};

/* All parameters in one array, their gradients and their velocities in others. */
struct parameters {
    float hidden[HIDDEN][2], hidden_bias[HIDDEN];
    float output[CLASSES][HIDDEN], output_bias[CLASSES];
};

enum { COUNT = sizeof (struct parameters) / sizeof (float) };

static struct parameters parameters, gradients, velocities;
static struct point points[TRAINED + TESTED];

static float
uniform (void)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (float) (state >> 40) / (1 << 24);
}

static void
make_points (void)
{
    for (int i = 0; i < TRAINED + TESTED; i++) {
        float radius = uniform (), noise = 0.3F * (uniform () - 0.5F);
        points[i].class = i % CLASSES;
        float angle = (float) points[i].class * 2.0944F + radius * 4 + noise;
        points[i].at[0] = radius * sinf (angle);
        points[i].at[1] = radius * cosf (angle);
    }
}

static void
shuffle (struct point *some, int count)
{
    for (int i = count - 1; i > 0; i--) {
        int j = (int) (uniform () * (float) (i + 1));
        struct point other = some[i];
        some[i] = some[j];
        some[j] = other;
    }
}

/* @return the loss at one point; probabilities[CLASSES] and hidden[HIDDEN] are what the network made of it */
static float
forward (const struct point *point, float *hidden, float *probabilities)
{
    float sum = 0;
    for (int i = 0; i < HIDDEN; i++) {
        const float *weight = parameters.hidden[i];
        hidden[i] = tanhf (weight[0] * point->at[0] + weight[1] * point->at[1] + parameters.hidden_bias[i]);
    }
    for (int j = 0; j < CLASSES; j++) {
        probabilities[j] = parameters.output_bias[j];
        for (int i = 0; i < HIDDEN; i++)
            probabilities[j] += parameters.output[j][i] * hidden[i];
        sum += probabilities[j] = expf (probabilities[j]);
    }
    for (int j = 0; j < CLASSES; j++)
        probabilities[j] /= sum;
    return -logf (probabilities[point->class]);
}

/* Set the gradients to the part that some[count] have in those of the mean loss over a batch. */
static void
compute_gradients (const struct point *some, int count)
{
    float hidden[HIDDEN], probabilities[CLASSES];
    memset (&gradients, 0, sizeof gradients);
    for (const struct point *point = some; point < some + count; point++) {
        forward (point, hidden, probabilities);
        probabilities[point->class] -= 1;
        for (int j = 0; j < CLASSES; j++)
            gradients.output_bias[j] += probabilities[j] / BATCH;
        for (int i = 0; i < HIDDEN; i++) {
            float back = 0;
            for (int j = 0; j < CLASSES; j++) {
                gradients.output[j][i] += hidden[i] * probabilities[j] / BATCH;
                back += parameters.output[j][i] * probabilities[j] / BATCH;
            }
            back *= 1 - hidden[i] * hidden[i];
            gradients.hidden[i][0] += back * point->at[0];
            gradients.hidden[i][1] += back * point->at[1];
            gradients.hidden_bias[i] += back;
        }
    }
}

/* Stochastic gradient descent with momentum. */
static void
update (float rate, float momentum)
{
    float *value = (float *) &parameters, *velocity = (float *) &velocities;
    const float *gradient = (const float *) &gradients;
    for (int i = 0; i < COUNT; i++) {
        velocity[i] = momentum * velocity[i] + gradient[i];
        value[i] -= rate * velocity[i];
    }
}

int
main (void)
{
    struct accel *acc;
    struct accel_error err;
    accel_check (accel_open (&acc, NULL, &err), &err);
    struct accel_split mine = accel_split_between_processes (acc, BATCH, false);
    make_points ();
    for (int i = 0; i < HIDDEN * 2; i++)
        parameters.hidden[i / 2][i % 2] = 8 * (uniform () - 0.5F);
    for (int i = 0; i < CLASSES * HIDDEN; i++)
        parameters.output[i / HIDDEN][i % HIDDEN] = 0.2F * (uniform () - 0.5F);

    for (int epoch = 1; epoch <= EPOCHS; epoch++) {
        shuffle (points, TRAINED);
        for (int i = 0; i < TRAINED; i += BATCH) {
            compute_gradients (points + i + mine.begin, (int) (mine.end - mine.begin));
            accel_check (accel_comm_all_reduce (accel_world (acc), &gradients, &gradients, COUNT, ACCEL_FLOAT32,
                                                ACCEL_SUM, &err), &err);
            update (0.1F, 0.9F);
        }

        float hidden[HIDDEN], probabilities[CLASSES];
        double loss = 0;
        int right = 0;
        for (const struct point *point = points + TRAINED; point < points + TRAINED + TESTED; point++) {
            loss += (double) forward (point, hidden, probabilities) / TESTED;
            right += probabilities[point->class] > 0.5F;
        }
        accel_print (acc, "epoch %2d  test loss %.6f  accuracy %.1f %%\n", epoch, loss, 100.0 * right / TESTED);
    }
    accel_close (acc);
    return 0;
}
