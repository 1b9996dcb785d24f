/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzer of the hub's answers about a model, and of URLs and names. */
#include <config.h>

#include "hub/hub.h"
#include "tests/fuzz/target.h"

#include <assert.h>

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    struct hub_model model = { 0 };
    struct fail fail = { 0 };
    struct http_response response = { 0 };
    strbuf_add_bytes (&response.body, data, size);
    if (hub_model_parse (&model, &response, &fail))
        assert (*fail.text && !strchr (fail.text, '\n'));
    http_response_release (&response);
    hub_model_release (&model);

    char *text = malloc (size + 1);
    struct strbuf shown = { 0 }, encoded = { 0 };
    if (!text)
        return 0;
    if (size)
        memcpy (text, data, size);
    text[size] = '\0';
    if (hub_is_name (text))
        assert (!strstr (text, "..") && *text != '/' && !text[strcspn (text, " ?#%\\:@")]);
    http_show_url (&shown, text);
    if (http_same_origin (text, text) && shown.text)
        assert (!strchr (shown.text, '?') && !strchr (shown.text, '#'));
    http_encode (&encoded, text, false);
    assert (!encoded.text || !encoded.text[strcspn (encoded.text, " /?#&=\n")]);
    strbuf_release (&shown);
    strbuf_release (&encoded);
    free (text);
    return 0;
}
