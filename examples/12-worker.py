#!/usr/bin/env python3
"""A worker without Node and without a database: claims messages over HTTP, works, and settles them. Standard library only.

    QUEUE_TOKEN=... python3 12-worker.py https://example.com/sluice emails

It ends when there has been nothing to do for as long as the second option says: --idle 20s
"""
import argparse
import json
import os
import urllib.error
import urllib.request


def call(method, url, body=None):
    """The status and the parsed body of the answer. A problem is an answer too."""
    request = urllib.request.Request(url, method=method, data=None if body is None else json.dumps(body).encode())
    request.add_header("content-type", "application/json")
    request.add_header("authorization", "Bearer " + os.environ.get("QUEUE_TOKEN", ""))
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            status, text = answer.status, answer.read()
    except urllib.error.HTTPError as problem:
        status, text = problem.code, problem.read()
    return status, json.loads(text) if text else None


def work(message):
    """Here it is only printed. What raises an error is tried again."""
    print(message["id"], json.dumps(message["payload"]), flush=True)


def end_of(message):
    """Works, and returns what the message's outcome is."""
    try:
        work(message)
    except Exception as error:
        return {"id": message["id"], "outcome": "retryLater", "error": repr(error)}
    return {"id": message["id"], "outcome": "ack"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("base")
    parser.add_argument("queue")
    parser.add_argument("--idle", default="20s")
    options = parser.parse_args()
    claims = f"{options.base}/queues/{options.queue}/claims"
    while True:
        status, claim = call("POST", claims, {"limit": 5, "lease": "1m", "wait": options.idle})
        if status == 204:
            return
        if status != 201:
            raise SystemExit(f"{status}: {claim and claim['detail']}")
        for message in claim["messages"]:
            # Settled one by one, so that a crash repeats no more than the message in flight.
            body = {"messages": [end_of(message)]}
            status, settlement = call("POST", f"{claims}/{claim['id']}/settle", body)
            if status != 200 or settlement["refused"]:
                raise SystemExit(f"{status}: not settled, {settlement}")


main()
