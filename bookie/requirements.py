"""What the named extras of pyproject.toml need, one requirement a line; for the images.

In a build stage of its own: as long as these lines stay the same, the layer of dependencies does.
"""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
extras = [project["optional-dependencies"][name] for name in sys.argv[1:]]
print(*project["dependencies"], *(line for extra in extras for line in extra), sep="\n")
