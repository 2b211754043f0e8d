"""Reads a topic by a subscription, partition by partition, up to what is its last message now.

One line a message: `PARTITION KEY NUMBER`, or `PARTITION foreign WORDS` for what the rule did not
make; at the end `end`. `--acknowledge`: all that is read, at the end. `--more S`: goes on until
nothing came for so long.
"""

import argparse
import sys

import pulsar
from connect import connected
from payload import number_of

RECEIVE_WAIT_MS = 120_000
WORDS = 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--url", "--topic", "--subscription", "--seen"):
        parser.add_argument(name, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--acknowledge", action="store_true")
    parser.add_argument("--compacted", action="store_true", help="the last message of each key")
    parser.add_argument("--more", type=float, default=0.0, metavar="S")
    parser.add_argument("--only-subscribe", action="store_true", help="so that it holds what comes")
    options = parser.parse_args()
    client = connected(options.url)
    with open(options.seen, "w", encoding="utf-8") as seen:
        for number, partition in enumerate(client.get_topic_partitions(options.topic)):
            consumer = client.subscribe(
                partition,
                options.subscription,
                initial_position=pulsar.InitialPosition.Earliest,
                is_read_compacted=options.compacted,
                receiver_queue_size=500,
            )
            if not options.only_subscribe:
                read(consumer, f"{number}", options, seen)
            consumer.close()
        seen.write("end\n")
    client.close()


def read(consumer, partition: str, options, seen) -> None:
    end = consumer.get_last_message_id()
    last = None
    while end.entry_id() >= 0 and (last is None or last < end):
        last = note(consumer.receive(RECEIVE_WAIT_MS), partition, options, seen)
    while options.more:
        try:
            last = note(consumer.receive(round(options.more * 1000)), partition, options, seen)
        except pulsar.Timeout:
            break
    if options.acknowledge and last is not None:
        consumer.acknowledge_cumulative(last)


def note(message, partition: str, options, seen) -> pulsar.MessageId:
    key = message.partition_key()
    number = number_of(message.data(), topic=options.topic, key=key, seed=options.seed)
    said = f"{key} {number}" if number is not None else f"foreign {message.data()[:WORDS]!r}"
    seen.write(f"{partition} {said}\n")
    return message.message_id()


if __name__ == "__main__":
    sys.exit(main())
