#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# AWS: certificates of unsigned calls, programs that are stopped, no core files with keys, hosts that do not exist.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/http/serve"

call=$builddir/tests/aws/call
AWS_EC2_METADATA_DISABLED=true AWS_REGION=eu-west-1
export AWS_EC2_METADATA_DISABLED AWS_REGION
mkdir -p "$HOME/.aws/sso/cache"

if command -v openssl >/dev/null; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost \
        -addext subjectAltName=DNS:localhost >/dev/null 2>&1 || exit 99
    tls_port=$(free_port)
    mkdir -p federation
    printf 'HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{"roleCredentials":{"accessKeyId":"SSO","secretAccessKey":"S","sessionToken":"T","expiration":%s000}}' \
        "$(($(date +%s) + 3600))" >"federation/credentials?role_name=Dev&account_id=123456789012"
    openssl s_server -accept "127.0.0.1:$tls_port" -key key.pem -cert cert.pem -HTTP </dev/null >/dev/null 2>&1 &
    server=$!
    # Its end is not part of a test.
    trap 'kill $server 2>/dev/null; cd / && rm -rf "$scratch"' EXIT
    is_open () {
        openssl s_client -connect "127.0.0.1:$tls_port" </dev/null >/dev/null 2>&1
    }
    printf '[profile sso]\nsso_start_url = u\nsso_region = us-east-1\nsso_account_id = 123456789012\nsso_role_name = Dev\n' >"$HOME/.aws/config"
    printf '{"accessToken":"T","expiresAt":"2099-01-01T00:00:00Z"}' >"$HOME/.aws/sso/cache/51e69892ab49df85c6230ccc57f8e1d1606caccc.json" # of "u"
    test_expect_success 'AWS_CA_BUNDLE is for unsigned calls, too' '
        wait_for is_open && export AWS_ENDPOINT_URL_SSO="https://localhost:$tls_port" &&
        test_exit 1 timeout "$patience" "$call" -p sso keys >out 2>err && grep -i "certificate" err && test ! -s out &&
        (export AWS_CA_BUNDLE="$PWD/cert.pem" && timeout "$patience" "$call" -p sso keys >out) && grep -x "access SSO" out'
else
    test_skip 'AWS_CA_BUNDLE is for unsigned calls, too' 'needs openssl'
fi

cat >endless <<END
#!/bin/sh
echo \$\$ >"$PWD/pid"
exec >&-
exec sleep 1000
END
chmod +x endless
test_expect_success 'a program that has closed its output, but runs on, is stopped' '
    printf "[profile slow]\ncredential_process = %s\n" "$PWD/endless" >"$HOME/.aws/config" && mkfifo stop && rm -f pid && {
        timeout "$patience" "$call" -s -p slow keys <stop >out 2>err &
        child=$!
    } && exec 7>stop && wait_for test -s pid && echo >&7 && exec 7>&- && test_exit 1 wait $child && grep "credential_process" err &&
    gone "$(cat pid)"'
if python3 -c "import resource; resource.setrlimit(resource.RLIMIT_CORE, (-1, -1))" 2>/dev/null; then
    cat >dumps.py <<'END'
import os, resource, signal, subprocess, sys
resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
os.kill(child.pid, signal.SIGSEGV)
print("dumped" if os.WCOREDUMP(os.waitpid(child.pid, 0)[1]) else "not dumped")
END
    test_expect_success 'a process that has keys leaves no core file when it crashes' '
        mkdir cores && cd cores && python3 ../dumps.py sh -c "echo; read x" >out && cat out &&
        { grep -x dumped out || echo "no core files here: nothing is shown" >&2; } &&
        python3 ../dumps.py "$call" -k A,B -n 2 keys >out && grep -x "not dumped" out'
else
    test_skip 'a process that has keys leaves no core file when it crashes' 'needs python3, and permission to write core files'
fi
printf '[profile moon]\nsso_start_url = u\nsso_region = moon-2\nsso_account_id = 1\nsso_role_name = Dev\n' >>"$HOME/.aws/config"
printf '{"accessToken":"T","expiresAt":"2099-01-01T00:00:00Z"}' >"$HOME/.aws/sso/cache/51e69892ab49df85c6230ccc57f8e1d1606caccc.json" # of "u"
test_expect_success 'only an unknown host whose name has the region is a question of the region, of its own one' '
    export AWS_ACCESS_KEY_ID=A AWS_SECRET_ACCESS_KEY=B AWS_REGION=moon-1 && describe="json sagemaker DescribeTrainingJob {}" &&
    (export AWS_ENDPOINT_URL=http://api.moon-1.invalid && test_exit 1 "$call" $describe >out 2>err) && grep "is there no AWS region moon-1?" err &&
    (export AWS_ENDPOINT_URL=http://nowhere.invalid/.moon-1. && test_exit 1 "$call" $describe >out 2>err) && grep "host is unknown" err &&
    ! grep "is there no AWS region" err &&
    (unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY && export AWS_ENDPOINT_URL_SSO=http://portal.moon-2.invalid && test_exit 1 "$call" -p moon keys >out 2>err) &&
    grep "is there no AWS region moon-2?" err &&
    (export https_proxy=http://nowhere.invalid:1 && test_exit 1 "$call" $describe >out 2>err) && grep "proxy.s host is unknown" err &&
    ! grep "is there no AWS region" err'
test_done
