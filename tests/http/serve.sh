# SPDX-License-Identifier: Apache-2.0
# Sourced by tests that speak HTTP: a clean environment and `serve`.
unset http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY REQUEST_METHOD \
    REQUESTS_CA_BUNDLE CURL_CA_BUNDLE SSL_CERT_FILE SSL_CERT_DIR AWS_CA_BUNDLE

# serve FOLDER [REQUESTS]: a server of FOLDER until the script ends; its URL goes to $url.
serve () {
    mkdir -p "$1" ${2+"$2"}
    "$builddir/tests/http/server" "$1" $$ ${2+"$2"} &
    await "$1/.port"
    url=http://127.0.0.1:$(cat "$1/.port")
}

if grep -q "without libcurl" <<END; then
$("$builddir/tests/http/request" http://127.0.0.1:1/ 2>&1)
END
    test_skip 'all of it' 'built without libcurl'
    test_done
fi
