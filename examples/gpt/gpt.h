/* SPDX-License-Identifier: Apache-2.0 */
/* GPT-2: A. Radford et al., "Language Models are Unsupervised Multitask Learners", 2019.  Tensors have the names,
 * shapes and layouts of `transformers`, which keeps the weights of linear layers as [in, out]. */
#ifndef GPT_H
#define GPT_H

#include <accel/accel.h>

/** The names are those of config.json. */
struct gpt_config {
    int vocab_size, n_positions, n_embd, n_layer, n_head;
};

/** What the command line says; the table in options.c explains each. */
struct options {
    struct gpt_config config;
    const char *data, *eval_data, *format, *model, *save, *project_dir, *prompt;
    int length, batch_size, total_batch_size, tokens_per_step, steps, warmup_steps, shard, seed, evaluate_every;
    int evaluation_batches, patience, save_every, sample, top_k;
    double lr, weight_decay, max_grad_norm, temperature, top_p, peak_tflops;
};

/** A mistake ends the process with a sentence.  @{ */
struct options parse_options (int argc, char **argv);
void write_config (const struct options *options, const char *folder);
void die (const char *format, ...) __attribute__ ((format (printf, 1, 2), noreturn));
/** @} */

/** Kinds of tensors: those of the model, then those of each block. */
enum {
    WTE, WPE, LN_F_WEIGHT, LN_F_BIAS, GPT_MODEL_TENSORS,
    LN_1_WEIGHT = GPT_MODEL_TENSORS, LN_1_BIAS, ATTN_WEIGHT, ATTN_BIAS, ATTN_PROJ_WEIGHT, ATTN_PROJ_BIAS,
    LN_2_WEIGHT, LN_2_BIAS, FC_WEIGHT, FC_BIAS, MLP_PROJ_WEIGHT, MLP_PROJ_BIAS, GPT_KINDS,
    GPT_BLOCK_TENSORS = GPT_KINDS - GPT_MODEL_TENSORS,
};

struct gpt_tensor {
    char name[40];
    struct accel_tensor data, grad; /* their memory is the library's */
};

/** A model, and what the latest pass through it left for its way back. */
struct gpt {
    struct gpt_config config;
    struct gpt_tensor *tensors; /* [tensor_count] those of the model first, then block by block */
    size_t tensor_count, parameters;
    struct accel_model *model;
    int batch, length; /* for which there is memory below; rows = batch * length */
    float *memory;
    float *inputs;   /* [n_layer + 1] [rows, n_embd]: of each block, and the last one's output */
    float *middles;  /* [n_layer] [rows, n_embd]: between attention and mlp */
    float *qkv;      /* [n_layer] [rows, 3 n_embd] */
    float *attended; /* [n_layer] [rows, n_embd] */
    float *norms;    /* [n_layer] [batch, n_head, length] */
    float *hidden;   /* [n_layer] [rows, 4 n_embd]: before the activation */
    float *wide, *wide_grad;            /* [rows, 4 n_embd] */
    float *narrow, *narrow_grad, *grad; /* [rows, n_embd] */
    float *keys, *values; /* [n_layer] [n_positions, n_embd] of the text so far; NULL: no text is written */
    int count;            /* its tokens */
};

/** Describe a model to the library, which has its memory, and fill it as GPT-2 did. */
void gpt_create (struct gpt *gpt, const struct gpt_config *config, enum accel_dtype dtype,
                 struct accel_generator *generator);
void gpt_destroy (struct gpt *gpt);

/**
 * The mean loss of predicting @p labels [batch, length] from @p tokens, which must be below vocab_size.
 *
 * @param scale  the gradients, times this, are added to those of the tensors, and each is reported to the library when
 *               it is complete, so that averages over processes begin meanwhile; 0: there are none
 */
float gpt_loss (struct gpt *gpt, const int32_t *tokens, const int32_t *labels, int batch, int length, float scale);

/** Add @p token to the text.  @param[out] logits  [vocab_size] of what follows */
void gpt_next (float *logits, struct gpt *gpt, int32_t token);

/** @return what follows, by temperature (0: the most likely one), top_k and top_p of @p options */
int32_t gpt_choose (const float *logits, const struct options *options, struct accel_generator *generator);

#endif
