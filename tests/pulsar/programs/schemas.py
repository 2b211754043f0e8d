"""`write` or `read` records of a topic whose schema has two versions; an assertion says what fails.

`write` subscribes first, writes with each version, and sees that a third one, which readers of the
first two could not read, is refused. `read` reads all of them with the second version.
"""

import argparse

import pulsar
from connect import connected
from pulsar.schema import Integer, JsonSchema, Record, String

SUBSCRIPTION = "clerk"


def order(**more):
    """A record type by the name that all versions share."""
    fields = {"number": Integer(required=True), "customer": String()}
    return type("Order", (Record,), {**fields, **more})


FIRST = order()
SECOND = order(note=String(required_default=True))  # so that older records can be read
REFUSED = order(number=String(required=True))


def customer(seed: int, number: int) -> str:
    return f"customer {seed * 31 + number}"


def write(client: pulsar.Client, options) -> None:
    client.subscribe(options.topic, SUBSCRIPTION).close()  # of bytes: it brings no schema
    for version, records in enumerate((FIRST, SECOND)):
        producer = client.create_producer(options.topic, schema=JsonSchema(records))
        for number in range(version * options.count, (version + 1) * options.count):
            more = {"note": f"note {number}"} if version else {}
            producer.send(records(number=number, customer=customer(options.seed, number), **more))
        producer.close()
    try:
        client.create_producer(options.topic, schema=JsonSchema(REFUSED))
    except pulsar.IncompatibleSchema:
        return
    raise AssertionError("a schema that readers cannot read was taken")


def read(client: pulsar.Client, options) -> None:
    consumer = client.subscribe(options.topic, SUBSCRIPTION, schema=JsonSchema(SECOND))
    for number in range(2 * options.count):
        found = consumer.receive(60_000).value()
        note = f"note {number}" if number >= options.count else None
        wanted = (number, customer(options.seed, number), note)
        seen = (found.number, found.customer, found.note)
        assert seen == wanted, f"record {number} says {seen}, expected {wanted}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("write", "read"))
    parser.add_argument("--url", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=50, help="of each version")
    options = parser.parse_args()
    client = connected(options.url)
    {"write": write, "read": read}[options.what](client, options)
    client.close()


if __name__ == "__main__":
    main()
