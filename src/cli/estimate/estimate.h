/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate estimate-memory: what its files share.  A model is a list of parts: the tensors of its files, and buffers
 * that programs make themselves. */
#ifndef CLI_ESTIMATE_ESTIMATE_H
#define CLI_ESTIMATE_ESTIMATE_H

#include "config/settings.h"
#include "config/text/tree.h"
#include "files/gguf.h"
#include "files/safetensors.h"
#include "util/fail.h"

struct estimate_part {
    char *name;        /* "encoder.layer.0.attention.self.query.weight" */
    uint64_t elements;
    unsigned bits;     /* of an element, as the file has it */
    unsigned code;     /* its type: kDLInt ..., of the tensors of safetensors files */
    bool is_float;     /* else its size stays the same with every type */
    bool is_buffer;    /* not trained */
    uint64_t bytes;    /* in the file */
};

#define ESTIMATE_MOST_ELEMENTS ((uint64_t) 1 << 56) /* so that sums of bits fit 64 bits */

/** All zero before; for estimate_model_release(). */
struct estimate_model {
    struct estimate_part *parts; /* [count] */
    size_t count;
    uint64_t elements;           /* of all parts */
    char *library;               /* "transformers", "timm", or another one; NULL: not known */
    const char *source;          /* "hub", "cache", "folder" or "file" */
    struct filedoc config;       /* config.json; without items: there is none */
    const char *quantization;    /* its method, which belongs to `config`; NULL: none */
    bool is_gguf;
    bool is_built;               /* from config.json alone: nothing is stored */
    bool is_total;               /* only the size of all tensors together is known: the only part is all of them */
    struct gguf_facts facts;     /* of a GGUF file */
};

/** What a model needs, in bits: Accelerate counts a truth value as one bit. */
struct estimate_sizes {
    uint64_t total, largest; /* with float32 */
    uint64_t stored;         /* bytes in the files */
    uint64_t parameters;     /* elements that can be trained */
};

/* ---- model.c ---- */

/** Append a part.  @param name  [length] */
int estimate_add (struct estimate_model *model, struct estimate_part part, const char *name, size_t length,
                  struct fail *fail);

/** Append the tensors of a header. @{ */
int estimate_add_safetensors (struct estimate_model *model, const struct safetensors *header, struct fail *fail);
int estimate_add_gguf (struct estimate_model *model, const struct gguf *gguf, struct fail *fail);
/** @} */

/** Read config.json. @param path  for messages; must outlive the model @param text  [length] and a zero byte */
int estimate_read_config (struct estimate_model *model, const char *path, const char *text, size_t length,
                          struct fail *fail);

/** @return the value at @p key of config.json, or else of its text_config; or NULL */
const struct node *estimate_find (const struct estimate_model *model, const char *key);

/** @return the number at @p key of config.json, or of its text_config; or @p other */
uint64_t estimate_number (const struct estimate_model *model, const char *key, uint64_t other);
double estimate_fraction (const struct estimate_model *model, const char *key, double other);

/** @return whether config.json, or its text_config, has true at @p key */
bool estimate_is_true (const struct estimate_model *model, const char *key);

/** @return the text at @p key of config.json, or NULL */
const char *estimate_text (const struct estimate_model *model, const char *key);

void estimate_model_release (struct estimate_model *model);

/* ---- source.c: local files; hub.c: the hub ---- */

/** Read a file or folder. @param follow_links  for a folder of the hub's cache, which consists of links */
int estimate_read_local (struct estimate_model *model, const char *path, bool follow_links, struct fail *fail);

/** Read a model of the hub: "NAME", "ORG/NAME" or "ORG/NAME/FILE.gguf". */
int estimate_read_hub (struct estimate_model *model, const struct settings *settings, const char *name,
                       struct fail *fail);

#define ESTIMATE_TOTAL_NAME "pytorch_model.bin.index.json"

/** Read the index of pickled files, after config.json. @param path  for messages
 *  @param text  [length] and a zero byte */
int estimate_read_total (struct estimate_model *model, const char *path, const char *text, size_t length,
                         struct fail *fail);

/* ---- architecture.c ---- */

/** @return whether the tensors of a model follow from config.json */
bool estimate_has_architecture (const struct estimate_model *model);

/** Append the tensors that follow from config.json: those of the base model. */
int estimate_build (struct estimate_model *model, struct fail *fail);

/* ---- quantized.c ---- */

/** Replace packed tensors by those that they were made from.  @param name  of the model, for messages */
int estimate_unpack (struct estimate_model *model, const char *name, struct fail *fail);

/* ---- structure.c ---- */

/** Make of the tensors of a checkpoint the model that transformers would make: without its head, with its buffers. */
int estimate_arrange (struct estimate_model *model, struct fail *fail);

/** @return whether transformers has code for the type of this model, as far as it is known here */
bool estimate_knows_type (const struct estimate_model *model);

/** @return whether the module @p path, [length], of this model must stay whole */
bool estimate_is_whole (const struct estimate_model *model, const char *path, size_t length);

/* ---- layers.c ---- */

/** Sort the parts by name and measure them. */
void estimate_measure (struct estimate_model *model, struct estimate_sizes *sizes);

/* ---- cache.c ---- */

/** Bytes of the keys and values of a context, of all layers.
 *
 * @param context  tokens
 * @param bits     of an element
 * @return -1 with @p fail set: not known */
int estimate_cache (const struct estimate_model *model, uint64_t context, unsigned bits, uint64_t *bytes,
                    struct fail *fail);

struct estimate_training {
    uint64_t weights, gradients, optimizer; /* bytes of one process */
};

extern const struct estimate_optimizer {
    const char *name; /* NULL at the end */
    uint64_t bytes; /* of state for each parameter, float32 */
} estimate_optimizers[];

extern const struct estimate_precision {
    const char *name; /* NULL at the end */
    uint64_t weight, gradient; /* bytes of one */
} estimate_precisions[];

/** What training needs of one process, without activations. */
struct estimate_training estimate_train (uint64_t parameters, const struct estimate_optimizer *optimizer,
                                         const struct estimate_precision *precision, int64_t zero_stage,
                                         int64_t processes);

/** What is printed, and for what. */
struct estimate_report {
    const char *name; /* as it was given */
    const struct settings *settings;
    const struct estimate_model *model;
    struct estimate_sizes sizes;
    bool wants_training;
};

/* ---- sharding.c ---- */

/** What a native program needs for training with AdamW. */
struct estimate_sharding {
    int64_t processes;
    int stage;                      /* of ZeRO */
    struct estimate_training share; /* of the process that has most; of shared parameters, its part */
    uint64_t each, all;             /* bytes of that process, and of all together */
};

/** Go to the next row: each stage, for 1, 2, 4 ... and --num_processes.
 *  @param[in,out] row  the one before; all zero at first
 *  @return whether there is one */
bool estimate_next_sharding (const struct estimate_report *report, struct estimate_sharding *row);

/* ---- show.c ---- */

#define ESTIMATE_STORED "as stored" /* instead of a type: of a quantized model */

/** @return how many rows loading and inference have: one for each type, and one more for quantized models */
size_t estimate_kinds (const struct estimate_report *report);

struct estimate_inference {
    const char *dtype;
    double weights, cache; /* bytes */
};

/** What inference needs. @param number  below estimate_kinds() */
int estimate_infer (const struct estimate_report *report, size_t number, struct estimate_inference *needs,
                    struct fail *fail);

/** Append a size as Accelerate writes it: "413.18 MB". @param is_whole  a number of bytes is an integer */
void estimate_show_bytes (struct strbuf *out, double bytes, bool is_whole);

/** Append the tables, or one JSON object. @{ */
int estimate_show (const struct estimate_report *report, struct strbuf *out, struct fail *fail);
int estimate_show_json (const struct estimate_report *report, struct strbuf *out, struct fail *fail);
/** @} */

/** The types of --dtypes. @return how often their elements fit into one of float32 */
unsigned estimate_divisor (const char *dtype);

/** @return bytes for training with Adam as Accelerate estimates them from the size with float32; 0: not possible */
uint64_t estimate_adam (uint64_t total, const char *dtype);

#endif
