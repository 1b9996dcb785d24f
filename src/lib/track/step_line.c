/* SPDX-License-Identifier: Apache-2.0 */
/* "step 20 of 1000  loss 2.310000  9100 tokens/s  mfu 12.3%  1:05 left"; see step_line.h. */
#include <config.h>

#include "lib/track/step_line.h"

#include "util/strbuf.h"

#include <accel/state.h>
#include <math.h>

struct step_line
step_line_begin (const struct accel_tracker_options *options)
{
    return (struct step_line){ .steps = options->print_steps, .tokens_per_step = options->tokens_per_step,
                               .flops_per_step = options->flops_per_step, .peak_flops = options->peak_flops,
                               .first = -1, .last = -1 };
}

static void
add_speed (struct strbuf *text, const struct step_line *line, int64_t now_ns)
{
    double rate = (double) (line->last - line->first) / (double) (now_ns - line->first_ns) * 1e9;
    double left = line->steps > (uint64_t) line->last ? (double) (line->steps - (uint64_t) line->last) / rate : 0;
    if (line->tokens_per_step > 0)
        strbuf_printf (text, "  %.0f tokens/s", rate * line->tokens_per_step);
    if (line->flops_per_step > 0 && line->peak_flops > 0)
        strbuf_printf (text, "  mfu %.1f%%", 100 * rate * line->flops_per_step / line->peak_flops);
    strbuf_printf (text, "  %.0f:%02.0f left", floor (left / 60), floor (fmod (left, 60)));
}

void
step_line_print (struct step_line *line, const struct accel *acc, const struct accel_value *values, size_t count,
                 int64_t step, int64_t now_ns)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    bool is_later = step > line->last;
    if (!line->steps)
        return;
    if (line->first < 0) {
        line->first = step;
        line->first_ns = now_ns;
    }
    if (is_later)
        line->last = step;
    strbuf_printf (&text, "step %5lld of %llu", (long long) step, (unsigned long long) line->steps);
    for (size_t i = 0; i < count; i++) {
        double size = fabs (values[i].number);
        if (values[i].kind == ACCEL_NUMBER)
            strbuf_printf (&text, size >= 1e-3 && size < 1e6 ? "  %s %.6f" : "  %s %g", values[i].key,
                           values[i].number);
    }
    if (is_later && line->last > line->first && now_ns > line->first_ns)
        add_speed (&text, line, now_ns);
    if (!text.failed)
        accel_print (acc, "%s\n", text.text);
}
