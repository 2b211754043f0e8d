"""BookieTasks of the local platform: `tasks/NAME.yaml` as it was handed in, its status beside it.

A task gets its uid when it is handed in, and so a later one of the same name is another task, with
jobs of its own. One that release 0.1.0 took has none, nor has one that somebody has put there: they
keep that, since the uid is part of the name of a job that may have begun.

One task's mistake stops nobody else's work: it is reported, and the others go on.
"""

import uuid
from contextlib import suppress
from pathlib import Path

import yaml
from pydantic import ValidationError

from bookie_operator.errors import LocalError, ManifestError, PreconditionError
from bookie_operator.model.manifest import load_task
from bookie_operator.model.task import BookieTask, TaskStatus
from bookie_operator.platform.folders import LocalFolders, read_json, replace_file, write_json


def read_tasks(folders: LocalFolders) -> tuple[list[BookieTask], list[ManifestError]]:
    """The tasks of which all is known, and what is wrong with the others. Blocking."""
    tasks, mistakes = [], []
    for path in sorted(folders.tasks.glob("*.yaml")):
        try:
            tasks.append(_with_status(load_task(path), folders))
        except ManifestError as error:
            mistakes.append(error)
    return tasks, mistakes


def _with_status(task: BookieTask, folders: LocalFolders) -> BookieTask:
    """ManifestError where nobody knows how far it is: a task that was done must not be done
    again. Blocking."""
    path = _status_file(folders, task.metadata.name)
    try:
        tree = read_json(path)
        status = TaskStatus.model_validate(tree) if tree is not None else None
    except (LocalError, ValidationError) as error:
        raise ManifestError(
            f"found {path} unreadable, so that nobody knows how far task {task.metadata.name} is: "
            "delete its .yaml, and hand the task in again if it was not done"
        ) from error
    return task if status is None else task.model_copy(update={"status": status})


def store_task(folders: LocalFolders, task: BookieTask) -> Path:
    """Hand it in, with a uid of its own and without any status; return its file. LocalError while
    there is one of its name. Blocking."""
    name = task.metadata.name
    path = folders.tasks / f"{name}.yaml"
    if path.exists():
        raise LocalError(f"a task {name} already exists: give this one another name")
    metadata = task.metadata.model_copy(update={"uid": str(uuid.uuid4())})
    # Only what is written in it: release 0.1.0 refuses a field that it does not know.
    tree = task.model_copy(update={"metadata": metadata}).model_dump(
        mode="json", by_alias=True, exclude_unset=True, exclude={"status"}
    )
    _status_file(folders, name).unlink(missing_ok=True)  # of a task that is gone
    replace_file(path, yaml.safe_dump(tree, sort_keys=False))
    return path


def write_status(folders: LocalFolders, task: BookieTask) -> None:
    """PreconditionError if it is gone, or another task has its name by now. Blocking."""
    name = task.metadata.name
    if not _files_of(folders, name, task.metadata.uid):
        raise PreconditionError(f"task {name} is gone, or another one by now")
    write_json(_status_file(folders, name), task.status.as_dict())


def delete_task(folders: LocalFolders, name: str, *, uid: str) -> None:
    """Not one that has its name by now. Blocking."""
    for path in _files_of(folders, name, uid):
        path.unlink(missing_ok=True)
        _status_file(folders, name).unlink(missing_ok=True)


def _files_of(folders: LocalFolders, name: str, uid: str) -> list[Path]:
    """The files with this task: it may be in one of another name."""
    return [path for path in folders.tasks.glob("*.yaml") if _is_in(path, name, uid)]


def _is_in(path: Path, name: str, uid: str) -> bool:
    with suppress(ManifestError):  # reported where tasks are read
        found = load_task(path).metadata
        return (found.name, found.uid) == (name, uid)
    return False


def _status_file(folders: LocalFolders, name: str) -> Path:
    return folders.tasks / f"{name}.status.json"
