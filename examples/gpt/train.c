/* SPDX-License-Identifier: Apache-2.0 */
/* Trains GPT-2 on text, on any number of processes, and lets it write.
 *
 *   accelerate launch --num_processes 2 examples/gpt/gpt [--data FILE] [--steps N] ...   (see --help)
 *
 * With --mixed_precision bf16 of accelerate launch, matrices are bfloat16, with float32 masters.
 * A token is a byte, unless the data are token files.  A step has --total_batch_size sequences, in as many passes as
 * the number of processes needs, and an epoch has whole steps: they are the same on any number.  Started again, a run
 * continues from its latest checkpoint in --project_dir, also on another number of processes. */
#include "gpt.h"
#include "matmul.h"

#include <err.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
    float loss;                        /* of this pass */
    double step_tokens, step_flops;    /* of all processes */
    double began;                      /* seconds, when step `first` had been made */
    int64_t first;
};
enum { TRAIN, TEST };

static double
now (void)
{
    struct timespec time;
    clock_gettime (CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec + 1e-9 * (double) time.tv_nsec;
}

/* ---- data ---- */

static struct accel_dataset *
open_tokens (const struct options *options, const char *path)
{
    static const struct {
        const char *name;
        enum accel_token_format format;
    } formats[] = { { "bytes", ACCEL_TOKENS_UINT8 }, { "uint16", ACCEL_TOKENS_UINT16 },
                    { "uint32", ACCEL_TOKENS_UINT32 }, { "llmc", ACCEL_TOKENS_LLMC } };
    struct accel_tokens_options tokens = { .labels = true, .sequence_length = (size_t) options->length };
    struct accel_dataset *data;
    size_t i = 0;
    while (i < sizeof formats / sizeof *formats && strcmp (formats[i].name, options->format))
        i++;
    if (i == sizeof formats / sizeof *formats)
        errx (EXIT_FAILURE, "--format: expected bytes, uint16, uint32 or llmc, got '%s'", options->format);
    tokens.format = formats[i].format;
    TRY (accel_dataset_open_tokens (&data, &path, 1, &tokens, &error));
    return data;
}

/* Whole steps to train on; the last tenth, and what is left, to evaluate with, unless that has its own file. */
static void
open_data (struct run *run)
{
    const struct options *o = &run->options;
    struct accel_dataset *all = run->data[TRAIN] = open_tokens (o, o->data);
    size_t size = o->eval_data ? all->size : all->size - all->size / 10, step = (size_t) o->total_batch_size;
    size_t pass = (size_t) o->batch_size * (size_t) accel_num_processes (run->acc);
    size -= size % step;
    run->data[TEST] = o->eval_data ? open_tokens (o, o->eval_data) : NULL;
    if (!size)
        errx (EXIT_FAILURE, "%s: %zu sequences of %d tokens are too few for a step of %zu", o->data, all->size, o->length, step);
    TRY (accel_dataset_subset (&run->parts[TRAIN], all, 0, size, &error));
    TRY (o->eval_data ? accel_dataset_subset (&run->parts[TEST], run->data[TEST], 0, run->data[TEST]->size, &error)
                      : accel_dataset_subset (&run->parts[TEST], all, size, all->size - size, &error));
    if (run->parts[TEST]->size < pass) /* one batch for each process; otherwise there is nothing to average */
        errx (EXIT_FAILURE, "%s: %zu sequences of %d tokens are too few to evaluate %zu at a time",
             o->eval_data ? o->eval_data : o->data, run->parts[TEST]->size, o->length, pass);
}

static const int32_t *
field_of (const struct run *run, const struct accel_batch *batch, const char *name)
{
    const int32_t *tokens = accel_batch_tensor (batch, name)->data;
    for (size_t i = 0; i < accel_batch_size (batch) * (size_t) run->options.length; i++)
        if (tokens[i] < 0 || tokens[i] >= run->options.config.vocab_size)
            errx (EXIT_FAILURE, "%s: token %d, but the model has %d", run->options.data, (int) tokens[i],
                 run->options.config.vocab_size);
    return tokens;
}

static float
loss_of (struct run *run, const struct accel_batch *batch, float scale)
{
    return gpt_loss (&run->gpt, field_of (run, batch, "input_ids"), field_of (run, batch, "labels"),
                     (int) accel_batch_size (batch), run->options.length, scale);
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
    run->step_tokens = (double) o->total_batch_size * o->length;
    run->step_flops = run->step_tokens * (6.0 * (double) run->gpt.parameters
                                          + 12.0 * o->config.n_layer * o->config.n_embd * o->length);
    const struct accel_tracker_options tracking
        = { .tokens_per_step = run->step_tokens, .flops_per_step = run->step_flops,
            .peak_flops = o->peak_tflops * 1e12 * accel_num_processes (run->acc) };
    const struct accel_sharding_options shard = { .strategy = ACCEL_SHARDING_OPTIMIZER, .share_parameters = true };
    if (o->shard)
        TRY (accel_model_set_sharding (run->gpt.model, &shard, &error));
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
    run->first = (int64_t) accel_optimizer_step_count (run->optimizer);
    run->began = now ();
}

static enum accel_status
backward (void *user, float scale, struct accel_error *why)
{
    struct run *run = user;
    (void) why;
    run->loss = loss_of (run, run->batch, scale);
    return ACCEL_OK;
}

/* @return the mean loss of the data that is not trained on.  Collective. */
static double
evaluate (struct run *run)
{
    struct accel_evaluation *evaluation;
    const struct accel_batch *batch;
    double sums[2] = { 0 }; /* losses, batches */
    TRY (accel_evaluate_begin (&evaluation, run->acc, run->loaders[TEST], &error));
    for (; sums[1] < run->options.evaluation_batches && accel_loader_next (run->loaders[TEST], &batch, &error); sums[1]++)
        sums[0] += (double) loss_of (run, batch, 0);
    TRY (error.code);
    accel_evaluate_end (evaluation);
    for (int i = 0; i < 2; i++)
        TRY (accel_reduce_number (run->acc, &sums[i], ACCEL_SUM, &error));
    return sums[0] / sums[1];
}

static void
show_step (const struct run *run, int64_t step, double loss, double norm)
{
    const struct accel_value values[] = { { .key = "loss", .number = loss }, { .key = "grad_norm", .number = norm },
                                          { .key = "lr", .number = accel_optimizer_lr (run->optimizer) } };
    double rate = (double) (step - run->first) / (now () - run->began);
    double left = (double) (run->options.steps - step) / rate, peak = run->options.peak_tflops * 1e12;
    char mfu[32] = "";
    if (peak > 0)
        snprintf (mfu, sizeof mfu, "  mfu %.1f%%",
                  100 * rate * run->step_flops / peak / accel_num_processes (run->acc));
    TRY (accel_log (run->acc, values, sizeof values / sizeof *values, step, &error));
    accel_print (run->acc, "step %5lld of %d  loss %.6f  norm %.3f  %.0f tokens/s%s  %.0f:%02d left\n",
                 (long long) step, run->options.steps, loss, norm, rate * run->step_tokens, mfu,
                 (left - (double) ((int) left % 60)) / 60, (int) left % 60);
}

/* @return whether this was the last step: the loss gets no better, or the job was asked to stop */
static bool
end_step (struct run *run, double loss, double norm)
{
    const struct options *o = &run->options;
    int64_t step = (int64_t) accel_optimizer_step_count (run->optimizer);
    bool is_last = step == o->steps, saves, stops;
    uint64_t since_best;
    TRY (accel_reduce_number (run->acc, &loss, ACCEL_SUM, &error));
    show_step (run, step, loss / accel_num_processes (run->acc), norm);
    TRY (accel_should_save (run->acc, &saves, &error));
    if (step % o->evaluate_every == 0 || is_last) {
        loss = evaluate (run);
        TRY (accel_note_metric (run->acc, loss, &since_best, &error));
        TRY (accel_log_number (run->acc, "evaluation_loss", loss, step, &error));
        accel_print (run->acc, "step %5lld of %d  evaluation loss %.6f%s\n", (long long) step, o->steps, loss,
                     since_best ? "" : ", the best");
        is_last |= o->patience && since_best >= (uint64_t) o->patience;
        saves |= !since_best;
    }
    if (saves || is_last || step % o->save_every == 0)
        TRY (accel_save_state (run->acc, NULL, &error));
    TRY (accel_should_stop (run->acc, &stops, &error));
    if (stops)
        accel_print (run->acc, "saved, and ending as asked\n");
    return is_last || stops;
}

static void
train (struct run *run)
{
    double loss = 0; /* of the passes of this step */
    float norm;
    bool ends = run->first >= run->options.steps;
    while (!ends) {
        while (!ends && accel_loader_next (run->loaders[TRAIN], &run->batch, &error)) {
            TRY (accel_accumulate (run->acc, &error));
            TRY (accel_backward (run->acc, run->gpt.model, 0, backward, run, &error));
            loss += (double) run->loss / accel_gradient_accumulation_steps (run->acc);
            bool is_step = accel_sync_gradients (run->acc);
            if (is_step)
                TRY (accel_clip_grad_norm (run->gpt.model, run->options.max_grad_norm, &norm, NULL, &error));
            TRY (accel_optimizer_step (run->optimizer, &error));
            TRY (accel_scheduler_step (run->scheduler, &error));
            TRY (accel_optimizer_zero_grad (run->optimizer, &error));
            if (is_step) {
                ends = end_step (run, loss, (double) norm);
                loss = 0;
            }
        }
        TRY (ends ? ACCEL_OK : error.code);
    }
    accel_loader_end (run->loaders[TRAIN]);
}

/* ---- the end ---- */

struct candidate {
    float logit; /* then the exponential */
    int32_t token;
};

static int
compare_candidates (const void *a, const void *b)
{
    const struct candidate *one = a, *other = b;
    return one->logit != other->logit ? (one->logit < other->logit ? 1 : -1) : one->token - other->token;
}

static int32_t
gpt_choose (const float *logits, const struct options *options, struct accel_generator *generator)
{
    int vocab = options->config.vocab_size, count = 0, chosen = 0;
    int most = options->temperature <= 0 ? 1 : options->top_k > 0 && options->top_k < vocab ? options->top_k : vocab;
    struct candidate *all = calloc ((size_t) vocab, sizeof *all);
    float sum = 0, kept = 0, share = options->top_p > 0 ? (float) options->top_p : 1;
    for (int i = 0; i < vocab; i++)
        all[i] = (struct candidate){ logits[i], i };
    qsort (all, (size_t) vocab, sizeof *all, compare_candidates);
    for (int i = most; i-- > 0;)
        sum += all[i].logit = expf ((all[i].logit - all[0].logit)
                                    / (options->temperature > 0 ? (float) options->temperature : 1));
    do
        kept += all[count++].logit;
    while (count < most && kept < share * sum);
    float left = kept * accel_generator_uniform (generator);
    while (chosen < count - 1 && left >= all[chosen].logit)
        left -= all[chosen++].logit;
    int32_t token = all[chosen].token;
    free (all);
    return token;
}


/* @return the next token of the prompt, -1 after its end */
static long
take_token (const char **prompt, bool is_text)
{
    char *end;
    if (!**prompt)
        return -1;
    if (is_text)
        return (unsigned char) *(*prompt)++;
    long token = strtol (*prompt, &end, 10);
    if (end == *prompt)
        errx (EXIT_FAILURE, "--prompt: expected numbers of tokens, got '%s'", *prompt);
    *prompt = end + strspn (end, " ");
    return token;
}

/* Rank 0 continues the prompt; if there is none, a line's end, or the last token, which ends GPT-2's texts. */
static void
write_text (struct run *run)
{
    const struct options *o = &run->options;
    bool is_text = !strcmp (o->format, "bytes");
    const char *prompt = o->prompt;
    const float *logits = NULL;
    struct accel_generator *generator;
    TRY (accel_generator_create (&generator, (uint64_t) o->seed, &error));
    for (int i = 0; i < o->sample && i < o->config.n_positions; i++) {
        long token = take_token (&prompt, is_text);
        if (token == -1)
            token = i ? gpt_choose (logits, o, generator) : is_text ? '\n' : o->config.vocab_size - 1;
        if (token < 0 || token >= o->config.vocab_size)
            errx (EXIT_FAILURE, "--prompt: token %ld, but the model has %d", token, o->config.vocab_size);
        printf (is_text ? "%c" : "%d ", (int) token);
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
        = { .cpu = true, .total_batch_size = (size_t) o->total_batch_size, .log_with = "jsonl" };
    TRY (accel_open (&run.acc, &job, &error));
    const char *products = matmul_set_dtype (accel_autocast (run.acc));
    open_data (&run);
    TRY (accel_set_seed (run.acc, (uint64_t) o->seed, false, &error));
    gpt_create (&run.gpt, &o->config, accel_autocast (run.acc), accel_default_generator ());
    if (o->model)
        TRY (accel_load_model (run.acc, run.gpt.model, o->model, NULL, NULL, &error));
    begin (&run);
    accel_print (run.acc, "%.2f million parameters, %s products, %d process(es), %u passes per step\n",
                 (double) run.gpt.parameters / 1e6, products, accel_num_processes (run.acc),
                 accel_gradient_accumulation_steps (run.acc));
    train (&run);
    if (accel_best_checkpoint_path (run.acc))
        accel_print (run.acc, "the best checkpoint: %s\n", accel_best_checkpoint_path (run.acc));
    if (o->save)
        TRY (accel_save_model (run.acc, run.gpt.model, o->save, NULL, &error));
    if (o->save && accel_is_main_process (run.acc))
        write_config (&o->config, o->save);
    if (accel_is_main_process (run.acc))
        write_text (&run);
    TRY (accel_end_training (run.acc, &error));
    accel_scheduler_destroy (run.scheduler);
    accel_optimizer_destroy (run.optimizer);
    for (int i = 0; i < 2; i++) {
        accel_loader_destroy (run.loaders[i]);
        accel_dataset_close (run.parts[i]);
    }
    for (int i = 0; i < 2; i++)
        accel_dataset_close (run.data[i]);
    gpt_destroy (&run.gpt);
    accel_close (run.acc);
    return 0;
}
