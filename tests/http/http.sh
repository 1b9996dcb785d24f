#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# HTTP requests: ranges, redirects without secrets, retries, deadlines, bounds, proxies, trust.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/http/serve"

request=$builddir/tests/http/request
serve other others || exit 99
other=$url
serve root requests || exit 99
printf 'hello, range' >root/file

test_expect_success 'a file, a part of it, and its end' '
    "$request" "$url/file" >out && grep -x "status 200" out && grep -x "total 12" out && tail -n 1 out | grep -x "hello, range" &&
    "$request" -r 7,5 "$url/file" >out && grep -x "status 206" out && grep -x "total 12" out && tail -n 1 out | grep -x range &&
    "$request" -r 1,3 "$url/file" >out && tail -n 1 out | grep -x ell && grep -h "^Range: bytes=1-3" requests/* &&
    "$request" -r 7,500 "$url/file" >out && grep -x "status 206" out && tail -n 1 out | grep -x range &&
    "$request" -r 100,5 "$url/file" >out && grep -x "status 416" out'
test_expect_success 'a missing file is an answer' '"$request" "$url/nothing" >out && grep -x "status 404" out'
test_expect_success 'a server without ranges: the beginning is enough, the middle is not' '
    rules "/file whole" && "$request" -r 0,5 "$url/file" >out && grep -x "status 200" out && tail -n 1 out | grep -x hello &&
    test_exit 1 "$request" -r 3,5 "$url/file" >out 2>err && grep "sends whole files only" err'
test_expect_success 'another range than asked for is refused' '
    rules "/file range=1" && test_exit 1 "$request" -a 1 -r 7,5 "$url/file" >out 2>err && grep "has the range bytes 1-11/12" err'
test_expect_success 'an encoding that was not asked for is refused' '
    rules "/file header=Content-Encoding:gzip" && test_exit 1 "$request" "$url/file" >out 2>err &&
    grep "content encoding gzip" err'

test_expect_success 'redirects within a host keep the token, to another host they drop it' '
    cp root/file other/file && rules "/a status=302 header=Location:/b" "/b status=307 header=Location:$other/file" &&
    "$request" -b SECRET -H "X-Own: SECRET" "$url/a" >out && grep -x "status 200" out && grep -x "url $other/file" out &&
    tail -n 1 out | grep -x "hello, range" && requests_are 2 && grep -l "Bearer SECRET" requests/2 && grep -c . others/1 &&
    ! grep SECRET others/1'
test_expect_success 'an origin is also the port: coming back does not bring the token back' '
    printf "%s\n" "/b status=302 header=Location:$url/file" >other/.rules &&
    rules "/a status=302 header=Location:$other/b" && "$request" -b SECRET "$url/a" >out && grep -x "status 200" out &&
    requests_are 2 && ! grep SECRET requests/2 && rm other/.rules'
test_expect_success 'redirects end' '
    rules "/a status=302 header=Location:/a" && test_exit 1 "$request" "$url/a" >out 2>err &&
    grep "redirected more than 5 times" err && requests_are 6'
test_expect_success 'redirects to other protocols are refused' '
    for place in file:///etc/passwd ftp://127.0.0.1/ gopher://127.0.0.1/; do
        rules "/a status=302 header=Location:$place" && test_exit 1 "$request" "$url/a" >out 2>err || return 1
        grep "refused a redirect" err || return 1
    done'
test_expect_success 'no redirects: for those who want the answer, for requests that change something, for AWS' '
    rules "/a status=302 header=Location:/b" && "$request" -n "$url/a" >out && grep -x "status 302" out &&
    "$request" -d x "$url/a" >out && grep -x "status 302" out &&
    "$request" -s us-east-1,s3,KEY,SECRET "$url/a" >out && grep -x "status 302" out && requests_are 3'

test_expect_success 'busy servers are asked again' '
    for status in 408 429 500 502 503 504; do
        rules "/file status=$status times=1" && "$request" "$url/file" >out && grep -x "status 200" out &&
        grep -x "attempts 2" out || return 1
    done'
test_expect_success 'but not for ever, and other refusals not at all' '
    rules "/file status=503" && "$request" -a 2 "$url/file" >out && grep -x "status 503" out && requests_are 2 &&
    for status in 400 401 403 404 410 501; do
        rules "/file status=$status" && "$request" "$url/file" >out && grep -x "status $status" out && requests_are 1 ||
            return 1
    done'
test_expect_success 'Retry-After is respected' '
    rules "/file status=429 times=1 header=Retry-After:2" && before=$(date +%s%N) && "$request" "$url/file" >out &&
    test $((($(date +%s%N) - before) / 1000000)) -ge 2000 && grep -x "status 200" out'
test_expect_success 'a Retry-After beyond the deadline: the answer at once' '
    rules "/file status=429 header=Retry-After:3600" && "$request" "$url/file" >out && grep -x "status 429" out &&
    requests_are 1'
test_expect_success 'broken connections are tried again, after pauses of at least 200 and 400 ms' '
    begin=$(date +%s%N) && rules "/file drop times=2" && "$request" "$url/file" >out && grep -x "attempts 3" out && grep -x "status 200" out &&
    test $((($(date +%s%N) - begin) / 1000000)) -ge 600 &&
    rules "/file cut=4 times=1" && "$request" "$url/file" >out && grep -x "attempts 2" out &&
    tail -n 1 out | grep -x "hello, range"'
test_expect_success 'a POST is not sent twice, unless it may be' '
    rules "/file drop" && test_exit 1 "$request" -d data "$url/file" >out 2>err && requests_are 1 &&
    grep "closed the connection without an answer" err &&
    rules "/file drop times=1" && "$request" -R -d data "$url/file" >out && requests_are 2 && tail -n 1 requests/2 | grep data'
test_expect_success 'an answer that always breaks off is an error' '
    rules "/file cut=4" && test_exit 1 "$request" -a 2 "$url/file" >out 2>err && grep "broke before the end" err &&
    rules "/file length=100" && test_exit 1 "$request" -a 1 -t 3000 "$url/file" >out 2>err && cat err'
test_expect_success 'an answer that is not HTTP' '
    rules "/file garbage" && test_exit 1 "$request" "$url/file" >out 2>err && grep "not HTTP" err'
test_expect_success 'a server that stops in the middle, and one that does not answer' '
    rules "/file stall=4" && test_exit 1 "$request" -t 1500 "$url/file" >out 2>err && grep -i "timed out" err &&
    rules "/file delay=100000" && test_exit 1 "$request" -t 1000 "$url/file" >out 2>err && grep -i "timed out" err'
test_expect_success 'no server listens' '
    port=$(free_port) && test_exit 1 "$request" "http://127.0.0.1:$port/" >out 2>err && grep "127.0.0.1:$port/: .*onnect" err &&
    grep -x "attempts 3" out'
test_expect_success 'answers have a size' '
    head -c 100000 /dev/zero >root/big && test_exit 1 "$request" -m 99999 "$url/big" >out 2>err &&
    grep "larger than 99999 bytes" err && "$request" -m 100000 "$url/big" >out &&
    rules "/file endless" && test_exit 1 "$request" -a 1 "$url/file" >out 2>err && grep "larger than 16777216 bytes" err &&
    rules "/big status=404" && "$request" -m 10 "$url/big" >out && grep -x "status 404" out'
test_expect_success 'many at once' '
    rules "/file status=503 times=3" && "$request" -c 40 "$url/file" >out &&
    test "$(grep -c "^status 200" out)" = 40 && test "$(grep -c "^hello, range" out)" = 40'
# A request is written down when it comes, and answered 400 ms later.  Times of files are those of the latest tick, which
# may be 10 ms ago.
test_expect_success 'but not more than eight' '
    rules "/file delay=400" && "$request" -c 9 "$url/file" >out && requests_are 9 &&
    test $(($(date -r requests/9 +%s%N) - $(date -r requests/1 +%s%N))) -ge 390000000'
test_expect_success 'the first failure ends the others' '
    rules "/file stall=4" && test_exit 1 "$request" -t 1000 -c 20 "$url/file" >out 2>err && test "$(wc -l <err)" = 1'
test_expect_success 'the caller stops it' '
    rules "/file delay=100000" && echo stop | test_exit 1 "$request" -e "$url/file" >out 2>err && grep -x interrupted err &&
    grep -x "trouble 9" out'

test_expect_success 'a file is sent' '
    rules && head -c 3000000 /dev/urandom >upload && "$request" -f upload "$url/upload" >out && grep "^PUT /upload " requests/1 &&
    tail -c 3000000 requests/1 | cmp - upload'
test_expect_success 'and sent again as a whole' '
    rules "/upload status=503 times=1" && "$request" -f upload "$url/upload" >out && tail -c 3000000 requests/2 | cmp - upload'
test_expect_success 'a file that cannot be read' '
    test_exit 1 "$request" -f nothing "$url/upload" >out 2>err && grep "cannot read nothing: No such file" err'

test_expect_success 'signed for AWS: the key is sent, the secret and its token as they should be' '
    rules && "$request" -s eu-west-1,sagemaker,AKIDEXAMPLE,TOPSECRET,SESSION -R -d "{}" "$url/" >out &&
    grep "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/[0-9]*/eu-west-1/sagemaker/aws4_request" requests/1 &&
    grep "^X-Amz-Security-Token: SESSION" requests/1 && ! grep TOPSECRET requests/1 out'
test_expect_success 'a token of two lines is refused' '
    rules && test_exit 1 "$request" -b "a
X-Other: b" "$url/file" >out 2>err && requests_are 0 && ! grep X-Other err'
test_expect_success 'messages show no query, user or password' '
    rules "/file drop" && place=${url#http://} &&
    test_exit 1 "$request" -a 1 "http://user:SECRET@$place/file?token=SECRET" >out 2>err && grep "$place/file: " err &&
    ! grep SECRET err'
test_expect_success 'only http and https' '
    for place in file:///etc/passwd "" ftp://127.0.0.1/ http:// "http:///x"; do
        test_exit 1 "$request" "$place" >out 2>err || return 1
        grep "not an http:// or https:// URL" err || return 1
    done'

test_expect_success 'proxies by http_proxy and HTTP_PROXY, but not for hosts in NO_PROXY' '
    rules && printf proxied >root/there && http_proxy=$url "$request" http://nowhere.invalid/there >out && tail -n 1 out | grep -x proxied &&
    HTTP_PROXY=$url "$request" http://nowhere.invalid/there >out && tail -n 1 out | grep -x proxied &&
    HTTP_PROXY=$other NO_PROXY=127.0.0.1 "$request" "$url/file" >out && grep -x "status 200" out &&
    http_proxy=http://127.0.0.1:1 "$request" -p "$url/file" >out && grep -x "status 200" out &&
    test_exit 1 env HTTP_PROXY=$url REQUEST_METHOD=GET "$request" http://nowhere.invalid/there >out 2>err'
test_expect_success 'an unknown host' '
    test_exit 1 "$request" http://nowhere.invalid/ >out 2>err && grep "the host is unknown" err && grep -x "attempts 1" out'

if command -v openssl >/dev/null; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost \
        -addext subjectAltName=IP:127.0.0.1 2>/dev/null || exit 99
    tls_port=$(free_port)
    openssl s_server -accept "127.0.0.1:$tls_port" -key key.pem -cert cert.pem -WWW </dev/null >/dev/null 2>&1 &
    tls=$!
    is_secure () {
        openssl s_client -connect "127.0.0.1:$tls_port" </dev/null >/dev/null 2>&1
    }
    wait_for is_secure || exit 99
    secure=https://127.0.0.1:$tls_port/root/file
    test_expect_success 'a certificate without a trusted issuer is refused' '
        test_exit 1 "$request" "$secure" >out 2>err && grep -x "trouble 5" out && grep -x "attempts 1" out'
    for name in REQUESTS_CA_BUNDLE CURL_CA_BUNDLE SSL_CERT_FILE; do
        test_expect_success "a certificate that $name vouches for" '
            env $name=cert.pem "$request" "$secure" >out && grep -x "status 200" out && grep "hello, range" out'
    done
    test_expect_success 'a bundle that is missing is named' '
        test_exit 1 env REQUESTS_CA_BUNDLE=/nowhere/at/all "$request" "$secure" >out 2>err &&
        grep "REQUESTS_CA_BUNDLE: cannot read /nowhere/at/all" err'
    test_expect_success 'a certificate for another name is refused' '
        test_exit 1 env SSL_CERT_FILE=cert.pem "$request" "https://localhost:$tls_port/root/file" >out 2>err'

    # start_proxy FOLDER [CERTIFICATE KEY]: its address goes to $proxy
    start_proxy () {
        mkdir "$1" || exit 99
        python3 "$srcdir/tests/http/proxy.py" "$1" $$ ${2+"$2" "$3"} 2>/dev/null &
        echo $! >"$1/pid"
        await "$1/.port" || exit 99
        proxy=127.0.0.1:$(cat "$1/.port")
    }
    if command -v python3 >/dev/null && python3 -c "import os; os.pidfd_open"; then
        start_proxy plain || exit 99
        REQUESTS_CA_BUNDLE=cert.pem
        export REQUESTS_CA_BUNDLE
        for name in https_proxy HTTPS_PROXY all_proxy ALL_PROXY; do
            test_expect_success "a tunnel through a proxy: $name" '
                rm -f plain/log && env $name=http://$proxy "$request" -b SECRET "$secure" >out && grep -x "status 200" out && grep "hello, range" out &&
                grep "^CONNECT 127.0.0.1:$tls_port " plain/log && ! grep SECRET plain/log'
        done
        test_expect_success 'no tunnel to hosts in NO_PROXY' '
            rm -f plain/log && HTTPS_PROXY=http://$proxy NO_PROXY=127.0.0.1 "$request" "$secure" >out && grep -x "status 200" out && test ! -e plain/log'
        test_expect_success 'the server behind the proxy must prove who it is' '
            (unset REQUESTS_CA_BUNDLE && test_exit 1 env HTTPS_PROXY=http://$proxy "$request" "$secure" >out 2>err) && grep -x "trouble 5" out'
        test_expect_success 'a password for the proxy, which no message shows' '
            rm -f plain/log && HTTPS_PROXY=http://somebody:PASSWORD@$proxy "$request" "$secure" >out && grep "^Proxy-Authorization: Basic c29tZWJvZHk6UEFTU1dPUkQ=" plain/log &&
            echo 407 >plain/status && test_exit 1 env HTTPS_PROXY=http://somebody:PASSWORD@$proxy "$request" "$secure" >out 2>err && ! grep PASSWORD out err'
        test_expect_success 'a proxy that refuses is named, and not asked again' '
            for status in 403 407; do
                rm -f plain/log && echo $status >plain/status && test_exit 1 env HTTPS_PROXY=http://$proxy "$request" "$secure" >out 2>err &&
                grep "the proxy refuses the connection: status $status" err && grep -x "attempts 1" out && grep -x "trouble 2" out || return 1
            done'
        test_expect_success 'one that is busy is asked again' '
            rm -f plain/log && echo 503 >plain/status && test_exit 1 env HTTPS_PROXY=http://$proxy "$request" "$secure" >out 2>err &&
            grep "the proxy refuses the connection: status 503" err && grep -x "attempts 3" out && rm plain/status'
        start_proxy secured cert.pem key.pem || exit 99
        test_expect_success 'a proxy that is spoken to by TLS proves who it is, by the same bundle' '
            HTTPS_PROXY=https://$proxy "$request" "$secure" >out && grep -x "status 200" out && grep "^CONNECT" secured/log && rm secured/log &&
            (unset REQUESTS_CA_BUNDLE && test_exit 1 env HTTPS_PROXY=https://$proxy "$request" "$secure" >out 2>err) && test ! -s secured/log'
        unset REQUESTS_CA_BUNDLE
    else
        test_skip 'tunnels through proxies' 'needs python3 3.9 or later'
    fi
    kill $tls
else
    test_skip 'certificates' 'needs openssl'
fi
ok=$(printf 'HTTP/1.1 200 OK\r')
# raw MESSAGE: what is on standard input is an answer
raw () {
    cat >root/raw && rules "/file raw file=raw" && test_exit 1 "$request" "$url/file" >out 2>err && grep "$1" err
}
test_expect_success 'headers that are too long, too many, or wrong' '
    { echo "$ok" && printf "X: %0200000d\r\n" 1; } | raw "a header of the answer is too long" &&
    { echo "$ok" && for i in 1 2 3 4 5; do printf "X: %060000d\r\n" 1 || exit 1; done; } | raw "more than 262144 bytes of headers" &&
    { echo "$ok" && printf "Content-Length: -5\r\n\r\n"; } | raw "Content-Length"'
test_expect_success 'headers of an answer that only announces another one do not count' '
    rules "/file early=Content-Encoding:gzip" && "$request" "$url/file" >out && grep -x "status 200" out &&
    tail -n 1 out | grep -x "hello, range"'
test_done
