/* SPDX-License-Identifier: Apache-2.0 */
/* Training steps of llm.c's train_gpt2.c for run.py, which compiles this file as llm.c's makefile would.
 *
 *   llmc VOCAB POSITIONS LAYERS HEADS WIDTH LENGTH BATCH STEPS TOKENS
 *
 * TOKENS is a file of uint16.  Weights are random; prints a line after each step. */
#define TESTING /* without its main() */
#include "train_gpt2.c"

static void
build (GPT2 *model, char **argv)
{
    unsigned long state = 1;
    memset (model, 0, sizeof *model);
    model->config.vocab_size = atoi (argv[1]);
    model->config.padded_vocab_size = (model->config.vocab_size + 127) / 128 * 128;
    model->config.max_seq_len = atoi (argv[2]);
    model->config.num_layers = atoi (argv[3]);
    model->config.num_heads = atoi (argv[4]);
    model->config.channels = atoi (argv[5]);
    fill_in_parameter_sizes (model->param_sizes, model->config);
    for (int i = 0; i < NUM_PARAMETER_TENSORS; i++)
        model->num_parameters += model->param_sizes[i];
    model->params_memory = malloc_and_point_parameters (&model->params, model->param_sizes);
    for (size_t i = 0; i < model->num_parameters; i++) {
        state = state * 6364136223846793005ul + 1442695040888963407ul;
        model->params_memory[i] = ((float) (state >> 40) / (1 << 24) - 0.5f) * 0.07f; /* deviation 0.02 */
    }
    model->mean_loss = -1;
}

int
main (int argc, char **argv)
{
    GPT2 model;
    if (argc != 10)
        return 2;
    int length = atoi (argv[6]), batch = atoi (argv[7]), steps = atoi (argv[8]), count = length * batch;
    int *inputs = malloc (2 * (count + 1) * sizeof *inputs), *targets = inputs + 1;
    FILE *tokens = fopen (argv[9], "rb");
    build (&model, argv);
    for (int step = 1; tokens && step <= steps; step++) {
        for (int i = 0; i <= count; i++) {
            unsigned short token = 0;
            fread (&token, sizeof token, 1, tokens);
            inputs[i] = token;
        }
        gpt2_forward (&model, inputs, targets, batch, length);
        gpt2_zero_grad (&model);
        gpt2_backward (&model);
        gpt2_update (&model, 1e-4f, 0.9f, 0.95f, 1e-8f, 0.1f, step);
        printf ("step %d loss %f\n", step, model.mean_loss);
        fflush (stdout);
    }
    return 0;
}
