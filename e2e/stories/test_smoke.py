"""The shortest story, which CI tells: install, apply, kill, clear, read back."""

import pytest
from harness.claims import detected_and_cleared_in_time
from harness.story import Story


@pytest.mark.smoke
@pytest.mark.story("smoke", "install, apply, kill -9, limbo clears, read back, every copy there")
def test_a_crash_ends_with_everything_back(story: Story) -> None:
    story.up()
    story.write(prefill=(40, 20))
    before = story.faults.kill("bookie-1")
    incident = story.fleet.wait_cleared("bookie-1", after=before)
    story.note(incident)
    detected_and_cleared_in_time(story.fleet, incident)
    story.load.goes_on()
    story.nothing_is_lost()
