/* SPDX-License-Identifier: Apache-2.0 */
/* Calls AWS and prints what came: call [OPTION...] WORD...
 *
 *   keys                           the credentials that are found, and where
 *   region                         the region, its partition and domain
 *   endpoint SERVICE               where calls go to
 *   json SERVICE ACTION JSON       the answer as JSON
 *   query SERVICE ACTION [NAME VALUE]... PATH   the text of the answer's element PATH
 *   identity                       account and ARN
 *   bucket BUCKET ACCOUNT          "new" or "old"
 *   put BUCKET KEY FILE [ACCOUNT ENCRYPTION KMS-KEY]
 *
 * Options: -r REGION, -p PROFILE, -k ACCESS,SECRET[,TOKEN], -n COUNT: calls, each but the first after a line of
 * standard input, -s: end when there is standard input. Prints "error CODE STATUS TROUBLE ATTEMPTS" and exits with 1 if
 * a call fails. */
#include <config.h>

#include "aws/aws.h"
#include "aws/state.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct aws_error error;

static enum aws_service
service_of (const char *name)
{
    static const char *const names[AWS_SERVICES] = { "sagemaker", "logs", "sts", "iam", "s3" };
    for (unsigned i = 0; i < AWS_SERVICES; i++)
        if (!strcmp (names[i], name))
            return (enum aws_service) i;
    fprintf (stderr, "no service %s\n", name);
    exit (2);
}

static int
call_json (struct aws *aws, char **words, struct fail *fail)
{
    json_t *request = json_loads (words[3], 0, NULL), *reply;
    int result = aws_json_call (aws, service_of (words[1]), words[2], request, &reply, &error, fail);
    if (!result) {
        json_dumpf (reply, stdout, JSON_SORT_KEYS | JSON_COMPACT);
        putchar ('\n');
    }
    json_decref (request);
    json_decref (reply);
    return result;
}

static int
call_query (struct aws *aws, int count, char **words, struct fail *fail)
{
    const char *pairs[8][2];
    size_t pair_count = 0;
    struct aws_xml *xml;
    for (int i = 3; i + 1 < count - 1; i += 2, pair_count++) {
        pairs[pair_count][0] = words[i];
        pairs[pair_count][1] = words[i + 1];
    }
    int result = aws_query_call (aws, service_of (words[1]), words[2], pairs, pair_count, &xml, &error, fail);
    if (!result) {
        const char *text = aws_xml_get (xml, words[count - 1]);
        puts (text ? text : "(none)");
    }
    aws_xml_free (xml);
    return result;
}

static int
show_keys (struct aws *aws, struct fail *fail)
{
    if (aws_find_credentials (aws, fail))
        return -1;
    printf ("access %s\nsecret %s\ntoken %s\nexpires %lld\nsource %s\n", aws->keys.access_key, aws->keys.secret_key,
            aws->keys.session_token ? aws->keys.session_token : "(none)", (long long) aws->keys.expires,
            aws_source (aws));
    return 0;
}

static int
show_endpoint (struct aws *aws, const char *name, struct fail *fail)
{
    struct strbuf url = { 0 };
    int result = aws_endpoint (aws, service_of (name), &url, fail);
    if (!result)
        puts (url.text);
    strbuf_release (&url);
    return result;
}

static int
run (struct aws *aws, int count, char **words, struct fail *fail)
{
    const char *account, *arn, *word = words[0];
    bool is_new;
    int result = 0;
    if (!strcmp (word, "json"))
        return call_json (aws, words, fail);
    if (!strcmp (word, "query"))
        return call_query (aws, count, words, fail);
    if (!strcmp (word, "keys"))
        return show_keys (aws, fail);
    if (!strcmp (word, "endpoint"))
        return show_endpoint (aws, words[1], fail);
    if (!strcmp (word, "region")) {
        const char *region = aws_region (aws);
        printf ("%s %s %s\n", region ? region : "(none)", aws_partition (region), aws_domain (region));
    } else if (!strcmp (word, "identity")) {
        result = aws_identity (aws, &account, &arn, fail);
        if (!result)
            printf ("%s %s\n", account, arn);
    } else if (!strcmp (word, "bucket")) {
        result = aws_s3_need_bucket (aws, words[1], words[2], &is_new, fail);
        if (!result)
            puts (is_new ? "new" : "old");
    } else if (!strcmp (word, "put")) {
        struct aws_s3_object object = { .bucket = words[1], .key = words[2], .account = count > 4 ? words[4] : NULL,
                                        .encryption = count > 5 ? words[5] : NULL,
                                        .kms_key = count > 6 ? words[6] : NULL };
        result = aws_s3_put_file (aws, &object, words[3], fail);
    } else {
        fprintf (stderr, "no word %s\n", word);
        exit (2);
    }
    return result;
}

int
main (int argc, char **argv)
{
    struct aws_options options = { .http = { .stop_fd = -1 } };
    struct fail fail = { 0 };
    struct aws *aws;
    char line[64];
    int option, times = 1, result = 0;
    while ((option = getopt (argc, argv, "r:p:k:n:s")) != -1)
        if (option == 'r')
            options.region = optarg;
        else if (option == 'p')
            options.profile = optarg;
        else if (option == 's')
            options.http.stop_fd = STDIN_FILENO;
        else if (option == 'n')
            times = atoi (optarg);
        else if (option == 'k') {
            options.access_key = strtok (optarg, ",");
            options.secret_key = strtok (NULL, ",");
            options.session_token = strtok (NULL, ",");
        } else
            return 2;
    if (aws_open (&aws, &options, &fail)) {
        fprintf (stderr, "%s\n", fail.text);
        return 3;
    }
    for (int i = 0; i < times && !result; i++) {
        fflush (stdout);
        if (i && !fgets (line, sizeof line, stdin))
            break;
        result = run (aws, argc - optind, argv + optind, &fail);
    }
    if (result)
        fprintf (stderr, "%s\nerror %s %d %d %u\n", fail.text, *error.code ? error.code : "-", error.status,
                 (int) error.trouble, error.attempts);
    aws_close (aws);
    return result ? 1 : 0;
}
