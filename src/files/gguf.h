/* SPDX-License-Identifier: Apache-2.0 */
/* The header of GGUF files, versions 2 and 3 (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): metadata, and
 * the names, types and shapes of the tensors.  The data are not touched. */
#ifndef FILES_GGUF_H
#define FILES_GGUF_H

#include <accel/base.h>

enum { GGUF_MAX_HEADER = 268435456 }; /* bytes; vocabularies take the most, some 10 MB */

struct gguf_tensor {
    char *name;
    uint64_t elements;
    uint64_t bytes;
    uint64_t offset; /* bytes, in the data */
};

enum { GGUF_MOST_LAYERS = 1024 }; /* of which lists are kept */

/** Sizes of the model, from its metadata; 0: missing.  Of a list with a value for each layer, the largest. */
struct gguf_facts {
    char architecture[32]; /* "llama" */
    uint64_t layers, embedding, heads, kv_heads, key_length, value_length;
    uint64_t window;      /* tokens that layers with a window keep */
    uint64_t pattern;     /* the last of so many layers keeps all */
    bool has_window, has_pattern;
    uint64_t window_key_length, window_value_length; /* of layers with a window */
    uint64_t latent_key_length, latent_value_length; /* of heads that are made from one latent vector for all of them */
    uint64_t shared_layers;  /* the last ones, which use the keys and values of earlier ones */
    uint64_t predicting;     /* the last of the layers, which predict further tokens */
    uint64_t interval;       /* of layers with keys and values */
    uint32_t kv_heads_of[GGUF_MOST_LAYERS]; /* [kv_heads_listed] if it is a list */
    bool windows[GGUF_MOST_LAYERS];         /* [windows_listed] whether the layer has one */
    uint32_t kv_heads_listed, windows_listed;
};

/** All zero is empty. */
struct gguf {
    struct gguf_tensor *tensors; /* [count] in the order of the file */
    size_t count;
    struct gguf_facts facts;
    uint64_t end; /* bytes that the file must have */
    /* One of several files of a model; from its metadata, 0 if it is missing. */
    uint64_t split_count, split_number; /* 0 is the first */
    uint64_t split_tensors;             /* of all files */
};

/**
 * Read a header from the beginning of a file.
 *
 * @param bytes       [length] the first bytes of the file, or all of it
 * @param[out] is_short  true with a failure: there must be more bytes, so try again with more
 */
enum accel_status gguf_parse (struct gguf *gguf, const void *bytes, size_t length, bool *is_short,
                              struct accel_error *err);

/** @return whether @p bytes begin as a GGUF file does. */
bool gguf_is (const void *bytes, size_t length);

/** Also after gguf_parse() failed. */
void gguf_release (struct gguf *gguf);

#endif
