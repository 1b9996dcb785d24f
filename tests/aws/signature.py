#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks signatures (AWS Signature Version 4) of requests as tests/http/server wrote them: signature.py SECRET FILE...

Prints "FILE: ok SERVICE REGION" or "FILE: WRONG: why", and exits with 1 if one is wrong. This is written from Amazon's
description of the protocol, not from libcurl; two of Amazon's published examples are checked first.
"""
import hashlib
import hmac
import re
import sys

FORM = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/]*)/(\d{8})/([^/]*)/([^/]*)/aws4_request, ?"
                  r"SignedHeaders=([^,]*), ?Signature=([0-9a-f]{64})$")


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def sign(secret, method, path, query, headers, names, payload, day, region, service):
    """The signature; `headers` maps names in lower case to values."""
    canonical = "\n".join([method, path, "&".join(sorted(query.split("&"))),
                           "".join(f"{name}:{headers[name]}\n" for name in names), ";".join(names), payload])
    text = "\n".join(["AWS4-HMAC-SHA256", headers["x-amz-date"], f"{day}/{region}/{service}/aws4_request",
                      sha256(canonical.encode())])
    key = ("AWS4" + secret).encode()
    for part in day, region, service, "aws4_request":
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def check_published():
    """The examples get-vanilla and post-x-www-form-urlencoded of Amazon's Signature Version 4 test suite."""
    secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
    headers = {"host": "example.amazonaws.com", "x-amz-date": "20150830T123600Z"}
    place = ("20150830", "us-east-1", "service")
    assert sign(secret, "GET", "/", "", headers, ["host", "x-amz-date"], sha256(b""), *place) == \
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
    headers["content-type"] = "application/x-www-form-urlencoded"
    assert sign(secret, "POST", "/", "", headers, ["content-type", "host", "x-amz-date"], sha256(b"Param1=value1"),
                *place) == "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"


def check(secret, raw):
    """"ok SERVICE REGION", or why it is wrong."""
    head, body = raw.split(b"\r\n\r\n", 1)
    lines = head.decode().split("\r\n")
    method, target, _ = lines[0].split(" ")
    headers = {}
    for line in lines[1:]:
        name, value = line.split(":", 1)
        if name.lower() in headers:
            return f"WRONG: duplicate {name}"
        headers[name.lower()] = " ".join(value.split())
    found = FORM.match(headers.get("authorization", ""))
    if not found:
        return "WRONG: no signature"
    _, day, region, service, signed, signature = found.groups()
    names = sorted(signed.split(";"))
    for name in headers:
        if (name.startswith("x-amz-") or name == "host") and name not in names:
            return f"WRONG: {name} is not signed"
    payload = headers.get("x-amz-content-sha256", sha256(body))
    if service == "s3" and "x-amz-content-sha256" not in headers:
        return "WRONG: no x-amz-content-sha256"
    if payload not in ("UNSIGNED-PAYLOAD", sha256(body)):
        return "WRONG: another body"
    path, _, query = target.partition("?")
    if sign(secret, method, path, query, headers, names, payload, day, region, service) != signature:
        return "WRONG: another signature"
    return f"ok {service} {region}"


def main():
    check_published()
    status = 0
    for path in sys.argv[2:]:
        with open(path, "rb") as file:
            verdict = check(sys.argv[1], file.read())
        print(f"{path}: {verdict}")
        status |= not verdict.startswith("ok")
    return status


sys.exit(main())
