"""BookieTasks of the local platform: `tasks/NAME.yaml` as it was handed in, its status beside it.

One task's mistake stops nobody else's work: it is told, and the others go on.
"""

from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from bookie_operator.errors import LocalError, ManifestError
from bookie_operator.model.manifest import load_task
from bookie_operator.model.task import BookieTask, TaskStatus
from bookie_operator.platform.folders import LocalFolders, read_json, write_json


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
    again."""
    path = _status_file(folders, task.metadata.name)
    try:
        tree = read_json(path)
        status = TaskStatus.model_validate(tree) if tree is not None else None
    except (LocalError, ValidationError) as error:
        raise ManifestError(
            f"found {path} unreadable, so that nobody knows how far task {task.metadata.name} is: "
            "move it and its .yaml away, and hand the task in again if it was not done"
        ) from error
    return task if status is None else task.model_copy(update={"status": status})


def write_status(folders: LocalFolders, task: BookieTask) -> None:
    """Blocking."""
    write_json(_status_file(folders, task.metadata.name), task.status.as_dict())


def delete_task(folders: LocalFolders, name: str) -> None:
    """Blocking."""
    for path in folders.tasks.glob("*.yaml"):
        with suppress(ManifestError):  # reported where tasks are read
            if load_task(path).metadata.name == name:
                path.unlink(missing_ok=True)
    _status_file(folders, name).unlink(missing_ok=True)


def _status_file(folders: LocalFolders, name: str) -> Path:
    return folders.tasks / f"{name}.status.json"
