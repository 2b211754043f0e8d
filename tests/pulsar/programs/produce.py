"""Writes to a topic and notes each acknowledgement; ends after `--count` messages, or of a SIGTERM.

A line of notes is written, past this process, before anybody can know of it: `begin MS`, then
`ack KEY NUMBER MS` and `failed KEY NUMBER WHY`, at the end `end COUNT`; MS since 1970. Message I
has key I modulo `--keys`. No message is given up: the client sends it until it is acknowledged.
"""

import argparse
import os
import signal
import threading
import time

import pulsar
from connect import connected
from payload import payload

PENDING_MAX = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--url", "--topic", "--notes"):
        parser.add_argument(name, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=1 << 40)
    parser.add_argument("--rate", type=float, default=1e9, help="messages in a second at most")
    parser.add_argument("--keys", type=int, default=12)
    parser.add_argument("--batching", action="store_true")
    options = parser.parse_args()
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    notes = os.open(options.notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    client = connected(options.url)
    producer = client.create_producer(
        options.topic,
        send_timeout_millis=0,
        block_if_queue_full=True,
        max_pending_messages=PENDING_MAX,
        batching_enabled=options.batching,
        batching_type=pulsar.BatchingType.KeyBased,
        batching_max_publish_delay_ms=5,
    )
    os.write(notes, f"begin {now_ms()}\n".encode())
    began = time.monotonic()

    def noted(key: str, number: int):
        def on_sent(result: pulsar.Result, _message: pulsar.MessageId) -> None:
            said = f"ack {key} {number} {now_ms()}"
            if result != pulsar.Result.Ok:
                said = f"failed {key} {number} {result}"
            os.write(notes, f"{said}\n".encode())

        return on_sent

    sent = 0
    while sent < options.count and not stopping.is_set():
        key, number = f"k{sent % options.keys}", sent // options.keys
        content = payload(options.topic, key, number, options.seed)
        producer.send_async(content, noted(key, number), partition_key=key)
        sent += 1
        ahead = sent / options.rate - (time.monotonic() - began)
        if ahead > 0.01:
            stopping.wait(ahead)
    producer.flush()
    client.close()
    os.write(notes, f"end {sent}\n".encode())
    os.fsync(notes)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    main()
