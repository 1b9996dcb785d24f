/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzer of DeepSpeed's configuration files: what is understood is within its limits, and the same if the text comes in
 * base64.  An input that does not begin with a brace gets one, because other names are those of files. */
#include <config.h>

#include "files/deepspeed.h"
#include "tests/fuzz/target.h"
#include "util/base64.h"

#include <float.h>

static void
check_values (const struct deepspeed_file *file)
{
    static const double most[DEEPSPEED_KEYS] = {
        [DEEPSPEED_STAGE] = 3,        [DEEPSPEED_OPTIMIZER_DEVICE] = DEEPSPEED_NVME,
        [DEEPSPEED_PARAM_DEVICE] = DEEPSPEED_NVME, [DEEPSPEED_MAX_LIVE] = 9e15, [DEEPSPEED_PERSISTENCE] = 9e15,
        [DEEPSPEED_STEPS] = UINT32_MAX, [DEEPSPEED_CLIPPING] = DBL_MAX, [DEEPSPEED_FP16] = 1, [DEEPSPEED_BF16] = 1,
    };
    must (file->is_read);
    for (size_t i = 0; i < DEEPSPEED_KEYS; i++) {
        const struct deepspeed_value *value = &file->values[i];
        bool may_lack_text = i == DEEPSPEED_FP16 || i == DEEPSPEED_BF16;
        must (value->number >= 0 && value->number <= most[i]);
        must (value->is == DEEPSPEED_SET || value->number == 0);
        must (value->is == DEEPSPEED_ABSENT ? !value->text : may_lack_text || value->text);
        must (i == DEEPSPEED_CLIPPING || (double) (int64_t) value->number == value->number);
    }
    const struct deepspeed_value *steps = &file->values[DEEPSPEED_STEPS];
    must (steps->is != DEEPSPEED_SET || steps->number >= 1);
}

/* @return its status */
static enum accel_status
read_text (struct deepspeed_file *file, const char *text)
{
    struct accel_error err = { 0 };
    enum accel_status status = deepspeed_read (file, text, &err);
    if (status)
        fuzz_check_error (&err);
    else
        check_values (file);
    return status;
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    struct deepspeed_file plain, encoded;
    AUTO_STRBUF struct strbuf text = { 0 }, base64 = { 0 };
    strbuf_add (&text, size && data[0] == '{' ? "" : "{");
    strbuf_add_bytes (&text, (const char *) data, size);
    must (!text.failed);
    base64_add (&base64, text.text, text.length);
    must (!base64.failed);
    enum accel_status status = read_text (&plain, text.text), other = read_text (&encoded, base64.text);
    if (strlen (text.text) == text.length) {
        must (status == other && plain.is_read == encoded.is_read);
        for (size_t i = 0; i < DEEPSPEED_KEYS; i++)
            must (plain.values[i].is == encoded.values[i].is && plain.values[i].number == encoded.values[i].number);
    }
    deepspeed_release (&plain);
    deepspeed_release (&encoded);
    return 0;
}
