"""A kubectl that answers from a folder: what the plugin's tests put on PATH.

Run as a program, with the standard library alone. The folder (FAKE_KUBECTL) holds
`objects/PLURAL/NAME.json`; `later/NAME/*.json`, states that a watch of the object brings about, in
their order (`null` deletes it); `ends/TYPE/*.json`, the same for a task that is to be created;
`refused.json`, what it complains about for a verb; and `live`: watches look on until their time is
up, rather than to end with what they know. `calls.jsonl` records every call.
"""

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

FOLDER = Path(os.environ.get("FAKE_KUBECTL", "."))
POLL_S = 0.01
LETTERS = "x7k2p"
"""What the API server would draw by chance for a generateName."""


def main(words: list[str]) -> None:
    options = {w.partition("=")[0]: w.partition("=")[2] for w in words if w.startswith("--")}
    plain = [word for word in words if not word.startswith("--")]
    text = sys.stdin.read() if plain[0] == "create" else ""
    with (FOLDER / "calls.jsonl").open("a") as calls:
        calls.write(json.dumps({"words": words, "text": text}) + "\n")
    refused = FOLDER / "refused.json"
    if refused.exists() and plain[0] in (refusals := json.loads(refused.read_text())):
        fail(refusals[plain[0]])
    if plain[0] == "config":
        context = {"namespace": "books"} if (FOLDER / "objects").exists() else {}
        answer({"contexts": [{"name": "fake", "context": context}]})
    elif plain[0] == "auth":
        answer({"status": {"userInfo": {"username": "ann"}}})
    elif plain[0] == "create":
        answer(create(json.loads(text)))
    elif plain[0] == "patch":
        answer(patch(plain[1], plain[2], json.loads(options["--patch"])))
    elif "--watch" in options:
        watch(plain[1], plain[2], options.get("--request-timeout", ""))
    elif len(plain) > 2:
        answer(json.loads(found(plain[1], plain[2]).read_text()))
    else:
        answer({"kind": "List", "items": listed(plain[1], options.get("--field-selector", ""))})


def fail(complaint: str) -> NoReturn:
    sys.stderr.write(complaint + "\n")
    sys.exit(1)


def answer(tree: Any) -> None:
    print(json.dumps(tree, indent=4))


def shelf(resource: str) -> Path:
    place = FOLDER / "objects" / resource.partition(".")[0]
    if not place.exists():
        fail(f'error: the server doesn\'t have a resource type "{place.name}"')
    return place


def found(resource: str, name: str) -> Path:
    path = shelf(resource) / f"{name}.json"
    if not path.exists():
        fail(f'Error from server (NotFound): {resource} "{name}" not found')
    return path


def listed(resource: str, selector: str) -> list[Any]:
    trees = [json.loads(path.read_text()) for path in sorted(shelf(resource).glob("*.json"))]
    for term in selector.split(",") if selector else []:
        path, _, value = term.partition("=")
        trees = [tree for tree in trees if at(tree, path) == value]
    return trees


def at(tree: Any, path: str) -> Any:
    for step in path.split("."):
        tree = tree.get(step, {})
    return tree


def create(tree: Any) -> Any:
    metadata = tree["metadata"]
    metadata["name"] = metadata["generateName"] + LETTERS
    metadata |= {"resourceVersion": "1", "creationTimestamp": "2026-01-01T00:10:00Z"}
    put(shelf("bookietasks") / f"{metadata['name']}.json", tree)
    ends = FOLDER / "ends" / tree["spec"]["type"]
    if ends.exists():
        shutil.copytree(ends, FOLDER / "later" / metadata["name"])
    return tree


def patch(resource: str, name: str, change: Any) -> Any:
    path = found(resource, name)
    tree = merged(json.loads(path.read_text()), change)
    put(path, tree)
    return tree


def put(path: Path, tree: Any) -> None:
    """Whole at once: another kubectl may read it this moment."""
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps(tree))
    fresh.replace(path)


def merged(tree: Any, change: Any) -> Any:
    """RFC 7386, without its deletions."""
    if not isinstance(tree, dict) or not isinstance(change, dict):
        return change
    return tree | {key: merged(tree.get(key), value) for key, value in change.items()}


def watch(resource: str, name: str, limit: str) -> None:
    path = found(resource, name)
    last = tell("ADDED", path.read_text())
    end = time.monotonic() + float(limit.removesuffix("s") or 3600)
    later = sorted((FOLDER / "later" / name).glob("*.json"))
    while time.monotonic() < end:
        if later:
            step = later.pop(0)
            bring_about(path, json.loads(step.read_text()))
            step.unlink()
        elif not (FOLDER / "live").exists():
            return
        if not path.exists():
            if last:  # and on, as the real one: the name may come back
                tell("DELETED", last)
                last = ""
        elif (now := path.read_text()) != last:
            last = tell("MODIFIED", now)
        time.sleep(POLL_S)


def bring_about(path: Path, change: Any) -> None:
    if change is None:
        path.unlink()
        return
    tree = merged(json.loads(path.read_text()), change)
    version = int(tree["metadata"].get("resourceVersion", 0)) + 1
    tree["metadata"]["resourceVersion"] = str(version)
    put(path, tree)


def tell(kind: str, text: str) -> str:
    print(json.dumps({"type": kind, "object": json.loads(text)}), flush=True)
    return text


if __name__ == "__main__":
    main(sys.argv[1:])
