"""`make demo`: the product at work on this machine; ends with a summary and an honest exit code."""

import argparse
import asyncio
import time
from pathlib import Path

from bookie.client.bookkeeper_client import Client
from bookie.metadata.opening import open_store
from fleet import Fleet
from source import Input
from story import STEPS, Story
from summary import Summary
from view import Picture, choose_view

HERE = Path(__file__).parent
MANIFEST = HERE.parent / "bookiecluster.yaml"
INTERRUPTED = 130


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument("--input", type=Path, help="folder to stream; default: the stdlib's source")
    parser.add_argument("--dir", type=Path, default=Path("demo"), help="where everything is kept")
    parser.add_argument("--keep", action="store_true", help="leave the fleet running at the end")
    return parser.parse_args()


async def run(options: argparse.Namespace) -> Summary:
    """The whole demo; the fleet is taken down at the end whatever happens."""
    source = Input(options.input) if options.input else Input.default()
    fleet = Fleet(MANIFEST, options.dir / "fleet")
    picture = Picture(STEPS)
    with choose_view(picture) as view:
        view.say(f"{STEPS[0]}; input: {len(source.files)} files of {source.folder}")
        try:
            await fleet.up()
            view.say(f"Available; metadata store {fleet.metadata_url}")
            store = await open_store(fleet.metadata_url)
            try:
                async with Client(store) as client:
                    story = Story(
                        fleet, source, store=store, client=client, picture=picture, view=view
                    )
                    await story.tell()
            finally:
                await store.close()
        finally:
            if not options.keep:
                await fleet.down()
    return story.summary


def main() -> None:
    options = arguments()
    started = time.monotonic()
    try:
        summary = asyncio.run(run(options))
    except KeyboardInterrupt:
        print(f"interrupted{'' if options.keep else '; the fleet was taken down'}")
        raise SystemExit(INTERRUPTED) from None
    summary.seconds = round(time.monotonic() - started, 1)
    complaints = summary.judge()
    path = options.dir / "summary.json"
    summary.write(path)
    summary.show(path)
    raise SystemExit(1 if complaints else 0)


if __name__ == "__main__":
    main()
