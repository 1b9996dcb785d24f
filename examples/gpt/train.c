/* SPDX-License-Identifier: Apache-2.0 */
/* Trains GPT-2 on text, on any number of processes, and lets it write.
 *
 *   accelerate launch --num_processes 2 examples/gpt/gpt [--data FILE] [--steps N] ...   (see --help)
 *
 * A token is a byte, unless the data are token files.  The last tenth of the data is for evaluation.  A step has
 * --total_batch_size sequences, in as many passes as the number of processes needs: steps are the same on any number.
 * Started again, a run continues from its latest checkpoint in --project_dir, also on another number of processes. */
#include "gpt.h"
#include "options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- data ---- */

/* The samples of @p whole from `first` on. */
struct part {
    const struct accel_dataset *whole;
    size_t first;
};

static enum accel_status
read_part (void *user, size_t index, void *const *into, struct accel_error *err)
{
    const struct part *part = user;
    return part->whole->read (part->whole->user, part->first + index, into, err);
}

static struct accel_dataset
make_part (struct part *part, const struct accel_dataset *whole, size_t first, size_t size)
{
    *part = (struct part){ whole, first };
    return (struct accel_dataset){ .size = size, .fields = whole->fields, .field_count = whole->field_count,
                                   .read = read_part, .user = part };
}

/* ---- training ---- */

/* Everything that is trained, and what this program adds to checkpoints. */
struct run {
    struct options options;
    struct accel *acc;
    struct gpt gpt;
    struct accel_optimizer *optimizer;
    struct accel_scheduler *scheduler;
    struct accel_loader *train, *test;
    const struct accel_batch *batch;
    float loss; /* of this pass */
    int64_t step, best_step;
    double best_loss;
};

static enum accel_status
save_run (void *user, struct accel_state_dict *state, struct accel_error *err)
{
    const struct run *run = user;
    (void) err;
    accel_state_dict_set_int64 (state, "step", run->step);
    accel_state_dict_set_int64 (state, "best_step", run->best_step);
    accel_state_dict_set_double (state, "best_loss", run->best_loss);
    return ACCEL_OK;
}

static enum accel_status
load_run (void *user, const struct accel_state_dict *state, struct accel_error *err)
{
    struct run *run = user;
    enum accel_status status = accel_state_dict_get_int64 (state, "step", &run->step, err);
    status = status ? status : accel_state_dict_get_int64 (state, "best_step", &run->best_step, err);
    return status ? status : accel_state_dict_get_double (state, "best_loss", &run->best_loss, err);
}

static const int32_t *
field_of (const struct run *run, const struct accel_batch *batch, const char *name)
{
    const DLTensor *tensor = accel_batch_tensor (batch, name);
    const int32_t *tokens = tensor->data;
    size_t count = accel_batch_size (batch) * (size_t) run->options.length;
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || tokens[i] >= run->options.config.vocab_size)
            die ("%s: token %d, but the model has %d", run->options.data, (int) tokens[i],
                 run->options.config.vocab_size);
    return tokens;
}

static enum accel_status
backward (void *user, float scale, struct accel_error *err)
{
    struct run *run = user;
    (void) err;
    run->loss = gpt_learn (&run->gpt, field_of (run, run->batch, "input_ids"), field_of (run, run->batch, "labels"),
                           (int) accel_batch_size (run->batch), run->options.length, scale);
    return ACCEL_OK;
}

/* @return the mean loss of the data that is not trained on.  Collective. */
static double
evaluate (struct run *run)
{
    struct accel_error err;
    struct accel_evaluation *evaluation;
    const struct accel_batch *batch;
    double sum = 0, count = 0;
    accel_check (accel_evaluate_begin (&evaluation, run->acc, run->test, &err), &err);
    while (count < run->options.evaluation_batches && accel_loader_next (run->test, &batch, &err)) {
        sum += (double) gpt_loss (&run->gpt, field_of (run, batch, "input_ids"), field_of (run, batch, "labels"),
                                  (int) accel_batch_size (batch), run->options.length);
        count++;
    }
    accel_check (err.code, &err);
    accel_evaluate_end (evaluation);
    accel_check (accel_reduce_number (run->acc, &sum, ACCEL_SUM, &err), &err);
    accel_check (accel_reduce_number (run->acc, &count, ACCEL_SUM, &err), &err);
    return sum / count;
}

static void
make_run (struct run *run, const struct accel_dataset *train, const struct accel_dataset *test)
{
    struct accel_error err;
    const struct options *options = &run->options;
    const struct accel_param_group matrices
        = { .min_ndim = 2, .weight_decay = options->weight_decay > 0 ? options->weight_decay : ACCEL_ZERO };
    const struct accel_optimizer_options adamw
        = { .lr = options->lr > 0 ? options->lr : ACCEL_ZERO, .beta2 = 0.95, .weight_decay = ACCEL_ZERO,
            .groups = &matrices, .group_count = 1 };
    const struct accel_scheduler_options cosine
        = { .schedule = ACCEL_SCHEDULE_COSINE, .warmup_steps = (uint64_t) options->warmup_steps,
            .warmup_from_one = true, .total_steps = (uint64_t) (options->steps ? options->steps : 1),
            .final_fraction = 0.1, .split_batches = true };
    const struct accel_loader_options loader
        = { .batch_size = (size_t) options->batch_size, .shuffle = true, .seed = (uint64_t) options->seed,
            .drop_last = true, .workers = 1 };
    const struct accel_loader_options test_loader = { .batch_size = (size_t) options->batch_size, .drop_last = true };
    gpt_create (&run->gpt, &options->config);
    gpt_initialize (&run->gpt, accel_default_generator ());
    if (options->model)
        accel_check (accel_load_model (run->acc, run->gpt.model, options->model, NULL, NULL, &err), &err);
    accel_check (accel_optimizer_create (&run->optimizer, run->gpt.model, ACCEL_ADAMW, &adamw, &err), &err);
    accel_check (accel_scheduler_create (&run->scheduler, run->optimizer, &cosine, &err), &err);
    accel_check (accel_loader_create (&run->train, train, &loader, &err), &err);
    accel_check (accel_loader_create (&run->test, test, &test_loader, &err), &err);
    accel_check (accel_prepare (run->acc, &err, run->gpt.model, run->optimizer, run->scheduler, run->train, run->test),
                 &err);
}

/* Where to save, what to log, and where an earlier run had come to. */
static void
begin (struct run *run)
{
    struct accel_error err;
    const struct options *options = &run->options;
    const struct accel_project_configuration project
        = { .project_dir = options->project_dir, .automatic_checkpoint_naming = true, .total_limit = 2 };
    const struct accel_checkpoint_object object = { .save = save_run, .load = load_run, .user = run };
    double tokens = (double) options->total_batch_size * options->length;
    const struct accel_tracker_options tracking
        = { .tokens_per_step = tokens, .flops_per_step = 6 * tokens * (double) gpt_parameters (&run->gpt) };
    accel_check (accel_set_project_configuration (run->acc, &project, &err), &err);
    accel_check (accel_register_for_checkpointing (run->acc, &object, &err), &err);
    accel_check (accel_init_trackers (run->acc, "gpt", NULL, 0, &tracking, &err), &err);
    enum accel_status status = accel_load_state (run->acc, getenv ("ACCEL_RESUME_FROM"), &err);
    if (status != ACCEL_ERR_NOT_FOUND)
        accel_check (status, &err);
}

/* @return whether a step was completed */
static bool
train_pass (struct run *run, double *norm)
{
    struct accel_error err;
    float length = 0;
    accel_check (accel_accumulate (run->acc, &err), &err);
    accel_check (accel_backward (run->acc, run->gpt.model, 0, backward, run, &err), &err);
    bool is_complete = accel_sync_gradients (run->acc);
    if (is_complete)
        accel_check (accel_clip_grad_norm (run->gpt.model, run->options.max_grad_norm, &length, NULL, &err), &err);
    accel_check (accel_optimizer_step (run->optimizer, &err), &err);
    accel_check (accel_scheduler_step (run->scheduler, &err), &err);
    accel_check (accel_optimizer_zero_grad (run->optimizer, &err), &err);
    *norm = (double) length;
    return is_complete;
}

static void
log_step (struct run *run, double loss, double norm)
{
    struct accel_error err;
    const struct accel_value values[] = { { .key = "loss", .number = loss }, { .key = "grad_norm", .number = norm },
                                          { .key = "lr", .number = accel_optimizer_lr (run->optimizer) } };
    accel_check (accel_log (run->acc, values, sizeof values / sizeof *values, run->step, &err), &err);
    accel_print (run->acc, "step %5lld of %d  loss %.6f  norm %.3f\n", (long long) run->step, run->options.steps, loss,
                 norm);
}

/* Evaluate.  @return whether the loss has not become better for too long */
static bool
is_over (struct run *run)
{
    struct accel_error err;
    double loss = evaluate (run);
    accel_check (accel_log_number (run->acc, "evaluation_loss", loss, run->step, &err), &err);
    accel_print (run->acc, "step %5lld of %d  evaluation loss %.6f\n", (long long) run->step, run->options.steps, loss);
    if (run->best_step && !(loss < run->best_loss))
        return run->options.patience
               && run->step - run->best_step >= (int64_t) run->options.patience * run->options.evaluate_every;
    run->best_loss = loss;
    run->best_step = run->step;
    return false;
}

/* After each step.  @return whether it was the last one: the loss gets no better, or the job was asked to stop */
static bool
end_step (struct run *run)
{
    struct accel_error err;
    const struct options *options = &run->options;
    bool is_last = run->step == options->steps, saves, stops;
    if (run->step % options->evaluate_every == 0 || is_last)
        is_last |= is_over (run);
    accel_check (accel_should_save (run->acc, &saves, &err), &err);
    if (saves || is_last || run->step % options->save_every == 0)
        accel_check (accel_save_state (run->acc, NULL, &err), &err);
    accel_check (accel_should_stop (run->acc, &stops, &err), &err);
    if (stops)
        accel_print (run->acc, "saved, and ending as asked\n");
    return is_last || stops;
}

static void
train (struct run *run)
{
    struct accel_error err;
    bool ends = run->step >= run->options.steps;
    double sum = 0, norm;
    int passes = 0;
    while (!ends) {
        while (!ends && accel_loader_next (run->train, &run->batch, &err)) {
            bool is_complete = train_pass (run, &norm);
            sum += (double) run->loss;
            passes++; /* fewer in a step that an epoch's end ends early */
            if (!is_complete)
                continue;
            double loss = sum / (passes * accel_num_processes (run->acc));
            accel_check (accel_reduce_number (run->acc, &loss, ACCEL_SUM, &err), &err);
            sum = passes = 0;
            run->step++;
            log_step (run, loss, norm);
            ends = end_step (run);
        }
        if (!ends)
            accel_check (err.code, &err);
    }
    accel_loader_end (run->train);
}

/* Rank 0 continues the prompt. */
static void
write_text (struct run *run)
{
    struct accel_error err;
    struct accel_generator *generator;
    struct gpt_cache cache;
    int vocab = run->options.config.vocab_size, limit = run->options.config.n_positions;
    const char *prompt = run->options.prompt;
    float *logits = malloc ((size_t) vocab * sizeof *logits);
    const struct gpt_choice choice
        = { (float) run->options.temperature, run->options.top_k, (float) run->options.top_p };
    if (!logits || accel_generator_create (&generator, (uint64_t) run->options.seed, &err))
        die ("out of memory");
    gpt_cache_create (&cache, &run->gpt);
    for (int i = 0; i < run->options.sample && cache.count < limit; i++) {
        int32_t token = i < (int) strlen (prompt) ? (unsigned char) prompt[i]
                                                   : gpt_choose (logits, vocab, &choice, generator);
        if (token >= vocab)
            die ("--prompt: '%c' is no token of the model", (char) token);
        printf (strcmp (run->options.format, "bytes") ? "%d " : "%c", (int) token);
        gpt_next (logits, &run->gpt, &cache, token);
    }
    putchar ('\n');
    gpt_cache_destroy (&cache);
    accel_generator_destroy (generator);
    free (logits);
}

static enum accel_token_format
parse_format (const char *name)
{
    static const struct {
        const char *name;
        enum accel_token_format format;
    } formats[] = { { "bytes", ACCEL_TOKENS_UINT8 }, { "uint16", ACCEL_TOKENS_UINT16 },
                    { "uint32", ACCEL_TOKENS_UINT32 }, { "llmc", ACCEL_TOKENS_LLMC } };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (!strcmp (name, formats[i].name))
            return formats[i].format;
    die ("--format: expected bytes, uint16, uint32 or llmc, got '%s'", name);
}

int
main (int argc, char **argv)
{
    static struct run run;
    struct accel_error err;
    struct accel_dataset *whole, train_set, test_set;
    struct part parts[2];
    run.options = parse_options (argc, argv);
    const struct accel_tokens_options tokens = { .format = parse_format (run.options.format), .labels = true,
                                                 .sequence_length = (size_t) run.options.length };
    const struct accel_options job = { .cpu = true, .total_batch_size = (size_t) run.options.total_batch_size,
                                       .log_with = "jsonl" };
    accel_check (accel_open (&run.acc, &job, &err), &err);
    accel_check (accel_set_seed (run.acc, (uint64_t) run.options.seed, false, &err), &err);
    accel_check (accel_dataset_open_tokens (&whole, &run.options.data, 1, &tokens, &err), &err);
    size_t test_size = whole->size / 10;
    size_t pass = (size_t) run.options.batch_size * (size_t) accel_num_processes (run.acc);
    if (test_size < pass) /* one batch for each process; otherwise there is nothing to average, or to train on */
        die ("%s: %zu sequences of %d tokens are too few", run.options.data, whole->size, run.options.length);
    train_set = make_part (&parts[0], whole, 0, whole->size - test_size);
    test_set = make_part (&parts[1], whole, whole->size - test_size, test_size);
    make_run (&run, &train_set, &test_set);
    begin (&run);
    accel_print (run.acc, "%.2f million parameters, %d process(es), %u passes per step\n",
                 (double) gpt_parameters (&run.gpt) / 1e6, accel_num_processes (run.acc),
                 accel_gradient_accumulation_steps (run.acc));
    train (&run);
    if (run.options.save)
        accel_check (accel_save_model (run.acc, run.gpt.model, run.options.save, NULL, &err), &err);
    if (accel_is_main_process (run.acc) && run.options.save)
        gpt_write_config (&run.options.config, run.options.save);
    if (accel_is_main_process (run.acc))
        write_text (&run);
    accel_check (accel_end_training (run.acc, &err), &err);
    accel_scheduler_destroy (run.scheduler);
    accel_optimizer_destroy (run.optimizer);
    accel_loader_destroy (run.train);
    accel_loader_destroy (run.test);
    accel_dataset_close (whole);
    gpt_destroy (&run.gpt);
    accel_close (run.acc);
    return 0;
}
