"""A server that answers requests and keeps too many of them in memory."""
import json
import sys

SEEN = {}


def parse(line):
    return json.loads(line)


def audit(request):
    key = (request["user"], request["at"])
    SEEN[key] = json.dumps(request)


def answer(request):
    audit(request)
    return {"ok": True, "items": [n * n for n in range(request["count"])]}


def serve(requests):
    done = 0
    for n in range(requests):
        line = json.dumps({"user": n % 500, "at": n, "count": n % 40, "text": "x" * 200})
        done += len(answer(parse(line))["items"])
    return done


print(serve(int(sys.argv[1]) if len(sys.argv) > 1 else 100000))
