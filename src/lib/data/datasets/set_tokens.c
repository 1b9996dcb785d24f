/* SPDX-License-Identifier: Apache-2.0 */
/* Files of tokens, as nanoGPT and llm.c write them, and the data set of one of them; see set_tokens.h. */
#include <config.h>

#include "lib/data/datasets/set_tokens.h"

#include "lib/base/error.h"

#include <string.h>

/* Tokens are converted through this much stack; 8 KiB are 4096 16-bit tokens, a long sequence. */
enum { CHUNK_BYTES = 8192 };

/* llm.c's dev/data/data_common.py: magic, version and token type of the two kinds, then the number of tokens. */
enum { LLMC_HEADER_BYTES = 256 * 4 };
static const struct {
    int32_t magic, version;
    enum accel_token_format format;
} llmc_kinds[] = {
    { 20240520, 1, ACCEL_TOKENS_UINT16 },
    { 20240801, 7, ACCEL_TOKENS_UINT32 },
};

static const size_t token_bytes[] = { [ACCEL_TOKENS_UINT16] = 2, [ACCEL_TOKENS_UINT32] = 4, [ACCEL_TOKENS_INT32] = 4,
                                      [ACCEL_TOKENS_INT64] = 8, [ACCEL_TOKENS_UINT8] = 1 };

/* Convert @p count tokens.  @return not 0 if some token did not fit */
#define CONVERTER(name, from_type, into_type)                                 \
    static uint64_t                                                           \
    name (const unsigned char *from, unsigned char *into, size_t count)       \
    {                                                                         \
        uint64_t lost = 0;                                                    \
        for (size_t i = 0; i < count; i++) {                                  \
            from_type token;                                                  \
            into_type value;                                                  \
            memcpy (&token, from + i * sizeof token, sizeof token);           \
            value = (into_type) token;                                        \
            lost |= (uint64_t) (int64_t) value ^ (uint64_t) (int64_t) token;  \
            memcpy (into + i * sizeof value, &value, sizeof value);           \
        }                                                                     \
        return lost;                                                          \
    }
CONVERTER (uint16_to_int32, uint16_t, int32_t)
CONVERTER (uint32_to_int32, uint32_t, int32_t)
CONVERTER (int32_to_int32, int32_t, int32_t)
CONVERTER (int64_to_int32, int64_t, int32_t)
CONVERTER (uint8_to_int32, uint8_t, int32_t)
CONVERTER (uint16_to_int64, uint16_t, int64_t)
CONVERTER (uint32_to_int64, uint32_t, int64_t)
CONVERTER (int32_to_int64, int32_t, int64_t)
CONVERTER (int64_to_int64, int64_t, int64_t)
CONVERTER (uint8_to_int64, uint8_t, int64_t)

static uint64_t (*const converters[2][5]) (const unsigned char *from, unsigned char *into, size_t count) = {
    { uint16_to_int32, uint32_to_int32, int32_to_int32, int64_to_int32, uint8_to_int32 },
    { uint16_to_int64, uint32_to_int64, int32_to_int64, int64_to_int64, uint8_to_int64 },
};

/* Refuse tokens that are not below vocab_size.  @param values  [count], int32 or int64 */
static enum accel_status
check_tokens (const struct source *source, const struct accel_tokens_options *options, const void *values, size_t count,
              struct accel_error *err)
{
    for (size_t i = 0; i < count && options->vocab_size; i++) {
        int64_t token = options->int64 ? ((const int64_t *) values)[i] : ((const int32_t *) values)[i];
        if ((uint64_t) token >= options->vocab_size)
            return accel_fail (err, ACCEL_ERR_FORMAT, "%s: token %lld, but vocab_size is %llu", source->path,
                               (long long) token, (unsigned long long) options->vocab_size);
    }
    return ACCEL_OK;
}

enum accel_status
tokens_read (const struct source *source, const struct token_layout *layout, const struct accel_tokens_options *options,
             uint64_t token, size_t from, size_t count, void *const *into, struct accel_error *err)
{
    unsigned char chunk[CHUNK_BYTES];
    size_t most = sizeof chunk / layout->token_bytes, grown = options->int64 ? 8 : 4, end = from + count;
    for (size_t done = from, now; done < end; done += now, token += now) {
        now = end - done < most ? end - done : most;
        size_t inputs = now, skip = !done;
        unsigned char *input = (unsigned char *) into[0] + done * grown, *label = NULL;
        uint64_t lost;
        enum accel_status status = source_read (source, layout->first_token + token * layout->token_bytes, chunk,
                                                now * layout->token_bytes, err);
        if (status)
            return status;
        if (inputs > options->sequence_length - done)
            inputs = options->sequence_length - done; /* the very last token is a label only */
        lost = converters[options->int64][layout->format] (chunk, input, inputs);
        if (options->labels) {
            label = (unsigned char *) into[1] + (done + skip - 1) * grown;
            lost |= converters[options->int64][layout->format] (chunk + skip * layout->token_bytes, label, now - skip);
        }
        if (lost)
            return accel_fail (err, ACCEL_ERR_FORMAT, "%s: a token between %llu and %llu does not fit in int32; is the "
                               "token format right?", source->path, (unsigned long long) token,
                               (unsigned long long) token + now - 1);
        if ((status = check_tokens (source, options, input, inputs, err))
            || (label && (status = check_tokens (source, options, label, now - skip, err))))
            return status;
    }
    return ACCEL_OK;
}

static enum accel_status
read_sequence (void *user, size_t index, void *const *into, struct accel_error *err)
{
    const struct set *set = user;
    const struct accel_tokens_options *options = &set->tokens;
    enum accel_status status = set_check_index (set, index, err);
    return status ? status
                  : tokens_read (&set->sources[0], &set->layout, options, (uint64_t) index * options->stride, 0,
                                 options->sequence_length + options->labels, into, err);
}

enum accel_status
tokens_read_many (void *user, const int64_t *indices, size_t count, void *const *into, struct accel_error *err)
{
    const struct set *set = user;
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; i < count && !status; i++) {
        void *row[2] = { (unsigned char *) into[0] + i * set->tables[0].row_bytes, NULL };
        if (set->tokens.labels)
            row[1] = (unsigned char *) into[1] + i * set->tables[1].row_bytes;
        status = indices[i] < 0 ? set_check_index (set, (uint64_t) indices[i], err)
                                : set->dataset.read (user, (size_t) indices[i], row, err);
    }
    return status;
}

static enum accel_status
read_llmc_header (const struct source *source, struct token_layout *layout, struct accel_error *err)
{
    int32_t header[3];
    if (source->size < LLMC_HEADER_BYTES)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: not an llm.c token file: shorter than its header of %d bytes",
                           source->path, LLMC_HEADER_BYTES);
    enum accel_status status = source_read (source, 0, header, sizeof header, err);
    if (status)
        return status;
    for (size_t i = 0; i < sizeof llmc_kinds / sizeof *llmc_kinds; i++)
        if (header[0] == llmc_kinds[i].magic) {
            if (header[1] != llmc_kinds[i].version)
                return accel_fail (err, ACCEL_ERR_FORMAT,
                                   "%s: llm.c token file of version %d; only version %d is supported", source->path,
                                   header[1], llmc_kinds[i].version);
            /* What llm.c declares as int32 it reads so, too. */
            if (header[2] < 0)
                return accel_fail (err, ACCEL_ERR_FORMAT, "%s: invalid header: %d tokens", source->path, header[2]);
            *layout = (struct token_layout){ .format = llmc_kinds[i].format,
                                             .first_token = LLMC_HEADER_BYTES,
                                             .count = (uint64_t) header[2] };
            return ACCEL_OK;
        }
    return accel_fail (err, ACCEL_ERR_FORMAT, "%s: not an llm.c token file: starts with %d, not %d or %d", source->path,
                       header[0], llmc_kinds[0].magic, llmc_kinds[1].magic);
}

enum accel_status
tokens_measure (const struct source *source, const struct accel_tokens_options *options, struct token_layout *layout,
                struct accel_error *err)
{
    bool has_header = options->format == ACCEL_TOKENS_LLMC;
    *layout = (struct token_layout){ .format = options->format, .first_token = options->header_bytes };
    enum accel_status status = has_header ? read_llmc_header (source, layout, err) : ACCEL_OK;
    if (status)
        return status;
    if (source->size < layout->first_token)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: has %llu bytes, less than its header of %llu", source->path,
                           (unsigned long long) source->size, (unsigned long long) layout->first_token);
    uint64_t bytes = source->size - layout->first_token, said = layout->count;
    layout->token_bytes = token_bytes[layout->format];
    layout->count = bytes / layout->token_bytes;
    if (bytes % layout->token_bytes)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: %llu bytes are not a whole number of tokens of %zu bytes",
                           source->path, (unsigned long long) bytes, layout->token_bytes);
    if (has_header && layout->count != said)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: its header says %llu tokens, but the file has %llu",
                           source->path, (unsigned long long) said, (unsigned long long) layout->count);
    return ACCEL_OK;
}

static enum accel_status
check_options (const struct accel_tokens_options *options, struct accel_error *err)
{
    if (!options || !options->sequence_length)
        return accel_fail (err, ACCEL_ERR_INVALID, "a data set of tokens needs a sequence_length");
    if ((unsigned) options->format > ACCEL_TOKENS_LLMC)
        return accel_fail (err, ACCEL_ERR_INVALID, "invalid accel_token_format %d", (int) options->format);
    if (options->format == ACCEL_TOKENS_LLMC && options->header_bytes)
        return accel_fail (err, ACCEL_ERR_INVALID, "llm.c files have a header of %d bytes; leave header_bytes at 0",
                           LLMC_HEADER_BYTES);
    if (options->sequence_length > INT64_MAX / 16)
        return accel_fail (err, ACCEL_ERR_INVALID, "sequence_length %zu is too large: size overflows",
                           options->sequence_length);
    return ACCEL_OK;
}

static enum accel_status
describe (struct set *set, struct accel_error *err)
{
    static const char *const names[] = { "input_ids", "labels" };
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; i < set->dataset.field_count && !status; i++) {
        struct accel_field field = { .name = names[i],
                                     .dtype = set->tokens.int64 ? ACCEL_INT64 : ACCEL_INT32,
                                     .ndim = 1,
                                     .shape = { (int64_t) set->tokens.sequence_length } };
        status = set_describe (set, i, &field, err);
    }
    return status;
}

enum accel_status
tokens_create (struct set **result, const struct accel_tokens_options *options, struct accel_error *err)
{
    struct set *set;
    enum accel_status status = check_options (options, err);
    if (status || (status = set_create (&set, options->labels ? 2 : 1, err)))
        return status;
    set->tokens = *options;
    if (!set->tokens.stride)
        set->tokens.stride = options->sequence_length;
    set->dataset.read = read_sequence;
    set->dataset.read_many = tokens_read_many;
    status = describe (set, err);
    if (status)
        return set_abandon (set, status);
    *result = set;
    return ACCEL_OK;
}

uint64_t
tokens_samples (const struct accel_tokens_options *options, uint64_t count)
{
    uint64_t wanted = (uint64_t) options->sequence_length + options->labels;
    return count >= wanted ? (count - wanted) / options->stride + 1 : 0;
}

enum accel_status
tokens_open_file (struct set *set, const char *path, struct accel_error *err)
{
    struct source *source = &set->sources[0];
    enum accel_status status = source_open (source, path, err);
    if (!status)
        status = tokens_measure (source, &set->tokens, &set->layout, err);
    if (!status && set->tokens.mapped)
        status = source_map (source, err);
    if (!status)
        set->dataset.size = (size_t) tokens_samples (&set->tokens, set->layout.count);
    return status;
}
