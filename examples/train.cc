/* SPDX-License-Identifier: Apache-2.0 */
/* Learns to read handwritten digits in C++: softmax regression on any number of processes, in one short file.
 *
 *   accelerate launch --num_processes 2 examples/train_cc [FILE.csv]
 *
 * Built by hand: c++ -std=c++17 train.cc -o train $(pkg-config --cflags --libs libaccel) */
#include <accel/accel.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#ifndef EXAMPLE_DATA
#define EXAMPLE_DATA "data"
#endif

namespace {

using namespace accelerate;

enum { PIXELS = 64, CLASSES = 10, BATCH = 64, EPOCHS = 10 };

/* 64 pixels of 0 to 16, which become 0 to 1, and the digit. */
dataset
open_digits (const std::string &path)
{
    const csv_field fields[] = {
        csv_field ().field (field ("image", ACCEL_FLOAT32, { PIXELS })).scale (1.0 / 16).max (16),
        csv_field ().field (field ("label", ACCEL_INT32)).max (CLASSES - 1),
    };
    const std::array<accel_csv_field, 2> both { fields[0], fields[1] };
    return dataset::open_csv (path, csv_options ().fields (both.data ()).field_count (both.size ()));
}

/* Probabilities of the classes for each image of a batch.  @return how many of the likeliest are right */
int
predict (const model &net, const batch &digits, std::vector<std::array<float, CLASSES>> &probabilities)
{
    const auto images = digits.values<float> ("image");
    const auto labels = digits.values<std::int32_t> ("label");
    const auto weight = net.data<float> ("weight"), bias = net.data<float> ("bias");
    int right = 0;
    probabilities.assign (digits.size (), {});
    for (std::size_t i = 0; i < digits.size (); i++) {
        auto &p = probabilities[i];
        for (std::size_t c = 0; c < CLASSES; c++)
            p[c] = std::inner_product (weight.begin () + c * PIXELS, weight.begin () + (c + 1) * PIXELS,
                                       images.begin () + i * PIXELS, bias[c]);
        const auto best = std::max_element (p.begin (), p.end ());
        const float highest = *best;
        right += best - p.begin () == labels[i];
        for (float &x : p)
            x = std::exp (x - highest);
        const float sum = std::accumulate (p.begin (), p.end (), 0.0F);
        for (float &x : p)
            x /= sum;
    }
    return right;
}

/* Add the gradients of the mean loss of a batch, times @scale. */
void
add_gradients (const model &net, const batch &digits, const std::vector<std::array<float, CLASSES>> &probabilities,
               float scale)
{
    const auto images = digits.values<float> ("image");
    const auto labels = digits.values<std::int32_t> ("label");
    const auto weight = net.grad<float> ("weight"), bias = net.grad<float> ("bias");
    for (std::size_t i = 0; i < digits.size (); i++)
        for (std::size_t c = 0; c < CLASSES; c++) {
            const float is = std::int32_t (c) == labels[i] ? 1 : 0;
            const float delta = scale * (probabilities[i][c] - is) / float (digits.size ());
            bias[c] += delta;
            for (std::size_t j = 0; j < PIXELS; j++)
                weight[c * PIXELS + j] += delta * images[i * PIXELS + j];
        }
}

void
train (const std::string &path)
{
    accelerator acc (open_options ().cpu (true));
    const dataset digits = open_digits (path);
    loader batches (digits, loader_options ().batch_size (BATCH).split_batches (true).shuffle (true).drop_last (true));
    model net ({ { "weight", { CLASSES, PIXELS } }, { "bias", { CLASSES } } });
    optimizer adamw (net, ACCEL_ADAMW, optimizer_options ().lr (0.02));
    scheduler cosine (adamw, scheduler_options ()
                                 .schedule (ACCEL_SCHEDULE_COSINE)
                                 .warmup_steps (batches.size ())
                                 .total_steps (EPOCHS * batches.size ())
                                 .split_batches (true));
    acc.prepare ({ net, adamw, cosine, batches });

    std::vector<std::array<float, CLASSES>> probabilities;
    for (int epoch = 1; epoch <= EPOCHS; epoch++) {
        double right = 0, seen = 0;
        for (const batch &now : batches) {
            right += predict (net, now, probabilities);
            seen += double (now.size ());
            acc.backward (net, 0, [&] (float scale) { add_gradients (net, now, probabilities, scale); });
            net.clip_grad_norm (1);
            adamw.step ();
            cosine.step ();
            adamw.zero_grad ();
        }
        right = acc.reduce (right);
        seen = acc.reduce (seen);
        acc.print ("epoch %2d of %d: %.2f %% of %.0f digits read right\n", epoch, int (EPOCHS), 100 * right / seen,
                   seen);
    }
}

} // namespace

int
main (int argc, char **argv)
{
    try {
        train (argc > 1 ? argv[1] : EXAMPLE_DATA "/digits.csv");
    } catch (const std::exception &e) {
        accelerate::end_program (e); /* prints the error and exits */
    }
}
