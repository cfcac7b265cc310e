"""What a watch says and does not say."""

from pathlib import Path

import pytest
from watchdog.events import FileSystemEventHandler
from watchdog.observers import Observer

from certclient._file_watch import watching


async def test_an_event_that_meets_the_end_of_its_watch_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    observer = Observer()
    observer.schedule(FileSystemEventHandler(), str(tmp_path))
    (emitter,) = observer.emitters
    observer.start()
    observer.stop()
    observer.join()
    async with watching():
        emitter.queue_events(0)  # which watchdog logs as an error
    assert caplog.messages == []
