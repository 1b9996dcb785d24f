/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzer of the rules of .gitignore. The first line is a path below the folder, the others are rules. */
#include <config.h>

#include "sagemaker/ignore.h"
#include "tests/fuzz/target.h"

#include <assert.h>

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    struct ignore ignore = { 0 };
    AUTO_STRBUF struct strbuf path = { 0 }, root = { 0 };
    AUTO_FREE char *text = strndup ((const char *) data, size), *again = strndup ((const char *) data, size);
    size_t first = strcspn (text, "\n");
    strbuf_add (&path, "/work/");
    strbuf_add_bytes (&path, text, first);
    char *rules = text + first + (text[first] != '\0'), *same = again + first + (text[first] != '\0');
    assert (!ignore_add (&ignore, "/work", rules));
    size_t count = ignore.count;
    bool is_file = ignore_matches (&ignore, path.text, false), is_folder = ignore_matches (&ignore, path.text, true);
    assert (!ignore_matches (&ignore, "/other/a", false) && count <= size);
    /* Rules of a folder that the path is not in change nothing; the same rules again neither. */
    assert (!ignore_add (&ignore, "/work-elsewhere", same));
    assert (ignore_matches (&ignore, path.text, false) == is_file);
    ignore_truncate (&ignore, count);
    assert (ignore.count == count && ignore_matches (&ignore, path.text, true) == is_folder);
    ignore_truncate (&ignore, 0);
    assert (!ignore.rules && !ignore_matches (&ignore, path.text, false));
    /* Of the root of all folders, they are those of each folder. */
    strbuf_add_bytes (&root, path.text + strlen ("/work"), path.length - strlen ("/work"));
    AUTO_FREE char *third = strndup ((const char *) data, size);
    assert (!ignore_add (&ignore, "/", third + first + (text[first] != '\0')));
    assert (ignore_matches (&ignore, root.text, false) == is_file);
    ignore_truncate (&ignore, 0);
    return 0;
}
