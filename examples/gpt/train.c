/* SPDX-License-Identifier: Apache-2.0 */
/* Trains GPT-2 on text, on any number of processes, and lets it write.
 *
 *   accelerate launch --num_processes 2 examples/gpt/gpt [--data FILE] [--steps N] ...   (see --help)
 *
 * --mixed_precision bf16 of accelerate launch: matrices are bfloat16, with float32 masters.  A token is a byte, unless
 * the data are token files.  A step has --total_batch_size sequences on any number of processes, and an epoch has whole
 * steps.  Started again, a run continues from the latest checkpoint in --project_dir, also if --model is repeated. */
#include "matmul.h"
#include "options.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>

#define TRY(call) accel_check ((call), &error)
static struct accel_error error;

/* Everything that is trained. */
struct run {
    struct options options;
    struct accel *acc;
    struct gpt gpt;
    struct accel_dataset *data[2], *parts[2]; /* what was opened, and what is trained on and evaluated with */
    struct accel_loader *loaders[2];
    struct accel_optimizer *optimizer;
    struct accel_scheduler *scheduler;
    const struct accel_batch *batch;
    float loss; /* of this pass */
};
enum { TRAIN, TEST };

/* ---- data ---- */

static struct accel_dataset *
open_tokens (const struct options *o, const char *path)
{
    const struct accel_tokens_options tokens = { .format = o->token_format, .sequence_length = (size_t) o->length,
                                                 .labels = true, .vocab_size = (uint64_t) o->config.vocab_size };
    struct accel_dataset *data;
    TRY (accel_dataset_open_tokens (&data, &path, 1, &tokens, &error));
    return data;
}

/* Whole steps to train on; the last tenth, and what is left, to evaluate with, unless that has its own file. */
static void
open_data (struct run *run)
{
    const struct options *o = &run->options;
    const char *path = o->eval_data ? o->eval_data : o->data;
    const struct accel_dataset *data = run->data[TRAIN] = open_tokens (o, o->data);
    const struct accel_dataset *test = run->data[TEST] = open_tokens (o, path);
    size_t size = o->eval_data ? data->size : data->size - data->size / 10, step = (size_t) o->total_batch_size;
    size -= size % step;
    size_t first = o->eval_data ? 0 : size, rest = test->size - first;
    size_t pass = (size_t) (o->batch_size * accel_num_processes (run->acc) / run->gpt.parts);
    if (!size)
        errx (1, "%s: %zu sequences of %d tokens are too few for a step of %zu", o->data, data->size, o->length, step);
    if (rest < pass) /* one batch for each process; otherwise there is nothing to average */
        errx (1, "%s: %zu sequences of %d tokens are too few to evaluate %zu at a time", path, rest, o->length, pass);
    TRY (accel_dataset_subset (&run->parts[TRAIN], data, 0, size, &error));
    TRY (accel_dataset_subset (&run->parts[TEST], test, first, rest, &error));
}

/* ---- training ---- */

static void
begin (struct run *run)
{
    const struct options *o = &run->options;
    const struct accel_param_group matrices = { .min_ndim = 2, .weight_decay = accel_exactly (o->weight_decay) };
    const struct accel_optimizer_options adamw = { .lr = accel_exactly (o->lr), .beta2 = 0.95, .groups = &matrices,
                                                   .group_count = 1, .weight_decay = ACCEL_ZERO };
    const struct accel_scheduler_options cosine
        = { .schedule = ACCEL_SCHEDULE_COSINE, .warmup_from_one = true,
            .warmup_steps = (uint64_t) (o->warmup_steps < o->steps ? o->warmup_steps : o->steps),
            .total_steps = (uint64_t) (o->steps ? o->steps : 1), .final_fraction = 0.1, .split_batches = true };
    const struct accel_loader_options loader = { .batch_size = (size_t) o->batch_size, .drop_last = true, .workers = 1,
                                                 .shuffle = true, .seed = (uint64_t) o->seed };
    const struct accel_loader_options test_loader = { .batch_size = (size_t) o->batch_size, .drop_last = true };
    const struct accel_project_configuration project
        = { .project_dir = o->project_dir, .automatic_checkpoint_naming = true, .total_limit = 2 };
    const double flops = 6.0 * (double) run->gpt.parameters + 12.0 * o->config.n_layer * o->config.n_embd * o->length;
    const struct accel_tracker_options tracking
        = { .tokens_per_step = (double) o->total_batch_size * o->length,
            .flops_per_step = (double) o->total_batch_size * o->length * flops,
            .peak_flops = o->peak_tflops * 1e12 * accel_num_processes (run->acc), .print_steps = (uint64_t) o->steps };
    const struct accel_sharding_options sharding = { .strategy = o->sharding, .share_parameters = o->shard };
    TRY (accel_model_set_sharding (run->gpt.model, &sharding, &error));
    TRY (accel_optimizer_create (&run->optimizer, run->gpt.model, ACCEL_ADAMW, &adamw, &error));
    TRY (accel_scheduler_create (&run->scheduler, run->optimizer, &cosine, &error));
    TRY (accel_loader_create (&run->loaders[TRAIN], run->parts[TRAIN], &loader, &error));
    TRY (accel_loader_create (&run->loaders[TEST], run->parts[TEST], &test_loader, &error));
    TRY (accel_prepare (run->acc, &error, run->gpt.model, run->optimizer, run->scheduler, run->loaders[TRAIN],
                        run->loaders[TEST]));
    TRY (accel_set_project_configuration (run->acc, &project, &error));
    TRY (accel_init_trackers (run->acc, "gpt", NULL, 0, &tracking, &error));
    enum accel_status status = accel_load_state (run->acc, getenv ("ACCEL_RESUME_FROM"), &error);
    TRY (status == ACCEL_ERR_NOT_FOUND ? ACCEL_OK : status);
}

/* The loss of a batch, and its gradients, times @p scale, unless that is 0: what accel_backward() calls. */
static enum accel_status
pass (void *user, float scale, struct accel_error *why)
{
    struct run *run = user;
    (void) why;
    run->loss = gpt_loss (&run->gpt, accel_batch_tensor (run->batch, "input_ids"),
                          accel_batch_tensor (run->batch, "labels"), scale);
    return ACCEL_OK;
}

/* @return the mean loss of the data that is not trained on.  Collective. */
static double
evaluate (struct run *run)
{
    struct accel_evaluation *evaluation;
    double loss = 0, count = 0;
    TRY (accel_evaluate_begin (&evaluation, run->acc, run->loaders[TEST], &error));
    while (count < run->options.evaluation_batches && accel_loader_next (run->loaders[TEST], &run->batch, &error)) {
        TRY (pass (run, 0, &error));
        loss += (double) run->loss;
        count++;
    }
    TRY (error.code);
    accel_evaluate_end (evaluation);
    loss /= count;
    TRY (accel_reduce_number (run->acc, &loss, ACCEL_AVG, &error));
    return loss;
}

/* @return whether this was the last step: the loss gets no better, or the job was asked to stop */
static bool
end_step (struct run *run, double loss, float norm)
{
    const struct options *o = &run->options;
    int64_t step = (int64_t) accel_optimizer_step_count (run->optimizer);
    bool is_last = step == o->steps, saves, stops;
    uint64_t since_best;
    TRY (accel_reduce_number (run->acc, &loss, ACCEL_AVG, &error));
    const struct accel_value values[] = { { .key = "loss", .number = loss },
                                          { .key = "grad_norm", .number = (double) norm },
                                          { .key = "lr", .number = accel_optimizer_lr (run->optimizer) } };
    TRY (accel_log (run->acc, values, 3, step, &error));
    TRY (accel_should_save (run->acc, &saves, &error));
    if (step % o->evaluate_every == 0 || is_last) {
        loss = evaluate (run);
        TRY (accel_note_metric (run->acc, loss, &since_best, &error));
        const struct accel_value scores[] = { { .key = "evaluation_loss", .number = loss },
                                              { .key = "since_best", .number = (double) since_best } };
        TRY (accel_log (run->acc, scores, 2, step, &error));
        is_last |= o->patience && since_best >= (uint64_t) o->patience;
        saves |= !since_best;
    }
    if (saves || is_last || step % o->save_every == 0)
        TRY (accel_save_state (run->acc, NULL, &error));
    TRY (accel_should_stop (run->acc, &stops, &error));
    return is_last || stops;
}

static void
train (struct run *run)
{
    double loss = 0; /* of the passes of this step */
    float norm;
    bool ends = (int64_t) accel_optimizer_step_count (run->optimizer) >= run->options.steps;
    while (!ends) {
        if (!accel_loader_next (run->loaders[TRAIN], &run->batch, &error)) {
            TRY (error.code); /* or the next call begins the next epoch */
            continue;
        }
        TRY (accel_accumulate (run->acc, &error));
        TRY (accel_backward (run->acc, run->gpt.model, 0, pass, run, &error));
        loss += (double) run->loss / accel_gradient_accumulation_steps (run->acc);
        if (accel_sync_gradients (run->acc))
            TRY (accel_clip_grad_norm (run->gpt.model, run->options.max_grad_norm, &norm, NULL, &error));
        TRY (accel_optimizer_step (run->optimizer, &error));
        TRY (accel_scheduler_step (run->scheduler, &error));
        TRY (accel_optimizer_zero_grad (run->optimizer, &error));
        if (accel_sync_gradients (run->acc)) {
            ends = end_step (run, loss, norm);
            loss = 0;
        }
    }
    accel_loader_end (run->loaders[TRAIN]);
}

/* ---- the end ---- */

/* Continue the prompt. */
static void
write_text (struct run *run)
{
    const struct options *o = &run->options;
    const struct accel_choice_options choice = { accel_exactly (o->temperature), (uint64_t) o->top_k, o->top_p };
    const float *logits = NULL;
    struct accel_generator *generator;
    TRY (accel_generator_create (&generator, (uint64_t) o->seed, &error));
    for (int i = 0; i < o->sample && i < o->config.n_positions; i++) {
        size_t token = i < o->token_count ? (size_t) o->tokens[i] : 0;
        if (i >= o->token_count)
            TRY (accel_generator_choose (generator, logits, (size_t) o->config.vocab_size, &token, &choice, &error));
        printf (o->token_format == ACCEL_TOKENS_UINT8 ? "%c" : "%d ", (int) token);
        logits = gpt_next (&run->gpt, (int32_t) token);
    }
    putchar ('\n');
    accel_generator_destroy (generator);
}

int
main (int argc, char **argv)
{
    static struct run run;
    const struct options *o = &run.options;
    run.options = parse_options (argc, argv);
    const struct accel_options job
        = { .cpu = true, .total_batch_size = (size_t) o->total_batch_size, .log_with = "jsonl",
            .tp_size = (uint64_t) o->tp };
    TRY (accel_open (&run.acc, &job, &error));
    bool is_main = accel_is_main_process (run.acc);
    const char *products = matmul_set_dtype (accel_autocast (run.acc)), *folder;
    TRY (accel_set_seed (run.acc, (uint64_t) o->seed, false, &error));
    gpt_create (&run.gpt, &o->config, run.acc, accel_default_generator ());
    run.gpt.recompute = o->recompute || accel_activation_checkpointing (run.acc);
    open_data (&run);
    if (o->model)
        TRY (accel_load_model (run.acc, run.gpt.model, o->model, NULL, NULL, &error));
    begin (&run);
    if (is_main && (folder = accel_checkpoint_path (run.acc)))
        printf ("continues %s at step %d%s\n", folder, (int) accel_optimizer_step_count (run.optimizer),
                o->model ? "; its weights replace those of --model; another --project_dir begins anew" : "");
    if (is_main)
        printf ("%.2f million parameters, %s, %d process(es), %u passes per step, recompute %d, ZeRO stage %d, tp %d\n",
                (double) run.gpt.parameters / 1e6, products, accel_num_processes (run.acc),
                accel_gradient_accumulation_steps (run.acc), run.gpt.recompute,
                (int) accel_model_sharding (run.gpt.model) - ACCEL_SHARDING_NONE, run.gpt.parts);
    train (&run);
    if (is_main && (folder = accel_best_checkpoint_path (run.acc)))
        printf ("the best checkpoint: %s\n", folder);
    if (o->save)
        TRY (accel_save_model (run.acc, run.gpt.model, o->save, NULL, &error));
    if (o->save && is_main)
        write_config (o);
    if (is_main || (run.gpt.tp && freopen ("/dev/null", "w", stdout))) /* all that divide layers */
        write_text (&run);
    TRY (accel_end_training (run.acc, &error));
    accel_close (run.acc);
    return 0;
}
