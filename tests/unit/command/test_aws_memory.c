/* SPDX-License-Identifier: Apache-2.0 */
/* What src/aws/ leaves in memory: no block and no secret, whichever allocation fails; and nothing for core files. */
#include <config.h>

#include "aws/endpoint.h"
#include "aws/request.h"
#include "aws/xml.h"
#include "tests/balance.h"
#include "tests/scratch.h"
#include "tests/tap.h"

#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>

#define SECRET "SECRETKEY"

static const char config_text[] =
    "# a comment\n[profile plain]\naws_access_key_id = A\naws_secret_access_key = " SECRET "\naws_session_token = T\n"
    "[profile long]\naws_access_key_id = A\naws_secret_access_key =\n  " SECRET "\n"
    "[profile wrapped]\naws_secret_access_key = " SECRET "\n  " SECRET "\n"
    "[profile half]\naws_access_key_id = A\n"
    "[profile loop]\nrole_arn = arn:x\nsource_profile = loop2\n"
    "[profile loop2]\nrole_arn = arn:x\nsource_profile = loop\n"
    "[profile byenv]\nrole_arn = arn:x\ncredential_source = Environment\n"
    "[profile program]\ncredential_process = cat answe\\r\n"
    "[profile quoted]\ncredential_process = sh -c 'test \"$1$2\" = \"a\\\"b\\\\c\\dx y\" && cat answer' x"
    " \"a\\\"b\\\\c\\d\"'x y' \"\"\n"
    "[profile words]\ncredential_process = 'sh' -c \"exit \\7\"\n"
    "[profile slow]\ncredential_process = sh -c \"sleep 0.3; cat answer; exec >&-; sleep 0.1\"\n"
    "[profile sso]\nsso_session = corp\nsso_account_id = 1\nsso_role_name = b\n"
    "[sso-session corp]\nsso_start_url = https://x\nsso_region = a\n"
    "[profile other]\nsso_session = other\nsso_account_id = 1\nsso_role_name = b\n"
    "[sso-session other]\nsso_start_url = https://x\nsso_region = a\n"
    "[profile box]\nservices = s\n[services s]\nsagemaker =\n  endpoint_url = http://h/\n  other = " SECRET "\n";

static int
attempt_parse (const char *text, struct fail *fail)
{
    struct profiles profiles;
    memset (&profiles, 0x55, sizeof profiles);
    int result = profiles_parse (&profiles, "f", text, strlen (text), false, fail);
    profiles_release (&profiles);
    return result;
}

static int
attempt_file (const char *path, struct fail *fail)
{
    struct profiles profiles;
    memset (&profiles, 0x55, sizeof profiles); /* a failure leaves it empty, too */
    int result = profiles_read (&profiles, path, false, fail);
    profiles_release (&profiles);
    return result;
}

static int
attempt_xml (const char *value, struct fail *fail)
{
    char text[800];
    size_t length = (size_t) snprintf (text, sizeof text, "<?xml?>\n<a> <k> %s </k><t>x&amp;y<![CDATA[z]]></t>", value);
    for (int i = 0; i < 70; i++, length += strlen ("<b/>"))
        memcpy (text + length, "<b/>", strlen ("<b/>") + 1);
    strcpy (text + length, "</a>\n");
    struct aws_xml *xml = xml_parse (text, strlen (text), fail);
    int result = !xml ? -1 : strcmp (aws_xml_get (xml, "k"), value);
    aws_xml_free (xml);
    return result;
}

static int
attempt_json (const char *text, struct fail *fail)
{
    struct keys keys = { 0 };
    json_t *json = json_loads (text, 0, NULL);
    int result = keys_from_json (&keys, json, &keys_names_process, fail);
    json_decref (json);
    if (result && keys.access_key)
        return 0; /* a failure leaves none */
    keys_release (&keys);
    return result;
}

static int
attempt_keys (const char *profile, struct fail *fail)
{
    struct aws_options options = { .profile = profile, .http.stop_fd = -1 };
    struct aws *aws;
    int result = aws_open (&aws, &options, fail);
    if (!result)
        result = aws_find_credentials (aws, fail);
    if (!result && (strcmp (aws->keys.access_key, "A") || strcmp (aws->keys.secret_key, SECRET) || !*aws_source (aws)))
        result = 1;
    aws_close (aws);
    return result;
}

static int
attempt_given (const char *token, struct fail *fail)
{
    struct aws_options options = { .profile = "plain", .region = "eu-west-1", .access_key = "A", .secret_key = SECRET,
                                   .session_token = token, .http.stop_fd = -1 };
    struct aws *aws;
    int result = aws_open (&aws, &options, fail);
    if (!result)
        result = aws_find_credentials (aws, fail);
    aws_close (aws);
    return result;
}

/* @param bucket  NULL: a service's place */
static int
attempt_place (const char *bucket, struct fail *fail)
{
    struct aws_options options = { .profile = bucket ? "plain" : "box", .region = "eu-west-1", .http.stop_fd = -1 };
    struct strbuf url = { 0 };
    struct aws *aws;
    int result = aws_open (&aws, &options, fail);
    if (!result)
        result = bucket ? endpoint_bucket (aws, bucket, &url, fail) : aws_endpoint (aws, AWS_SAGEMAKER, &url, fail);
    strbuf_release (&url);
    aws_close (aws);
    return result;
}

static int
attempt_nowhere (const char *bucket, struct fail *fail)
{
    struct aws_options options = { .profile = "plain", .http.stop_fd = -1 };
    struct strbuf url = { 0 };
    struct aws *aws;
    int result = aws_open (&aws, &options, fail);
    if (!result)
        result = bucket ? endpoint_bucket (aws, bucket, &url, fail) : aws_endpoint (aws, AWS_LOGS, &url, fail);
    strbuf_release (&url);
    aws_close (aws);
    return result;
}

static int
attempt_body (const char *value, struct fail *fail)
{
    const char *const pairs[][2] = { { "A", value }, { "B", value } };
    struct strbuf body = { 0 };
    int result = request_query_body (&body, AWS_STS, "X", pairs, 2, fail);
    strbuf_release (&body);
    return result;
}

static const struct attempt {
    const char *name;
    int (*call) (const char *argument, struct fail *fail);
    const char *argument;
    const char *text; /* of its failure; NULL: it succeeds */
} attempts[] = {
    { "a text of profiles", attempt_parse, config_text, NULL },
    { "a wrong text of profiles", attempt_parse, "[a]\nk = 1\n  2\n[", "f:4: a section has no ']'" },
    { "a file of profiles", attempt_file, "config", NULL },
    { "XML", attempt_xml, SECRET, NULL },
    { "JSON", attempt_json, "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"" SECRET "\",\"SessionToken\":\"T\"}", NULL },
    { "JSON with a wrong time", attempt_json,
      "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"" SECRET "\",\"Expiration\":1}",
      "'Expiration' is not a valid time" },
    { "keys of a file", attempt_keys, "plain", NULL },
    { "a key on a line of its own", attempt_keys, "long", NULL },
    { "half a key", attempt_keys, "half",
      "config: AWS profile 'half' has aws_access_key_id, but no aws_secret_access_key" },
    { "no profile", attempt_keys, "none",
      "no AWS profile 'none' in config or /nowhere/credentials: 'aws configure --profile NAME' adds one" },
    { "a circle", attempt_keys, "loop",
      "AWS profile 'loop': AWS profile 'loop2': source_profile leads back to 'loop'" },
    { "no variables", attempt_keys, "byenv", "AWS profile 'byenv': there are no credentials to assume the role with" },
    { "a program", attempt_keys, "program", NULL },
    { "a program with words in quotes", attempt_keys, "quoted", NULL },
    { "a program that fails", attempt_keys, "words",
      "AWS profile 'words' (credential_process): credential_process sh failed with status 7" },
    { "no session", attempt_keys, "sso",
      "AWS profile 'sso' (IAM Identity Center): not logged in; run: aws sso login --profile sso" },
    { "a file that is not a session", attempt_keys, "other",
      "AWS profile 'other' (IAM Identity Center): ./.aws/sso/cache/d0941e68da8f38151ff86a61fc59f7c5cf9fcaa2.json is "
      "not a session of 'aws sso login'" },
    { "keys of the caller", attempt_given, NULL, NULL },
    { "with a token", attempt_given, "T", NULL },
    { "a service's place", attempt_place, NULL, NULL },
    { "a bucket's place", attempt_place, "b", NULL },
    { "a bucket's place with dots", attempt_place, "b.c", NULL },
    { "no region", attempt_nowhere, NULL, "no AWS region: set AWS_REGION, or 'region' in the AWS profile 'plain'" },
    { "no region of a bucket", attempt_nowhere, "b",
      "no AWS region: set AWS_REGION, or 'region' in the AWS profile 'plain'" },
    { "nor of one with dots", attempt_nowhere, "b.c",
      "no AWS region: set AWS_REGION, or 'region' in the AWS profile 'plain'" },
    { "parameters", attempt_body, "a/long/value/of/more/than/the/64/bytes/that/a/text/has/when/it/begins", NULL },
};

/* Each allocation fails once: then this is what the message says. However it ends, it leaves no block and no secret. */
static void
test_attempt (const struct attempt *attempt)
{
    struct fail fail = { 0 };
    long before = blocks, calls = 0;
    bool was_met = true, good = true;
    ok (attempt->call (attempt->argument, &fail) == (attempt->text ? -1 : 0), "%s", attempt->name);
    is_text (fail.text, attempt->text ? attempt->text : "", "and what it says");
    ok (fail.status == (attempt->text ? FAIL_GENERAL : 0), "with status %d", fail.status);
    ok (blocks == before && !secrets_freed, "it leaves nothing: %ld blocks, %ld secrets", blocks - before,
        (long) secrets_freed);
    for (; was_met; calls++) {
        fail = (struct fail){ 0 };
        calls_left = calls;
        int result = attempt->call (attempt->argument, &fail);
        was_met = calls_left < 0;
        calls_left = -1;
        bool is_told = result == -1 && fail.status == FAIL_GENERAL
                       && (strstr (fail.text, "out of memory") || strstr (fail.text, "annot allocate memory"));
        if (was_met && !is_told)
            diag ("allocation %ld: %d, status %d: %s", calls, result, fail.status, fail.text);
        good = good && (!was_met || is_told) && blocks == before && !secrets_freed;
    }
    ok (good && calls > 1, "nor does it if one of %ld allocations fails: %ld blocks, %ld secrets", calls - 1,
        blocks - before, (long) secrets_freed);
    secrets_freed = 0;
}

/* No process may read the memory while there are keys in it; afterwards, all is as before. */
static void
test_dumps (void)
{
    struct aws_options options = { .region = "eu-west-1", .http.stop_fd = -1 };
    struct aws *aws;
    struct rlimit before, during, after;
    getrlimit (RLIMIT_CORE, &before);
    before.rlim_cur = before.rlim_max;
    setrlimit (RLIMIT_CORE, &before);
    prctl (PR_SET_DUMPABLE, 1L);
    if (aws_open (&aws, &options, NULL))
        exit (99);
    getrlimit (RLIMIT_CORE, &during);
    ok (!prctl (PR_GET_DUMPABLE) && !during.rlim_cur, "no core file while there are keys");
    aws_close (aws);
    getrlimit (RLIMIT_CORE, &after);
    ok (prctl (PR_GET_DUMPABLE) == 1 && after.rlim_cur == before.rlim_cur, "one as before without");
    prctl (PR_SET_DUMPABLE, 0L);
    if (aws_open (&aws, &options, NULL))
        exit (99);
    aws_close (aws);
    ok (!prctl (PR_GET_DUMPABLE), "none if there was none before");
    prctl (PR_SET_DUMPABLE, 1L);
}

static volatile sig_atomic_t ticks;

static void
tick (int number)
{
    (void) number;
    if (++ticks == 3000) /* a minute */
        _exit (98);
}

/* Signals that interrupt calls while a program works. */
static void
test_interrupted (void)
{
    struct sigaction action = { .sa_handler = tick };
    struct itimerval often = { { 0, 20000 }, { 0, 20000 } }, never = { 0 };
    struct fail fail = { 0 };
    sigaction (SIGALRM, &action, NULL);
    setitimer (ITIMER_REAL, &often, NULL);
    int result = attempt_keys ("slow", &fail);
    setitimer (ITIMER_REAL, &never, NULL);
    ok (!result && ticks, "a slow program, and signals: %s", fail.text);
}

int
main (void)
{
    scratch_enter ();
    clearenv ();
    setenv ("PATH", "/usr/local/bin:/usr/bin:/bin", 1);
    scratch_write ("config", config_text);
    scratch_write ("answer", "{\"Version\":1,\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"" SECRET "\"}");
    if (mkdir (".aws", 0777) || mkdir (".aws/sso", 0777) || mkdir (".aws/sso/cache", 0777))
        exit (99);
    scratch_write (".aws/sso/cache/d0941e68da8f38151ff86a61fc59f7c5cf9fcaa2.json", "{}"); /* of "other" */
    setenv ("AWS_CONFIG_FILE", "config", 1);
    setenv ("AWS_SHARED_CREDENTIALS_FILE", "/nowhere/credentials", 1);
    setenv ("HOME", ".", 1);
    setenv ("AWS_EC2_METADATA_DISABLED", "true", 1);
    secret = SECRET;
    for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++)
        test_attempt (&attempts[i]);
    secret = NULL;
    test_interrupted ();
    test_dumps ();
    return done_testing ();
}
