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

/** A layer: its tensors, and what a pass leaves for its way back. */
struct gpt_block {
    const struct accel_parameter *tensors;
    float *input, *middle, *attended; /* [rows, n_embd]: of attention, of what follows it, and between them */
    float *qkv, *hidden;              /* [rows, 3 n_embd], and [rows, 4 n_embd]: before the activation */
    float *norms;                     /* [batch, n_head, length] */
};

struct gpt {
    struct gpt_config config;
    struct accel_parameter *tensors; /* the model's own first, then block by block; their memory is the library's */
    size_t parameters;
    struct accel_model *model;
    struct accel_comm *tp, *vocabulary; /* the processes that divide layers, and the vocabulary; NULL: this one alone */
    int parts, part;                    /* of layers: how many, and which this one has */
    struct gpt_block *blocks; /* [n_layer + 1]; the last one has only an input, the output of the others */
    bool recompute, shares;   /* layers keep only their input (set before the first pass); and do in this pass */
    long rows, logit_rows;    /* for which there is memory below */
    int count;                /* tokens of the text so far */
    float *memory;
    float *wide, *wide_grad;            /* [rows, 4 n_embd] */
    float *narrow, *narrow_grad, *grad; /* [rows, n_embd] */
    float *losses, *logits;             /* [rows], [logit_rows, vocab_size] */
};

/** Describe a model to the library, which has its memory and cuts it as @p acc says, and fill it as GPT-2 did. */
void gpt_create (struct gpt *gpt, const struct gpt_config *config, const struct accel *acc,
                 struct accel_generator *generator);

/**
 * The mean loss of predicting @p labels [batch, length], int32, from @p tokens, which must be below vocab_size.
 *
 * @param scale  the gradients, times this, are added to those of the tensors, and each is reported to the library when
 *               it is complete, so that averages over processes begin meanwhile; 0: there are none
 */
float gpt_loss (struct gpt *gpt, const DLTensor *tokens, const DLTensor *labels, float scale);

/** Add @p token to the text, on all processes that divide layers.  @return the logits of what follows, [vocab_size],
 *  valid until the next call */
const float *gpt_next (struct gpt *gpt, int32_t token);

#endif
