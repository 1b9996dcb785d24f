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

/** Tensors of a block, then those of the model. */
enum {
    LN_1_WEIGHT, LN_1_BIAS, ATTN_WEIGHT, ATTN_BIAS, ATTN_PROJ_WEIGHT, ATTN_PROJ_BIAS,
    LN_2_WEIGHT, LN_2_BIAS, FC_WEIGHT, FC_BIAS, MLP_PROJ_WEIGHT, MLP_PROJ_BIAS, GPT_BLOCK_TENSORS,
};
enum { WTE, WPE, LN_F_WEIGHT, LN_F_BIAS, GPT_MODEL_TENSORS };

struct gpt_tensor {
    char name[48];
    int64_t shape[2];
    DLTensor data, grad; /* their memory is the library's */
};

/** A model, and what the latest pass through it left for its way back. */
struct gpt {
    struct gpt_config config;
    struct gpt_tensor *tensors; /* those of the model first, then block by block */
    size_t tensor_count;
    struct accel_model *model;
    int batch, length;  /* for which there is memory below; rows = batch * length */
    float *memory;
    float *inputs;      /* [n_layer + 1] [rows, n_embd]: of each block, and the last one's output */
    float *middles;     /* [n_layer] [rows, n_embd]: between attention and mlp */
    float *qkv;         /* [n_layer] [rows, 3 n_embd] */
    float *attended;    /* [n_layer] [rows, n_embd] */
    float *norms;       /* [n_layer] [batch, n_head, length] */
    float *hidden;      /* [n_layer] [rows, 4 n_embd]: before the activation */
    float *wide, *wide_grad;     /* [rows, 4 n_embd] */
    float *narrow, *narrow_grad; /* [rows, n_embd] */
    float *grad;                 /* [rows, n_embd] */
};

/** Describe a model to the library: its memory is zeroed.  gpt_initialize() or accel_load_model() fill it. */
void gpt_create (struct gpt *gpt, const struct gpt_config *config);

/** As GPT-2 did: normal with deviation 0.02, smaller in front of residual connections. */
void gpt_initialize (struct gpt *gpt, struct accel_generator *generator);

/** How many numbers the model has. */
size_t gpt_parameters (const struct gpt *gpt);

/** @return the mean loss of predicting @p labels [batch, length] from @p tokens, which must be below vocab_size */
float gpt_loss (struct gpt *gpt, const int32_t *tokens, const int32_t *labels, int batch, int length);

/** The same, and adds the gradients, times @p scale, to those of the tensors.  Each is reported to the library when it
 * is complete, so that averages over processes begin meanwhile. */
float gpt_learn (struct gpt *gpt, const int32_t *tokens, const int32_t *labels, int batch, int length, float scale);

void gpt_destroy (struct gpt *gpt);

/** config.json in @p folder, as `transformers` has it.  A failure ends the process with a sentence.  @{ */
void gpt_read_config (struct gpt_config *config, const char *folder);
void gpt_write_config (const struct gpt_config *config, const char *folder);
/** @} */

/** Keys and values of the tokens so far. */
struct gpt_cache {
    int count;
    float *keys, *values; /* [n_layer] [n_positions, n_embd] */
};

void gpt_cache_create (struct gpt_cache *cache, const struct gpt *gpt);
void gpt_cache_destroy (struct gpt_cache *cache);

/** @param[out] logits  [vocab_size] of what follows @p token, which is added to the cache */
void gpt_next (float *logits, struct gpt *gpt, struct gpt_cache *cache, int32_t token);

/** How to choose among tokens: temperature 0 takes the most likely one. */
struct gpt_choice {
    float temperature;
    int top_k;   /* 0: all */
    float top_p; /* 0: all */
};

int32_t gpt_choose (float *logits, int vocab, const struct gpt_choice *choice, struct accel_generator *generator);

#endif
