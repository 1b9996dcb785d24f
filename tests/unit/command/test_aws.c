/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of src/aws/: profiles, XML, credentials, times, hashes; what errors say; where services are. */
#include <config.h>

#include "aws/answer.h"
#include "aws/endpoint.h"
#include "aws/sha1.h"
#include "aws/source.h"
#include "aws/when.h"
#include "aws/xml.h"
#include "tests/tap.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- profiles ---- */

struct profile_case {
    const char *text;
    bool is_credentials;
    enum profiles_kind kind;
    const char *section, *name;
    const char *value; /* NULL: there is none */
};

static const struct profile_case profile_cases[] = {
    { "[default]\nregion = eu-west-1\n", false, PROFILES_PROFILE, "default", "region", "eu-west-1" },
    { "[profile work]\nregion=eu-west-1", false, PROFILES_PROFILE, "work", "region", "eu-west-1" },
    { "[profile work]\nregion=eu-west-1", false, PROFILES_PROFILE, "default", "region", NULL },
    { "[work]\nregion=a\n", false, PROFILES_PROFILE, "work", "region", NULL },
    { "[work]\nregion=a\n", false, PROFILES_OTHER, "work", "region", "a" },
    { "[work]\nregion=a\n", true, PROFILES_PROFILE, "work", "region", "a" },
    { "[profile work]\nregion=a\n", true, PROFILES_PROFILE, "profile work", "region", "a" },
    { "[profile \"my work\"]\nregion=a\n", false, PROFILES_PROFILE, "my work", "region", "a" },
    { "[profile 'my work']\nregion=a\n", false, PROFILES_PROFILE, "my work", "region", "a" },
    { "[ profile   work ] # mine\nregion=a\n", false, PROFILES_PROFILE, "work", "region", "a" },
    { "[profile default]\nregion=a\n", false, PROFILES_PROFILE, "default", "region", "a" },
    { "[profiles]\nregion=a\n", false, PROFILES_OTHER, "profiles", "region", "a" },
    { "[sso-session s]\nsso_region = a\n", false, PROFILES_SSO_SESSION, "s", "sso_region", "a" },
    { "[services s]\ns3 =\n  endpoint_url = http://h\nsts =\n\tendpoint_url=http://i\n", false, PROFILES_SERVICES, "s",
      "sts.endpoint_url", "http://i" },
    { "[services s]\ns3 =\n  endpoint_url = http://h\nsts =\n\tendpoint_url=http://i\n", false, PROFILES_SERVICES, "s",
      "s3.endpoint_url", "http://h" },
    { "[a]\nRole_ARN = arn:aws:iam::1:role/x\n", true, PROFILES_PROFILE, "a", "role_arn", "arn:aws:iam::1:role/x" },
    { "[a]\nregion: b\n", true, PROFILES_PROFILE, "a", "region", "b" },
    { "[a]\nk = a=b:c\n", true, PROFILES_PROFILE, "a", "k", "a=b:c" },
    { "[a]\nk = 1\n[b]\nk = 2\n[a]\nk = 3\n", true, PROFILES_PROFILE, "a", "k", "3" },
    { "# k = 0\n; k = 1\n\n[a]\n  # k = 2\nk = 3 # 4\n", true, PROFILES_PROFILE, "a", "k", "3 # 4" },
    { "[a]\r\nk = 1\r\n", true, PROFILES_PROFILE, "a", "k", "1" },
    { "\xef\xbb\xbf[a]\nk = 1\n", true, PROFILES_PROFILE, "a", "k", "1" },
    { "[a]\nk = one\n  two\n", true, PROFILES_PROFILE, "a", "k", "one\ntwo" },
    { "[a]\nk =\n", true, PROFILES_PROFILE, "a", "k", "" },
    { "[a]\n  k = 1\n", true, PROFILES_PROFILE, "a", "k", "1" },
    { "[a]\nk\v=\f1\v\n", true, PROFILES_PROFILE, "a", "k", "1" },
    { "[a]\n", true, PROFILES_PROFILE, "a", "", "" },
    { "", true, PROFILES_PROFILE, "a", "", NULL },
};

static const struct { const char *text, *error; } bad_profiles[] = {
    { "k = 1\n", "f:1: expected a '[section]' before the first value" },
    { "[a]\nword\n", "f:2: expected '[section]', 'name = value' or a comment" },
    { "[a]\n= 1\n", "f:2: expected '[section]', 'name = value' or a comment" },
    { "[a\n", "f:1: a section has no ']'" },
    { "[]\n", "f:1: a section has no name" },
    { "[\"\"]\n", "f:1: a section has no name" },
    { "\n[a] b\n", "f:2: unexpected text after a section's ']'" },
};

static void
test_profiles (void)
{
    struct profiles profiles;
    struct fail fail;
    for (size_t i = 0; i < sizeof profile_cases / sizeof *profile_cases; i++) {
        const struct profile_case *c = &profile_cases[i];
        if (!ok (!profiles_parse (&profiles, "f", c->text, strlen (c->text), c->is_credentials, &fail),
                 "profiles %zu are read", i))
            continue;
        is_text (profiles_get (&profiles, c->kind, c->section, c->name), c->value, "and their value");
        profiles_release (&profiles);
    }
    for (size_t i = 0; i < sizeof bad_profiles / sizeof *bad_profiles; i++) {
        ok (profiles_parse (&profiles, "f", bad_profiles[i].text, strlen (bad_profiles[i].text), false, &fail) == -1,
            "wrong profiles %zu are refused", i);
        is_text (fail.text, bad_profiles[i].error, "by line");
    }
    ok (profiles_parse (&profiles, "f", "[a]\nk=\0\n", 8, true, &fail) == -1 && strstr (fail.text,
        "f:2: there is a zero"),
        "a zero byte is refused");
    ok (!profiles_read (&profiles, "/nowhere/at/all", true, &fail) && !profiles.count, "a missing file is empty");
    profiles_release (&profiles);
    ok (profiles_read (&profiles, "/", true, &fail) == -1, "a folder is not a file");
}

/* ---- XML ---- */

static const struct { const char *text, *path, *value; } xml_cases[] = {
    { "<a><b>1</b><c>2</c></a>", "c", "2" },
    { "<a><b>1</b><b>2</b></a>", "b", "1" },
    { "<a><b><c>1</c></b><c>2</c></a>", "c", "2" },
    { "<a><b><c>1</c></b><c>2</c></a>", "b/c", "1" },
    { "<a><b/><c x='>' y=\"/>\" /></a>", "c", "" },
    { "<a><b>1</b></a>", "x", NULL },
    { "<a><b>1</b></a>", "b/c", NULL },
    { "<a><bb>1</bb></a>", "b", NULL },
    { "<?xml version=\"1.0\"?>\n<!-- <x> -->\n<n:a xmlns:n='u'>\n <n:b> 1 </n:b>\n</n:a>\n", "b", "1" },
    { "<a><b>&lt;&gt;&amp;&quot;&apos;&#65;&#x42;&#xe9;&#x20ac;&#x1f600;</b></a>", "b",
      "<>&\"'AB\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80" },
    { "<a><b><![CDATA[<x>&amp;]]>y</b></a>", "b", "<x>&amp;y" },
    { "<a>1</a>", "", "1" },
    { "<a><b> \n </b></a>", "b", "" },
    { "\xef\xbb\xbf<a>1</a >", "", "1" },
};

static const struct { const char *text, *error; } bad_xml[] = {
    { "", "not valid XML: byte 0: there is no element" },
    { "x", "not valid XML: byte 0: text outside of the root element" },
    { "<a>", "not valid XML: byte 3: the end is missing" },
    { "<a></b>", "not valid XML: byte 6: an end tag without its start tag" },
    { "</a>", "not valid XML: byte 3: an end tag without its start tag" },
    { "<a/><b/>", "not valid XML: byte 5: a second root element" },
    { "<a/>x", "not valid XML: byte 4: text outside of the root element" },
    { "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "not valid XML: byte 0: document types are not supported" },
    { "<a>&b;</a>", "not valid XML: byte 3: an unknown entity" },
    { "<a>&#0;</a>", "not valid XML: byte 3: not a valid character reference" },
    { "<a>&#xd800;</a>", "not valid XML: byte 3: not a valid character reference" },
    { "<a>&#x110000;</a>", "not valid XML: byte 3: not a valid character reference" },
    { "<a>&#12a;</a>", "not valid XML: byte 3: not a valid character reference" },
    { "<a>&#27;</a>", "not valid XML: byte 3: not a valid character reference" },
    { "&lt;", "not valid XML: byte 0: text outside of the root element" },
    { "<a b>1</a>", "not valid XML: byte 4: expected '=' after the name of an attribute" },
    { "<a b=c>1</a>", "not valid XML: byte 5: expected the value of an attribute in quotes" },
    { "<a b='c>1</a>", "not valid XML: byte 6: the value of an attribute has no end" },
    { "<a><!-- -></a>", "not valid XML: byte 7: a comment without an end" },
    { "<a><![CDATA[]></a>", "not valid XML: byte 3: a CDATA section without an end" },
    { "<>", "not valid XML: byte 1: expected a name" },
    { "<?xml", "not valid XML: byte 0: an instruction without an end" },
};

static void
test_xml (void)
{
    struct fail fail;
    struct strbuf deep = { 0 };
    for (size_t i = 0; i < sizeof xml_cases / sizeof *xml_cases; i++) {
        struct aws_xml *xml = xml_parse (xml_cases[i].text, strlen (xml_cases[i].text), &fail);
        if (ok (xml != NULL, "XML %zu is read", i))
            is_text (aws_xml_get (xml, xml_cases[i].path), xml_cases[i].value, "and its value");
        aws_xml_free (xml);
    }
    for (size_t i = 0; i < sizeof bad_xml / sizeof *bad_xml; i++) {
        ok (!xml_parse (bad_xml[i].text, strlen (bad_xml[i].text), &fail), "wrong XML %zu is refused", i);
        is_text (fail.text, bad_xml[i].error, "by byte");
    }
    for (int i = 0; i < 33; i++)
        strbuf_add (&deep, "<a>");
    ok (!xml_parse (deep.text, deep.length, &fail) && strstr (fail.text, "too many nested elements"),
        "33 elements in each other are refused");
    strbuf_truncate (&deep, 0);
    strbuf_add (&deep, "<a>");
    for (int i = 0; i < 65536; i++)
        strbuf_add (&deep, "<b/>");
    strbuf_add (&deep, "</a>");
    ok (!xml_parse (deep.text, deep.length, &fail) && strstr (fail.text, "too many elements"),
        "more than 65536 elements are refused");
    ok (!xml_parse ("<a>\0</a>", 8, &fail) && strstr (fail.text, "zero byte"), "a zero byte is refused");
    strbuf_release (&deep);
}

/* ---- small readers ---- */

static void
test_when (void)
{
    static const struct { const char *text; int64_t when; } isos[]
        = { { "2026-11-23T04:40:06Z", 1795408806 }, { "1970-01-01T00:00:01.25Z", 1 }, { "2024-02-29T00:00:00UTC",
            1709164800 },
            { "2024-02-29T00:00:00+00:00", 1709164800 }, { "2026-11-23T04:40:06", -1 }, { "2026-11-23T04:40:06+01:00",
              -1 },
            { "2026-13-23T04:40:06Z", -1 }, { "2026-11-00T04:40:06Z", -1 }, { "2026-11-23T24:40:06Z", -1 },
            { "2026-11-23 04:40:06Z", -1 }, { "", -1 }, { "2026-11-23T04:40:0", -1 }, { "1969-12-31T23:59:59Z", -1 },
            { "2026-11-23T04:40:06Z ", -1 }, { "2016-12-31T23:59:60Z", 1483228800 }, { "2016-12-31T23:59:61Z", -1 },
            { "2016-12-31T23:60:59Z", -1 }, { "2016-12-31T24:00:00Z", -1 }, { "2016-12-32T23:59:59Z", -1 },
            { "2016-01-01T00:00:00Z", 1451606400 }, { "2016-00-01T00:00:00Z", -1 }, { "1970-01-01T00:00:00Z", 0 } };
    static const struct { const char *text; int64_t when; } https[]
        = { { "Mon, 23 Nov 2026 04:40:06 GMT", 1795408806 }, { "Thu, 01 Jan 1970 00:00:01 GMT", 1 },
            { "Mon, 23 Nox 2026 04:40:06 GMT", -1 }, { "Mon, 23 Nov 2026 04:40:06", -1 }, { "", -1 } };
    for (size_t i = 0; i < sizeof isos / sizeof *isos; i++)
        ok (when_iso (isos[i].text) == isos[i].when, "'%s' is %lld", isos[i].text, (long long) isos[i].when);
    for (size_t i = 0; i < sizeof https / sizeof *https; i++)
        ok (when_http (https[i].text) == https[i].when, "'%s' is %lld", https[i].text, (long long) https[i].when);
}

/* FIPS 180-4's examples, and lengths around the end of a block. */
static void
test_sha1 (void)
{
    static const struct { const char *text, *hash; } cases[] = {
        { "", "da39a3ee5e6b4b0d3255bfef95601890afd80709" },
        { "abc", "a9993e364706816aba3e25717850c26c9cd0d89d" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "84983e441c3bd26ebaae4aa1f95129e5e54670f1" },
        { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "c1c8bbdc22796e28c0e15163d20899b65621d65a" },
        { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
          "0098ba824b5c16427bd7a1122a5a442a25ec644d" },
    };
    char hash[SHA1_TEXT];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sha1_text (cases[i].text, strlen (cases[i].text), hash);
        is_text (hash, cases[i].hash, "SHA-1");
    }
}

static const struct { const char *json, *error; int64_t expires; } key_cases[] = {
    { "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"S\"}", NULL, 0 },
    { "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"S\",\"Token\":\"T\",\"Expiration\":\"1970-01-01T00:01:00Z\"}",
      NULL, 60 },
    { "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"S\",\"Expiration\":61999}", NULL, 61 },
    { "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"S\",\"Expiration\":null}", NULL, 0 },
    { "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"S\",\"Expiration\":\"soon\"}", "'Expiration' is not a valid time",
      0 },
    { "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"S\",\"Expiration\":true}", "'Expiration' is not a valid time", 0 },
    { "{\"AccessKeyId\":\"A\"}", "'SecretAccessKey' is missing", 0 },
    { "{\"AccessKeyId\":1,\"SecretAccessKey\":\"S\"}", "'AccessKeyId' is missing", 0 },
    { "{\"AccessKeyId\":\"A b\",\"SecretAccessKey\":\"S\"}",
      "not a valid access key: it is empty, or has blanks or special characters", 0 },
    { "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"\"}",
      "not a valid secret key: it is empty, or has blanks or special characters", 0 },
    { "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"S\",\"Token\":\"a\\r\\nb\"}",
      "not a valid session token: it is empty, or has blanks or special characters", 0 },
};

static void
test_keys (void)
{
    struct fail fail;
    for (size_t i = 0; i < sizeof key_cases / sizeof *key_cases; i++) {
        struct keys keys = { 0 };
        json_t *json = json_loads (key_cases[i].json, 0, NULL);
        int result = keys_from_json (&keys, json, &keys_names_metadata, &fail);
        if (key_cases[i].error) {
            ok (result == -1 && !keys.access_key && !keys.secret_key, "credentials %zu are refused", i);
            is_text (fail.text, key_cases[i].error, "with the reason");
        } else
            ok (!result && keys.expires == key_cases[i].expires, "credentials %zu are read", i);
        keys_release (&keys);
        json_decref (json);
    }
}

static void
test_read_json (void)
{
    static const struct { const char *body, *member, *error; } rows[] = {
        { "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"S\",\"Code\":\"Success\"}", NULL, NULL },
        { "{\"m\":{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"S\"}}", "m", NULL },
        { "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"S\"}", "m", "W: the answer has no object 'm'" },
        { "{\"m\":7}", "m", "W: the answer has no object 'm'" },
        { "{\"Code\":\"Failure\"}", NULL, "W: the answer has the code 'Failure', not 'Success'" },
        { "{\"AccessKeyId\":\"A\"}", NULL, "W: 'SecretAccessKey' is missing" },
        { "[]", NULL, "W: the answer is not a JSON object" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct http_response response = { .status = 200 };
        struct keys keys = { 0 };
        struct fail fail = { 0 };
        strbuf_add (&response.body, rows[i].body);
        ok (source_read_json (&response, &keys_names_metadata, rows[i].member, "W", &keys, &fail)
            == (rows[i].error ? -1 : 0) && !keys.access_key == !!rows[i].error, "answer %zu with credentials", i);
        is_text (fail.text, rows[i].error ? rows[i].error : "", "and what is wrong with it");
        keys_release (&keys);
        http_response_release (&response);
    }
}

/* ---- errors ---- */

struct error_case {
    int status;
    const char *header, *body;
    const char *code;
    const char *text; /* of the message */
    bool is_throttled, is_expired;
};

static const struct error_case error_cases[] = {
    { 400, NULL, "{\"__type\":\"com.amazonaws.sagemaker#ResourceInUse\",\"message\":\"Taken.\"}", "ResourceInUse",
      "sagemaker CreateTrainingJob: ResourceInUse: Taken", false, false },
    { 400, "x-amzn-errortype: ValidationException:http://internal.amazon.com/x/", "{\"Message\":\"No\"}",
      "ValidationException", "sagemaker CreateTrainingJob: ValidationException: No", false, false },
    { 400, NULL, "{\"__type\":\"ThrottlingException\",\"message\":\"Rate exceeded\"}", "ThrottlingException",
      "sagemaker CreateTrainingJob: ThrottlingException: Rate exceeded (tried 5 times)", true, false },
    { 503, NULL, "<Error><Code>SlowDown</Code><Message>Please</Message><RequestId>R</RequestId></Error>", "SlowDown",
      "sagemaker CreateTrainingJob: SlowDown: Please (tried 5 times)", true, false },
    { 403, NULL, "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>User x is not authorized"
      "</Message></Error><RequestId>R</RequestId></ErrorResponse>", "AccessDenied",
      "sagemaker CreateTrainingJob: AccessDenied: User x is not authorized: PLACE needs the permission "
      "sagemaker:CreateTrainingJob", false, false },
    { 400, NULL, "{\"__type\":\"ExpiredTokenException\",\"message\":\"expired\"}", "ExpiredTokenException",
      "sagemaker CreateTrainingJob: ExpiredTokenException: expired: the credentials of PLACE have expired: renew them",
      false, true },
    { 403, NULL, "{\"__type\":\"InvalidSignatureException\",\"message\":\"host:x x-amz-security-token:TOKEN\"}",
      "InvalidSignatureException",
      "sagemaker CreateTrainingJob: InvalidSignatureException: the secret key of PLACE does not belong to its "
      "access key",
      false, false },
    { 403, "date: Thu, 01 Jan 1970 00:10:00 GMT", "{\"__type\":\"SignatureDoesNotMatch\"}", "SignatureDoesNotMatch",
      NULL,
      false, false },
    { 403, "date: Thu, 01 Jan 1970 00:10:00 GMT", "{\"__type\":\"AccessDeniedException\"}", "AccessDeniedException",
      "sagemaker CreateTrainingJob: AccessDeniedException: PLACE needs the permission sagemaker:CreateTrainingJob",
      false, false },
    { 403, "date: some day", "{\"__type\":\"SignatureDoesNotMatch\"}", "SignatureDoesNotMatch",
      "sagemaker CreateTrainingJob: SignatureDoesNotMatch: the secret key of PLACE does not belong to its access key",
      false, false },
    { 403, NULL, "{\"__type\":\"OptInRequired\",\"message\":\"No.\"}", "OptInRequired",
      "sagemaker CreateTrainingJob: OptInRequired: No: enable this service or region for the account", false, false },
    { 400, NULL, "{\"__type\":\"UnrecognizedClientException\",\"message\":\"The security token\"}",
      "UnrecognizedClientException",
      "sagemaker CreateTrainingJob: UnrecognizedClientException: The security token: AWS "
      "does not know the access key of PLACE, or not in this region", false, false },
    { 400, NULL, "{\"__type\":\"X\",\"message\":\"a SECRET b TOKEN c SECRETTOKEN\"}", "X",
      "sagemaker CreateTrainingJob: X: a *** b *** c ******", false, false },
    { 400, NULL, "{\"__type\":\"X\",\"message\":\"a\\nb\\u001b[1m\"}", "X",
      "sagemaker CreateTrainingJob: X: a\\nb\\x1b[1m",
      false, false },
    { 404, NULL, "", "NotFound", "sagemaker CreateTrainingJob: NotFound", false, false },
    { 403, NULL, "<html>no</html>", "Forbidden", "sagemaker CreateTrainingJob: Forbidden: PLACE needs the permission "
      "sagemaker:CreateTrainingJob", false, false },
    { 418, NULL, "{", "", "sagemaker CreateTrainingJob: the answer has status 418", false, false },
    { 418, NULL, "{\"__type\":7,\"message\":{}}", "", "sagemaker CreateTrainingJob: the answer has status 418", false,
      false },
};

static void
test_errors (void)
{
    struct keys keys = { .access_key = (char[]){ "ACCESS" }, .secret_key = (char[]){ "SECRET" },
                         .session_token = (char[]){ "TOKEN" } };
    struct answer_call call = { .service = "sagemaker", .action = "CreateTrainingJob", .keys = &keys,
        .source = "PLACE" };
    for (size_t i = 0; i < sizeof error_cases / sizeof *error_cases; i++) {
        const struct error_case *c = &error_cases[i];
        struct http_response response = { .status = c->status, .attempts = 5 };
        struct aws_error error;
        struct fail fail = { 0 };
        strbuf_add (&response.body, c->body);
        if (c->header)
            strlist_add (&response.headers, c->header);
        answer_read (&error, &response);
        is_text (error.code, c->code, "the code of an error");
        ok (answer_refuse (&call, &error, &response, &fail) == -1 && fail.status == 1, "error %zu is refused", i);
        if (c->text)
            is_text (fail.text, c->text, "in words");
        else
            ok (strstr (fail.text, "this machine's clock is") && strstr (fail.text,
                "minutes ahead of Amazon's: set it"),
                "a wrong clock is reported: %s", fail.text);
        ok (answer_is_throttled (&response) == c->is_throttled && answer_is_expired (&error) == c->is_expired,
            "whether it helps to wait, or to find other keys");
        http_response_release (&response);
    }
}

static void
test_long_errors (void)
{
    struct http_response response = { .status = 200 };
    struct aws_error error;
    strbuf_add (&response.body, error_cases[2].body);
    ok (!answer_is_throttled (&response), "an answer that is fine does not throttle, whatever it says");
    strbuf_truncate (&response.body, 0);
    response.status = 400;
    strbuf_add (&response.body, "{\"__type\":\"");
    for (int i = 0; i < 200; i++)
        strbuf_add (&response.body, "X");
    strbuf_add (&response.body, "\",\"message\":\"ab");
    for (int i = 0; i < 400; i++)
        strbuf_add (&response.body, "\xc3\xa9");
    strbuf_add (&response.body, "\"}");
    answer_read (&error, &response);
    ok (strlen (error.code) == sizeof error.code - 1, "a long code is cut");
    ok (strlen (error.message) == sizeof error.message - 2 && !memcmp (error.message + 508, "\xc3\xa9", 2),
        "a long message ends with a whole character");
    http_response_release (&response);
}

/* A long message is cut in the middle of a secret: what is left of it is not shown, either. */
static void
test_cut_secret (void)
{
    struct keys keys = { .access_key = (char[]){ "ACCESS" }, .secret_key = (char[]){ "SECRETSECRET" } };
    struct answer_call call = { .service = "s3", .action = "PutObject", .keys = &keys, .source = "PLACE" };
    struct http_response response = { .status = 400 };
    struct aws_error error;
    struct fail fail;
    strbuf_add (&response.body, "{\"__type\":\"X\",\"message\":\"");
    for (int i = 0; i < 503; i++)
        strbuf_add (&response.body, ".");
    strbuf_add (&response.body, "SECRETSECRET\"}");
    answer_read (&error, &response);
    answer_refuse (&call, &error, &response, &fail);
    ok (!strcmp (error.message + 503, "SECRETSE") && !strstr (fail.text, "SECRE") && strstr (fail.text, "..***"),
        "nothing of a secret that a message was cut in");
    http_response_release (&response);
}

/* ---- places ---- */

struct place_case {
    const char *region;
    enum aws_service service;
    const char *url; /* NULL: fails */
    const char *signed_for;
};

static const struct place_case place_cases[] = {
    { "us-east-1", AWS_SAGEMAKER, "https://api.sagemaker.us-east-1.amazonaws.com", "us-east-1" },
    { "eu-west-1", AWS_LOGS, "https://logs.eu-west-1.amazonaws.com", "eu-west-1" },
    { "eu-west-1", AWS_STS, "https://sts.eu-west-1.amazonaws.com", "eu-west-1" },
    { NULL, AWS_STS, "https://sts.amazonaws.com", "us-east-1" },
    { NULL, AWS_SAGEMAKER, NULL, NULL },
    { "eu-west-1", AWS_IAM, "https://iam.amazonaws.com", "us-east-1" },
    { "eu-west-1", AWS_S3, "https://s3.eu-west-1.amazonaws.com", "eu-west-1" },
    { "cn-north-1", AWS_SAGEMAKER, "https://api.sagemaker.cn-north-1.amazonaws.com.cn", "cn-north-1" },
    { "cn-northwest-1", AWS_IAM, "https://iam.cn-north-1.amazonaws.com.cn", "cn-north-1" },
    { "us-gov-east-1", AWS_IAM, "https://iam.us-gov.amazonaws.com", "us-gov-west-1" },
    { "us-iso-east-1", AWS_STS, "https://sts.us-iso-east-1.c2s.ic.gov", "us-iso-east-1" },
    { "us-isob-east-1", AWS_S3, "https://s3.us-isob-east-1.sc2s.sgov.gov", "us-isob-east-1" },
};

/* A struct aws without files. @param options  {} */
static struct aws *
open_plain (const char *region)
{
    struct aws_options options = { .region = region, .http.stop_fd = -1 };
    struct fail fail = { 0 };
    struct aws *aws;
    if (aws_open (&aws, &options, &fail))
        diag ("%s", fail.text);
    return aws;
}

static void
test_places (void)
{
    for (size_t i = 0; i < sizeof place_cases / sizeof *place_cases; i++) {
        const struct place_case *c = &place_cases[i];
        struct aws *aws = open_plain (c->region);
        struct strbuf url = { 0 };
        struct fail fail = { 0 };
        int result = aws_endpoint (aws, c->service, &url, &fail);
        is_text (result ? NULL : url.text, c->url, "a service's place");
        is_text (endpoint_region (aws, c->service, &fail), c->signed_for, "and its region");
        strbuf_release (&url);
        aws_close (aws);
    }
    is_text (aws_partition ("us-gov-west-1"), "aws-us-gov", "partition");
    is_text (aws_partition (NULL), "aws", "partition of no region");
    is_text (aws_domain ("cn-north-1"), "amazonaws.com.cn", "domain");
}

static const char *
bucket_url (const char *bucket)
{
    static char text[256];
    struct aws *aws = open_plain ("eu-west-1");
    struct strbuf url = { 0 };
    int result = endpoint_bucket (aws, bucket, &url, NULL);
    snprintf (text, sizeof text, "%s", result ? "(fails)" : url.text);
    strbuf_release (&url);
    aws_close (aws);
    return text;
}

static void
test_overrides (void)
{
    struct strbuf url = { 0 };
    is_text (bucket_url ("b"), "https://b.s3.eu-west-1.amazonaws.com", "a bucket is part of the host's name");
    is_text (bucket_url ("b.c"), "https://s3.eu-west-1.amazonaws.com/b.c", "unless it has dots");
    setenv ("AWS_USE_FIPS_ENDPOINT", "true", 1);
    is_text (bucket_url ("b"), "https://b.s3-fips.eu-west-1.amazonaws.com", "FIPS endpoints have other names");
    unsetenv ("AWS_USE_FIPS_ENDPOINT");
    setenv ("AWS_ENDPOINT_URL", "http://h:1/", 1);
    is_text (bucket_url ("b"), "http://h:1/b", "another server has it in the path");
    setenv ("AWS_ENDPOINT_URL_S3", "https://other/x/", 1);
    is_text (bucket_url ("b"), "https://other/x/b", "a service's own variable comes first");
    setenv ("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true", 1);
    is_text (bucket_url ("b"), "https://b.s3.eu-west-1.amazonaws.com", "unless all are to be ignored");
    unsetenv ("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
    setenv ("AWS_ENDPOINT_URL_S3", "ftp://h", 1);
    is_text (bucket_url ("b"), "(fails)", "a URL that is not http");
    setenv ("AWS_ENDPOINT_URL_S3", "http://user:pass@h", 1);
    is_text (bucket_url ("b"), "(fails)", "a URL with a password");
    unsetenv ("AWS_ENDPOINT_URL_S3");
    unsetenv ("AWS_ENDPOINT_URL");
    strbuf_release (&url);
}

int
main (void)
{
    static const char *const names[]
        = { "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_ENDPOINT_URL",
            "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL_IAM", "AWS_USE_FIPS_ENDPOINT",
            "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv (names[i]);
    setenv ("AWS_CONFIG_FILE", "/nowhere/config", 1);
    setenv ("AWS_SHARED_CREDENTIALS_FILE", "/nowhere/credentials", 1);
    test_profiles ();
    test_xml ();
    test_when ();
    test_sha1 ();
    test_keys ();
    test_read_json ();
    test_errors ();
    test_long_errors ();
    test_cut_secret ();
    test_places ();
    test_overrides ();
    return done_testing ();
}
