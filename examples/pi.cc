/* SPDX-License-Identifier: Apache-2.0 */
/* pi.c in C++: each process throws its share of the darts, then all add up their hits. */
#include <accel/accel.hpp>

static void
estimate ()
{
    accelerate::accelerator acc;
    const std::size_t darts = 10000000;
    const accel_split mine = acc.split_between_processes (darts);
    accelerate::generator generator (std::uint64_t (acc.process_index ()));
    double hits = 0;
    for (std::size_t i = mine.begin; i < mine.end; i++) {
        float x = generator.uniform (), y = generator.uniform ();
        hits += x * x + y * y < 1;
    }
    hits = acc.reduce (hits);
    acc.print ("pi is about %.4f, computed by %d process(es)\n", 4 * hits / darts, acc.num_processes ());
}

int
main ()
{
    try {
        estimate ();
    } catch (const std::exception &e) {
        accelerate::end_program (e); /* prints the error and exits */
    }
}
