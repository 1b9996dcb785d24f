/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of IAM Identity Center: 'aws sso login' leaves a token in ~/.aws/sso/cache; a server gives keys for it. */
#include <config.h>

#include "aws/endpoint.h"
#include "aws/request.h"
#include "aws/source.h"
#include "aws/sso_token.h"
#include "util/cleanup.h"

#include <string.h>

enum { MOST_ANSWER = 65536 };

struct sso {
    struct sso_login login;
    const char *account, *role;
};

static int
read_profile (const struct aws *aws, struct sso *sso, struct fail *fail)
{
    struct sso_login *login = &sso->login;
    const char *profile = login->profile;
    login->session = state_profile_value (aws, profile, "sso_session");
    login->url = state_profile_value (aws, profile, "sso_start_url");
    login->region = state_profile_value (aws, profile, "sso_region");
    sso->account = state_profile_value (aws, profile, "sso_account_id");
    sso->role = state_profile_value (aws, profile, "sso_role_name");
    if (login->session) {
        login->url = profiles_get (&aws->config, PROFILES_SSO_SESSION, login->session, "sso_start_url");
        login->region = profiles_get (&aws->config, PROFILES_SSO_SESSION, login->session, "sso_region");
        if (!profiles_get (&aws->config, PROFILES_SSO_SESSION, login->session, ""))
            return fail_set (fail, FAIL_GENERAL, "there is no section [sso-session %.100s]", login->session);
    }
    const char *missing = !login->url || !*login->url         ? "sso_start_url"
                          : !login->region || !*login->region ? "sso_region"
                          : !sso->account                     ? "sso_account_id"
                          : !sso->role                        ? "sso_role_name"
                                                              : NULL;
    if (missing)
        return fail_set (fail, FAIL_GENERAL, "%s is missing", missing);
    if (login->region[strspn (login->region, "abcdefghijklmnopqrstuvwxyz0123456789-")])
        return fail_set (fail, FAIL_GENERAL, "sso_region is not a valid region");
    return 0;
}

static int
ask (struct aws *aws, const struct sso *sso, const char *token, struct keys *keys, struct fail *fail)
{
    AUTO_STRBUF struct strbuf url = { 0 }, header = { 0 };
    struct http_response response = { 0 };
    struct aws_error error;
    const char *override = endpoint_override (aws, "SSO");
    if (override && endpoint_add_override (&url, override, fail))
        return -1;
    if (!override)
        strbuf_printf (&url, "https://portal.sso.%s.%s", sso->login.region, aws_domain (sso->login.region));
    strbuf_add (&url, "/federation/credentials?role_name=");
    http_encode (&url, sso->role, false);
    strbuf_add (&url, "&account_id=");
    http_encode (&url, sso->account, false);
    strbuf_printf (&header, "x-amz-sso_bearer_token: %s", token);
    if (url.failed || header.failed)
        return fail_nomem (fail);
    const char *headers[] = { header.text };
    struct request request = { .name = "sso", .service = AWS_STS, .action = "GetRoleCredentials",
                               .region = sso->login.region,
                               .http = { .url = url.text, .headers = headers, .header_count = 1,
                                         .most = MOST_ANSWER } };
    int result = request_send (aws, NULL, NULL, &request, &response, &error, fail);
    if (result && (error.status == 401 || aws_error_is (&error, "UnauthorizedException")))
        sso_token_refuse (&sso->login, "the session is no longer valid", fail);
    if (!result)
        result = source_read_json (&response, &keys_names_sso, "roleCredentials", "GetRoleCredentials", keys, fail);
    explicit_bzero (header.text, header.capacity);
    request_wipe (&response);
    return result;
}

int
source_sso (struct aws *aws, const char *profile, struct found *found, struct fail *fail)
{
    struct sso sso = { .login.profile = profile };
    char *token = NULL;
    if (!state_profile_value (aws, profile, "sso_session") && !state_profile_value (aws, profile, "sso_start_url"))
        return SOURCE_NONE;
    int result = read_profile (aws, &sso, fail) || sso_token_find (aws, &sso.login, &token, fail)
                         || ask (aws, &sso, token, &found->keys, fail)
                     ? -1
                     : 0;
    keys_wipe (token);
    return found_end (found, result, fail, "AWS profile '%.100s' (IAM Identity Center)", profile);
}
